"""Run what ``softmargin bench`` does not: ``python -m benchmarks``."""

from benchmarks import (
    calibration,
    diagnostics,
    heads,
    imports,
    scaling,
    stacked,
    trainer,
)

heads.main()
calibration.main()
scaling.main()
trainer.main()
stacked.main()
diagnostics.main()
imports.main()
