"""Random calls of losses, heads, metrics and everything public, against independent references.

``python -m tests.fuzz --calls 100000 --seed 0`` makes many of them, ``test_fuzz.py`` a few.
"""
