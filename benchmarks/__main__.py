"""Run every benchmark: ``python -m benchmarks``."""

from benchmarks import heads, imports, losses

losses.main()
heads.main()
imports.main()
