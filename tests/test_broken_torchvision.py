"""A torchvision that was built for another PyTorch is common; nothing here may stumble over it."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import softmargin

# what a mismatched build raises at import
FAILURES = {
    "operator": 'raise RuntimeError("operator torchvision::nms does not exist")',
    "library": 'raise OSError("_C.so: undefined symbol: _ZN3c106detail23torchInternalAssertFail")',
}
CORE = """
import sys
import torch
import softmargin
from softmargin import (
    calibration, center, charts, data, diagnostics, functional, heads, losses, models, schedules,
    theory, training,
)
from softmargin.integrations import boosting, loggers
try:
    import torchvision
except (OSError, RuntimeError):
    pass
else:
    raise SystemExit("torchvision is not broken")

criterion = softmargin.GradientDecayLoss(5.0)
head = heads.ArcFaceHead(4, 3)
x, y = torch.randn(12, 4), torch.arange(12) % 3
criterion(head(x, y), y).backward()
logits = head.eval()(x).detach()
calibration.calibration_metrics(logits, y, from_logits=True)
calibration.TemperatureScaling().fit(logits, y).transform(logits)
"""
TRAINING = """
from softmargin.estimators import MarginClassifier
from softmargin.training import TrainingConfig, train_together
MarginClassifier(epochs=2).fit(x.numpy(), y.numpy()).predict_proba(x.numpy())
train_together([TrainingConfig("iris", "mlp", epochs=1)])
from softmargin.cli import main
sys.exit(main(["train", "--out", "run", "--data", "iris", "--model", "mlp", "--epochs", "1"]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("failure", FAILURES)
def test_the_core_works_beside_a_broken_torchvision(failure, tmp_path):
    package = tmp_path / "broken" / "torchvision"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(FAILURES[failure])
    places = [str(package.parent), str(Path(softmargin.__file__).parents[1])]
    done = subprocess.run(
        [sys.executable, "-c", CORE + (TRAINING if find_spec("sklearn") else "")],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
