"""Run what ``softmargin bench`` does not: ``python -m benchmarks``."""

from benchmarks import (
    calibration,
    diagnostics,
    imports,
    scaling,
    stacked,
    trainer,
)

calibration.main()
scaling.main()
trainer.main()
stacked.main()
diagnostics.main()
imports.main()
