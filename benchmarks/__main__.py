"""Run every benchmark: ``python -m benchmarks``."""

from benchmarks import (
    calibration,
    diagnostics,
    ensemble,
    heads,
    imports,
    losses,
    scaling,
    stacked,
    trainer,
)

losses.main()
heads.main()
calibration.main()
scaling.main()
trainer.main()
ensemble.main()
stacked.main()
diagnostics.main()
imports.main()
