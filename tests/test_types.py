"""What a user's type checker sees of settings, and which tensors must be given by name."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import softmargin
from loss_cases import EVERY_LOSS

SNIPPET = """\
import torch
from torch import Tensor
from softmargin import CenterLoss, GradientDecayLoss, RegularizedSoftmaxLoss
from softmargin.calibration import TemperatureScaling, calibration_metrics
from softmargin.functional import gradient_decay_loss
from softmargin.heads import AdaCosHead, ArcFaceHead, GaussianHead, LSoftmaxHead, SimplexHead
from softmargin.schedules import Linear

criterion = GradientDecayLoss(5.0, learn_beta=True)
criterion.beta = 0.5
criterion.beta = torch.tensor([0.5, 1.0])
criterion.tau = 2
beta: Tensor = criterion.beta
tau: float = criterion.tau.item()
RegularizedSoftmaxLoss(beta=0.1).lam = 0.2
head = ArcFaceHead(8, 3, scale=20.0)
head.margin = 0.1
scale: Tensor = head.scale
margin: Tensor = head.margin
AdaCosHead(8, 3).scale.log()
LSoftmaxHead(8, 3).anneal = 3.0
GaussianHead(8, 3).likelihood = 0.1
SimplexHead(8, 3).scale = torch.nn.Parameter(torch.tensor(1.0))
CenterLoss(8, 3).lam = 0.1
x, y = torch.zeros(2, 3), torch.tensor([0, 1])
loss: Tensor = gradient_decay_loss(x, y, 0.1, label_smoothing=0.1)
Linear(criterion, "beta", start=0.1, end=1.0, steps=10).step()
temperature: Tensor = TemperatureScaling().fit(x, y).temperature
ece: float = calibration_metrics(x, y, from_logits=True).ece
"""
WRONG = """\
from softmargin import GradientDecayLoss
from softmargin.functional import gradient_decay_loss
criterion = GradientDecayLoss()
criterion.beta = "0.5"
number: float = criterion.beta
GradientDecayLoss(betta=1.0)
gradient_decay_loss(1.0, 2.0)
"""


pytestmark = pytest.mark.slow
SOURCE = str(Path(softmargin.__file__).parent.parent)
PYRIGHT = shutil.which("pyright")


def mypy(code: str, folder: Path) -> set[int]:
    """Return the lines that mypy complains about."""
    pytest.importorskip("mypy")
    (folder / "snippet.py").write_text(code)
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "snippet.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": SOURCE},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert run.stderr == ""
    return {int(line.split(":")[1]) for line in run.stdout.splitlines() if "error" in line}


def pyright(code: str, folder: Path) -> set[int]:
    """Return the lines that pyright complains about."""
    if PYRIGHT is None:
        pytest.skip("no pyright is installed")
    (folder / "snippet.py").write_text(code)
    settings = {"typeCheckingMode": "strict", "extraPaths": [SOURCE], "include": ["snippet.py"]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    run = subprocess.run(
        [PYRIGHT, "--outputjson", "--pythonpath", sys.executable, "-p", "pyrightconfig.json"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )
    found = json.loads(run.stdout)
    assert found["summary"]["filesAnalyzed"] == 1
    return {each["range"]["start"]["line"] + 1 for each in found["generalDiagnostics"]}


@pytest.mark.slow
@pytest.mark.parametrize("checker", [mypy, pyright])
def test_settings_have_types(checker, tmp_path):
    assert checker(SNIPPET, tmp_path) == set()
    assert checker(WRONG, tmp_path) == {4, 5, 6, 7}


STEERED = "AdaFocalLoss"  # whose γ follow from held-out rows, not from its arguments
each_loss = pytest.mark.parametrize("case", EVERY_LOSS.values(), ids=EVERY_LOSS)


@each_loss
def test_class_weights_by_position_are_refused(case):
    logits, target = torch.randn(4, 5), torch.tensor([0, 1, 2, 3])
    first = next(iter(inspect.signature(case.module).parameters))
    remedy = r"weight=\.\.\. for class weights"
    if case.name == STEERED:
        first = "(bins|gammas)"
    if first == "beta":
        remedy = rf"beta=\.\.\. for one β per class, or {remedy}"
    for tensor in (torch.ones(5), nn.Parameter(torch.ones(5))):
        for call in (
            lambda tensor=tensor: case.module(tensor),
            lambda tensor=tensor: case.function(logits, target, tensor),
        ):
            with pytest.raises(TypeError, match=rf"{first} must not .* \(5,\): pass {remedy}"):
                call()
    for one in (
        () if case.name == STEERED else (0.5, torch.tensor(0.5), nn.Parameter(torch.tensor(0.5)))
    ):
        loss = case.module(one)(logits, target)
        torch.testing.assert_close(loss, case.function(logits, target, one))


@each_loss
def test_a_criterion_is_a_cross_entropy_loss_for_those_who_ask(case):
    criterion = case.module() if case.name == STEERED else case.module(0.5)
    assert isinstance(criterion, nn.CrossEntropyLoss)
    shared = nn.CrossEntropyLoss()
    for name in nn.CrossEntropyLoss.__constants__:
        assert getattr(criterion, name) == getattr(shared, name)
    assert criterion.weight is None
    assert set(criterion.state_dict()) == set(criterion.settings)


@each_loss
def test_signatures_stay_what_they_say(case):
    names = list(inspect.signature(case.function).parameters)
    assert names[:2] == ["input", "target"]
    if case.name != STEERED:
        assert names[2] == next(iter(inspect.signature(case.module).parameters))
    assert case.function.__doc__


LEARNING = {
    "GradientDecayLoss": softmargin.GradientDecayLoss,
    "RegularizedSoftmaxLoss": softmargin.RegularizedSoftmaxLoss,
}


@pytest.mark.parametrize("kind", LEARNING.values(), ids=LEARNING)
@pytest.mark.parametrize(
    "start", [5.0, torch.tensor([0.1, 1.0, 5.0, 2.0, 0.5])], ids=["one", "each"]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_learned_beta_stays_above_0_whatever_the_step(kind, start, dtype):
    criterion = kind(beta=start, learn_beta=True).to(dtype)
    assert [name for name, _ in criterion.named_parameters()] == ["log_beta"]
    torch.testing.assert_close(
        criterion.beta.double(), torch.as_tensor(start).double(), rtol=1e-2, atol=0
    )
    optimizer = torch.optim.SGD(criterion.parameters(), lr=1e6)
    logits, target = torch.randn(8, 5), torch.arange(8) % 5
    for sign in (1, 1, -1, -1, -1, 1):  # down past every bound, and up
        optimizer.zero_grad()
        (sign * criterion(logits, target)).backward()
        assert criterion.log_beta.grad.isfinite().all()
        optimizer.step()
        assert (criterion.beta > 0).all()
        assert criterion.beta.isfinite().all()


@pytest.mark.parametrize("kind", LEARNING.values(), ids=LEARNING)
def test_a_learned_beta_is_the_gradient_of_its_logarithm(kind):
    criterion = kind(beta=0.3, learn_beta=True).double()
    logits, target = torch.randn(8, 5, dtype=torch.float64), torch.arange(8) % 5
    criterion(logits, target).backward()
    beta = criterion.beta.detach().requires_grad_()
    plain = kind()
    loss = plain.__class__.function(logits, target, beta=beta)
    torch.testing.assert_close(criterion.log_beta.grad, torch.autograd.grad(loss, beta)[0] * beta)


def test_a_learned_beta_is_stored_set_shown_and_not_scheduled():
    criterion = softmargin.GradientDecayLoss(beta=5.0, learn_beta=True)
    criterion.beta = 0.25
    torch.testing.assert_close(criterion.log_beta.exp().item(), 0.25)
    assert "beta=0.25, learned" in repr(criterion)
    again = softmargin.GradientDecayLoss(learn_beta=True)
    again.load_state_dict(criterion.state_dict())
    assert torch.equal(again.beta, criterion.beta)
    again.reset_parameters()
    assert again.beta == 1
    with torch.no_grad(), pytest.raises(ValueError, match="a number that is not learned, but"):
        softmargin.schedules.Constant(criterion, "beta", 1.0)
    with pytest.raises(TypeError, match="beta must be a number or a plain tensor where learn_beta"):
        softmargin.GradientDecayLoss(beta=nn.Parameter(torch.tensor(1.0)), learn_beta=True)
    with pytest.raises(ValueError, match="beta must be a finite number above 0, but got 0"):
        softmargin.GradientDecayLoss(beta=0.0, learn_beta=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LEARNING.values(), ids=LEARNING)
def test_a_plain_parameter_below_0_is_never_a_silent_number(kind):
    criterion = kind(beta=nn.Parameter(torch.tensor(1.0)))
    with torch.no_grad():
        criterion.beta.copy_(torch.tensor(-1.0))
    logits, target = torch.randn(8, 5), torch.arange(8) % 5
    with pytest.raises(ValueError, match="beta must be a finite number above 0, but got -1.0"):
        criterion(logits, target)
    torch.compiler.reset()  # where values are not looked at, as on accelerators
    compiled = torch.compile(criterion, fullgraph=True, backend="aot_eager")
    assert compiled(logits, target).isnan()
