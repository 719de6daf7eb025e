"""Schedules against independent formulas, and what training relies on: checks, steps, resume."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from loss_cases import EVERY_LOSS
from schedule_cases import Head, in_loss
from softmargin import GradientDecayLoss, RegularizedSoftmaxLoss
from softmargin.schedules import (
    Constant,
    Cosine,
    Geometric,
    InversePower,
    Linear,
    Piecewise,
    Schedule,
    Schedules,
    a_softmax_annealing,
    l_softmax_annealing,
    lgm_annealing,
)

POINTS = [(0, 0.1), (4, 1.0), (9, 0.5)]
EVERY_KIND = {
    "Constant": lambda m, n: Constant(m, n, 0.3),
    "Linear": lambda m, n: Linear(m, n, start=0.1, end=0.9, steps=7),
    "Geometric": lambda m, n: Geometric(m, n, start=0.9, end=0.01, steps=7),
    "Cosine": lambda m, n: Cosine(m, n, start=0.1, end=0.9, steps=7),
    "Piecewise": lambda m, n: Piecewise(m, n, POINTS),
    "interpolated": lambda m, n: Piecewise(m, n, POINTS, interpolate=True),
    "InversePower": lambda m, n: InversePower(m, n, base=0.9, gamma=0.3, power=2, floor=0.1),
}
each_kind = pytest.mark.parametrize("make", EVERY_KIND.values(), ids=EVERY_KIND)
each_loss = pytest.mark.parametrize("case", EVERY_LOSS.values(), ids=EVERY_LOSS)
numbers = st.floats(1e-6, 1e6)
lengths = st.integers(1, 10**6)


def saved_and_loaded(state):
    stored = io.BytesIO()
    torch.save(state, stored)
    stored.seek(0)
    return torch.load(stored, weights_only=True)


@given(numbers, numbers, lengths, st.floats(0, 1))
def test_ramps_follow_their_formulas(start, end, steps, share):
    t = share * steps
    expected = {
        Linear: start + (end - start) * t / steps,
        Geometric: start * (end / start) ** (t / steps),
        Cosine: end + (start - end) * math.cos(math.pi * t / steps / 2) ** 2,
    }
    for kind, value in expected.items():
        near = pytest.approx(value, rel=1e-9, abs=1e-12 * max(start, end))
        assert in_loss(kind, start, end, steps).value_at(t) == near


@pytest.mark.parametrize("kind", [Linear, Geometric, Cosine])
@given(numbers, numbers, lengths, st.lists(st.floats(0, 2), min_size=2, max_size=20))
def test_ramps_stay_between_their_ends_and_never_turn(kind, start, end, steps, shares):
    schedule = in_loss(kind, start, end, steps)
    assert schedule.value_at(0) == schedule.value_at(-3) == start
    assert schedule.value_at(steps) == schedule.value_at(10 * steps) == end
    values = np.array([schedule.value_at(share * steps) for share in sorted(shares)])
    assert ((values >= min(start, end)) & (values <= max(start, end))).all()
    rises = np.diff(values) * (1 if end >= start else -1)
    assert (rises >= -1e-12 * max(start, end)).all()


def test_linear_is_the_warm_up_of_the_paper():
    """GD eq. 24 from 0.01 to 0.1, with the constant value after it."""
    criterion = GradientDecayLoss()
    warm_up = Linear(criterion, "beta", start=0.01, end=0.1, steps=4)
    seen = []
    for _ in range(6):
        seen.append(criterion.beta.item())
        warm_up.step()
    assert seen == pytest.approx([0.01, 0.0325, 0.055, 0.0775, 0.1, 0.1])


def test_geometric_is_linear_in_the_margin():
    schedule = in_loss(Geometric, 1e-8, 10.0, 50)
    margins = [-math.log(schedule.value_at(step)) for step in range(51)]
    assert np.diff(margins) == pytest.approx(-math.log(1e9) / 50)


def test_geometric_spans_all_that_floats_can():
    schedule = in_loss(Geometric, 1e-300, 1e300, 2)
    assert schedule.value_at(1) == pytest.approx(1.0)


@given(st.dictionaries(st.integers(0, 1000), numbers, min_size=1, max_size=6), st.floats(-5, 1100))
def test_piecewise_holds_or_joins_its_points(points, step):
    points = sorted(points.items())
    held = points[0][1]
    for at, value in points:
        held = value if step >= at else held
    assert in_loss(Piecewise, points).value_at(step) == held
    joined = in_loss(Piecewise, points, interpolate=True)
    assert joined.value_at(step) == pytest.approx(np.interp(step, *zip(*points, strict=True)))


@given(numbers, st.floats(1e-6, 10), st.floats(0.1, 40), st.floats(0, 1), st.floats(0, 1e6))
def test_inverse_power_follows_its_formula(base, gamma, power, share, step):
    schedule = InversePower(Head(), "anneal", base, gamma, power, floor=share * base)
    expected = max(share * base, base * (1 + gamma * step) ** -power)
    assert schedule.value_at(step) == pytest.approx(expected, rel=1e-7, abs=1e-300)
    assert schedule.value_at(step + 1) <= schedule.value_at(step)


@pytest.mark.parametrize(
    ("annealing", "gamma", "power", "floor"),
    [(l_softmax_annealing, 2.5e-5, 35, 0), (a_softmax_annealing, 0.12, 1, 5)],
)
def test_angular_annealing_has_the_authors_numbers(annealing, gamma, power, floor):
    head = Head()
    schedule = annealing(head)
    for step in range(100):
        expected = max(floor, 1000 / (1 + gamma * step) ** power)
        assert head.anneal.item() == pytest.approx(expected, rel=1e-12)
        schedule.step()
    assert schedule.value_at(10**7) == pytest.approx(floor, abs=1e-12)
    assert annealing(head, base=20, floor=2).value_at(0) == 20
    assert head.anneal == 20


def test_lgm_annealing_has_the_authors_numbers():
    head = Head()
    schedule = lgm_annealing(head)
    seen = []
    for step in range(15001):
        if step % 5000 in (0, 4999):
            seen.append(head.margin.item())
        schedule.step()
    assert seen == [0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.3]
    other = lgm_annealing(head, start=0.05, factor=3, every=10, maximum=0.5)
    assert [other.value_at(s) for s in (0, 10, 20, 30)] == pytest.approx([0.05, 0.15, 0.45, 0.5])


@each_loss
@each_kind
def test_every_loss_can_be_scheduled(case, make):
    criterion = case.module(**{case.setting: 0.7})
    schedule = make(criterion, case.setting)
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    for step in range(12):
        setting = getattr(criterion, case.setting)
        assert setting.item() == schedule.value_at(step) == schedule.value
        assert schedule.steps_taken == step
        expected = case.function(logits, target, **{case.setting: schedule.value})
        torch.testing.assert_close(criterion(logits, target), expected)
        schedule.step()


@each_kind
@pytest.mark.parametrize("name", ["beta", "tau", "label_smoothing"])
@pytest.mark.parametrize("stop", [0, 3, 20])
def test_resume_is_exact(make, name, stop):
    """Also where the attribute is not in the module's state_dict: the schedule knows."""

    def value(criterion):
        return float(getattr(criterion, name))

    first = GradientDecayLoss()
    schedule = make(first, name)
    for _ in range(stop):
        schedule.step()
    state = saved_and_loaded(schedule.state_dict())
    second = GradientDecayLoss()
    resumed = make(second, name)
    resumed.load_state_dict(state)
    for _ in range(6):
        assert value(second) == value(first)
        assert resumed.steps_taken == schedule.steps_taken
        resumed.step()
        schedule.step()


def test_the_state_of_module_and_schedule_agree_in_any_order():
    first = GradientDecayLoss()
    schedule = Linear(first, "beta", start=0.1, end=1.0, steps=7)
    for _ in range(3):
        schedule.step()
    states = {"criterion": first.state_dict(), "schedule": schedule.state_dict()}
    states = saved_and_loaded(states)
    for order in (("criterion", "schedule"), ("schedule", "criterion")):
        second = GradientDecayLoss()
        parts = {
            "criterion": second,
            "schedule": Linear(second, "beta", start=0.1, end=1.0, steps=7),
        }
        for part in order:
            parts[part].load_state_dict(states[part])
        assert second.beta.item() == first.beta.item()


def several(criterion, center):
    return Schedules(
        [
            Linear(criterion, "beta", start=0.1, end=1.0, steps=10),
            Cosine(criterion, "lam", start=0.3, end=0.0, steps=20),
            Geometric(center, "anneal", start=1e-3, end=1e-1, steps=5),
        ]
    )


def test_several_step_save_and_load_as_one():
    first, first_head = RegularizedSoftmaxLoss(), Head()
    schedules = several(first, first_head)
    for _ in range(4):
        schedules.step()
    assert [schedule.steps_taken for schedule in schedules] == [4, 4, 4]
    second, second_head = RegularizedSoftmaxLoss(), Head()
    resumed = several(second, second_head)
    resumed.load_state_dict(saved_and_loaded(schedules.state_dict()))
    for _ in range(3):
        assert second.beta.item() == first.beta.item()
        assert second.lam.item() == first.lam.item()
        assert second_head.anneal.item() == first_head.anneal.item()
        schedules.step()
        resumed.step()
    assert len(schedules) == 3
    assert "Cosine(RegularizedSoftmaxLoss.lam, start=0.3, end=0, steps=20)" in repr(schedules)


def test_several_load_all_or_nothing():
    schedules = several(RegularizedSoftmaxLoss(), Head())
    state = schedules.state_dict()
    state["schedules"][0]["steps_taken"] = 5
    state["schedules"][2]["name"] = "margin"
    with pytest.raises(ValueError, match="schedule over 'anneal', but got one over 'margin'"):
        schedules.load_state_dict(state)
    assert [schedule.steps_taken for schedule in schedules] == [0, 0, 0]
    with pytest.raises(ValueError, match="states of 3 schedules, but got 0"):
        schedules.load_state_dict({})


def test_several_must_differ():
    criterion = GradientDecayLoss()
    beta = [Constant(criterion, "beta", 0.1), Constant(criterion, "beta", 0.2)]
    with pytest.raises(ValueError, match=r"but got two over GradientDecayLoss\.beta"):
        Schedules(beta)
    with pytest.raises(TypeError, match="schedules must hold schedules, but got 'beta'"):
        Schedules(["beta"])


@pytest.mark.slow
def test_moving_a_setting_does_not_recompile():
    torch.compiler.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    criterion = GradientDecayLoss()
    compiled = torch.compile(criterion, fullgraph=True, backend=graphs)
    schedule = Linear(compiled, "beta", start=0.1, end=1.0, steps=4)
    logits, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    compiled_once = 0
    for _ in range(5):
        torch.testing.assert_close(compiled(logits, target), criterion(logits, target))
        compiled_once = compiled_once or graphs.frame_count
        schedule.step()
    assert criterion.beta.item() == 1.0
    assert graphs.frame_count == compiled_once > 0


def test_a_graph_from_before_the_step_stays_valid():
    criterion = GradientDecayLoss()
    schedule = Linear(criterion, "beta", start=0.1, end=1.0, steps=4)
    logits = torch.randn(4, 3, requires_grad=True)
    loss = criterion(logits, torch.tensor([0, 1, 2, 0]))
    schedule.step()
    loss.backward()
    assert logits.grad.isfinite().all()


def test_plain_attributes_of_any_module():
    criterion = nn.CrossEntropyLoss()
    schedule = Linear(criterion, "label_smoothing", start=0.2, end=0, steps=2)
    schedule.step()
    assert criterion.label_smoothing == 0.1


@pytest.mark.parametrize("number", [torch.tensor(0.25), np.float32(0.25), 0.25])
def test_numbers_of_any_kind(number):
    criterion = GradientDecayLoss()
    Piecewise(criterion, "beta", [(np.int64(0), number), (5, 1)])
    assert criterion.beta == 0.25
    assert Linear(criterion, "beta", criterion.beta, end=number, steps=np.int64(3)).value_at(1)


@each_kind
def test_plots_a_labelled_line(make):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    schedule = make(GradientDecayLoss(), "beta")
    for axes in (schedule.plot(figure.add_subplot()), schedule.plot(figure.add_subplot(), 30)):
        (line,) = axes.lines
        assert line.get_label() == "GradientDecayLoss.beta"
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "beta")
        x, y = line.get_data()
        assert list(y) == [schedule.value_at(step) for step in x]
        assert x[0] == 0
    assert x[-1] == 30


def test_plots_long_schedules_on_axes_of_their_own():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    (line,) = l_softmax_annealing(Head()).plot().lines
    assert len(line.get_xdata()) == 1001
    assert line.get_ydata()[-1] < 0.02 * line.get_ydata()[0]
    pyplot.close("all")


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r'pip install "softmargin\[lab\]"'):
        in_loss(Constant, 0.1).plot()


@each_kind
def test_repr_says_what_moves_and_where_it_is(make):
    schedule = make(GradientDecayLoss(), "beta")
    schedule.step()
    assert repr(schedule).startswith(f"{type(schedule).__name__}(GradientDecayLoss.beta, ")
    assert repr(schedule).endswith(f": {schedule.value:g} at step 1")


def test_a_schedule_of_ones_own():
    class Saw(Schedule):
        length = 10.0

        def __init__(self, module, name, top):
            self.top = top
            super().__init__(module, name, (top, top / 2))

        def value_at(self, step):
            return self.top * (1 - step % 5 / 10)

    criterion = GradientDecayLoss()
    schedule = Saw(criterion, "beta", top=2.0)
    for _ in range(4):
        schedule.step()
    assert criterion.beta.item() == pytest.approx(1.2)
    assert repr(schedule) == "Saw(GradientDecayLoss.beta, top=2): 1.2 at step 4"
