"""β by feedback: which way it moves, where it stops, and that a resume goes on exactly."""

import io
import math
import warnings

import pytest
import torch
from torch import nn

from softmargin import GradientDecayLoss, MaxHingeLoss, RegularizedSoftmaxLoss
from softmargin.schedules import CalibratedBeta


def rows(scale, right=0.7, n=1000, classes=4, seed=0):
    """Return logits of a given sureness, of which a share is right."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, classes, (n,), generator=generator)
    shown = torch.where(
        torch.rand(n, generator=generator) < right,
        target,
        (target + 1 + torch.randint(0, classes - 1, (n,), generator=generator)) % classes,
    )
    return scale * nn.functional.one_hot(shown, classes).float(), target


CALIBRATED = math.log(0.7 * 3 / 0.3)  # where the shown class has probability 0.7


@pytest.mark.parametrize("signal", ["nll_slope", "overconfidence"])
def test_beta_rises_with_over_confidence_and_falls_with_under_confidence(signal):
    for scale, sign in ((3 * CALIBRATED, 1), (CALIBRATED / 3, -1)):
        controller = CalibratedBeta(criterion := GradientDecayLoss(), lowest=0.01, signal=signal)
        error = controller.update(*rows(scale))
        assert math.copysign(1, error) == sign
        assert math.copysign(1, math.log(float(criterion.beta))) == sign


@pytest.mark.parametrize("signal", ["nll_slope", "overconfidence"])
def test_calibrated_predictions_leave_beta_where_it_is(signal):
    controller = CalibratedBeta(GradientDecayLoss(beta=3.0), signal=signal)
    error = controller.update(*rows(CALIBRATED, n=200_000))
    assert abs(error) < 0.01
    assert float(controller.value) == pytest.approx(3.0, rel=0.01)


def test_the_signal_is_the_slope_of_the_nll():
    logits, target = rows(2.0)
    logits = logits.double() + torch.randn(logits.shape, generator=torch.Generator().manual_seed(1))
    factor = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    nn.functional.cross_entropy(factor * logits, target).backward()
    controller = CalibratedBeta(GradientDecayLoss(), gain=0.5, signal="nll_slope")
    assert controller.update(logits, target) == pytest.approx(float(factor.grad), rel=1e-9)
    assert math.log(float(controller.value)) == pytest.approx(0.5 * float(factor.grad), rel=1e-9)


def test_beta_stays_within_its_bounds_and_says_once_that_the_goal_is_out_of_reach():
    controller = CalibratedBeta(GradientDecayLoss(), gain=100.0, lowest=0.5, highest=20.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        for _ in range(30):
            controller.update(*rows(3 * CALIBRATED))
    (said,) = caught
    assert "stay over-confident" in str(said.message)
    assert "beta = 20" in str(said.message)
    assert float(controller.value) == pytest.approx(20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(2):
            controller.update(*rows(CALIBRATED / 3))
    assert float(controller.value) == pytest.approx(0.5)


def test_each_class_has_a_beta_moved_by_the_rows_predicted_as_it():
    criterion = GradientDecayLoss()
    controller = CalibratedBeta(criterion, num_classes=4, lowest=0.01)
    sure, target = rows(8.0, right=0.9)
    shown = sure.argmax(1)
    sure[shown == 1] /= 20.0  # not sure enough of the second class
    sure[shown == 3] = 0.0  # ties are predicted as the first class: none are left of the last
    controller.update(sure, target)
    assert criterion.beta.shape == (4,)
    assert criterion.beta[2] > 1 > criterion.beta[1]
    assert criterion.beta[3] == 1
    assert criterion(sure, target).isfinite()


def test_a_resume_goes_on_bit_for_bit():
    first, second = GradientDecayLoss(beta=2.0), GradientDecayLoss(beta=2.0)
    one, other = CalibratedBeta(first), CalibratedBeta(second)
    for seed in range(3):
        one.update(*rows(3.0, seed=seed))
    buffer = io.BytesIO()
    torch.save({"beta": one.state_dict(), "loss": first.state_dict()}, buffer)
    buffer.seek(0)
    state = torch.load(buffer, weights_only=True)
    other.load_state_dict(state["beta"])
    second.load_state_dict(state["loss"])
    for seed in range(3, 6):
        one.update(*rows(3.0, seed=seed))
        other.update(*rows(3.0, seed=seed))
    assert torch.equal(one.value, other.value)
    assert torch.equal(first.beta, second.beta)
    assert one.state_dict()["updates"] == other.state_dict()["updates"] == 6


@pytest.mark.slow
def test_training_ends_near_calibrated_where_cross_entropy_does_not():
    def trained(feedback):
        torch.manual_seed(0)
        x, noise = torch.randn(900, 10), torch.randn(900)
        y = (x[:, 0] + 2.0 * noise > 0).long()
        model = nn.Sequential(nn.Linear(10, 100), nn.ReLU(), nn.Linear(100, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        criterion = GradientDecayLoss()
        controller = CalibratedBeta(criterion, highest=1e6)
        for _ in range(600):
            optimizer.zero_grad()
            criterion(model(x[:300]), y[:300]).backward()
            optimizer.step()
            if feedback:
                controller.update(model(x[300:600]), y[300:600])
        p = model(x[600:]).softmax(1)
        return float(p.amax(1).mean() - (p.argmax(1) == y[600:]).double().mean())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert abs(trained(True)) < 0.05 < 0.2 < trained(False)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: CalibratedBeta(nn.Linear(2, 2)), TypeError, "criterion must be a loss with a bet"),
        (lambda: CalibratedBeta(MaxHingeLoss()), TypeError, "but got MaxHingeLoss"),
        (
            lambda: CalibratedBeta(GradientDecayLoss(learn_beta=True)),
            ValueError,
            "criterion must have a beta that is not learned",
        ),
        (lambda: CalibratedBeta(GradientDecayLoss(), gain=0.0), ValueError, "gain must be"),
        (lambda: CalibratedBeta(GradientDecayLoss(), lowest=0.0), ValueError, "lowest must be"),
        (lambda: CalibratedBeta(GradientDecayLoss(), highest=0.001), ValueError, "highest must be"),
        (
            lambda: CalibratedBeta(GradientDecayLoss(), signal="ece"),
            ValueError,
            "signal must be on",
        ),
        (lambda: CalibratedBeta(GradientDecayLoss(), num_classes=1), ValueError, "num_classes mus"),
        (
            lambda: CalibratedBeta(GradientDecayLoss(beta=torch.ones(3))),
            ValueError,
            "num_classes must be given",
        ),
    ],
)
def test_bad_arguments(make, error, message):
    with pytest.raises(error, match=message):
        make()


@pytest.mark.parametrize(
    ("logits", "target", "message"),
    [
        (torch.zeros(99, 3), torch.zeros(99), "at least 100 held-out rows to steer by, but got 99"),
        (torch.zeros(200, 3), torch.zeros(100), "logits must have shape"),
        (torch.full((200, 3), torch.nan), torch.zeros(200), "training diverged"),
    ],
)
def test_bad_rows(logits, target, message):
    controller = CalibratedBeta(criterion := RegularizedSoftmaxLoss())
    with pytest.raises(ValueError, match=message):
        controller.update(logits, target.long())
    assert criterion.beta == 1


def test_bad_states():
    controller = CalibratedBeta(GradientDecayLoss())
    with pytest.raises(ValueError, match="state_dict must hold log_beta"):
        controller.load_state_dict({})
    state = CalibratedBeta(GradientDecayLoss(), num_classes=3).state_dict()
    with pytest.raises(ValueError, match="of 1 values, but got 3"):
        controller.load_state_dict(state)
