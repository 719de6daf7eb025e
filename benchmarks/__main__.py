"""Run every benchmark: ``python -m benchmarks``."""

from benchmarks import calibration, heads, imports, losses, scaling, trainer

losses.main()
heads.main()
calibration.main()
scaling.main()
trainer.main()
imports.main()
