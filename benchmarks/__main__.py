"""Run every benchmark: ``python -m benchmarks``."""

from benchmarks import calibration, diagnostics, ensemble, heads, imports, losses, scaling, trainer

losses.main()
heads.main()
calibration.main()
scaling.main()
trainer.main()
ensemble.main()
diagnostics.main()
imports.main()
