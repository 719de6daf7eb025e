"""Run every benchmark: ``python -m benchmarks``."""

from benchmarks import imports, losses

losses.main()
imports.main()
