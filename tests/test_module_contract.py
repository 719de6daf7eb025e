"""What PyTorch and the frameworks on top of it expect of a module, for every loss and head."""

from __future__ import annotations

import copy
import io
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain
from typing import Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

import head_cases
import loss_cases
import softmargin
from softmargin import _settings
from softmargin.center import CenterLoss

D, C, N = 7, 5, 6


@dataclass
class Case:
    """A module: how it is made and called, and a setting with a value it was not made with."""

    make: Callable[..., nn.Module]
    call: Callable[[nn.Module], torch.Tensor]
    setting: str | None
    other: float = 0.37
    head: bool = True


def _data(like: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
    """Return what the module's tensors can meet: on their device, and in float64 or float32."""
    some = next(chain(like.parameters(), like.buffers()), torch.zeros(()))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(N, D, generator=generator, dtype=torch.float64)
    parameter = next(like.parameters(), x)
    return x.to(parameter.dtype).to(some.device), (torch.arange(N) % C).to(some.device)


def _call_head(head):
    return head(*_data(head))


def _call_loss(loss):
    x, target = _data(loss)
    return loss(x[:, :C].double(), target)


def _cases() -> dict[str, Case]:
    found = {}
    for name, (case, options) in head_cases.EVERY_OPTION.items():
        found[name] = Case(
            lambda case=case, options=options, **place: case.module(D, C, **options, **place),
            _call_head,
            case.state,
        )
    for name, (case, options) in loss_cases.EVERY_OPTION.items():
        found[name] = Case(
            lambda case=case, options=options, **extra: case.module(**options, **extra),
            _call_loss,
            case.setting,
            head=False,
        )
    for update in ("gradient", "running"):
        found[f"CenterLoss-{update}"] = Case(
            lambda update=update, **place: CenterLoss(D, C, 0.5, update=update, **place),
            lambda module: module(*_data(module)),
            "lam",
        )
    return found


CASES = _cases()
each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
with_setting = pytest.mark.parametrize(
    "case", [c for c in CASES.values() if c.setting], ids=[n for n, c in CASES.items() if c.setting]
)
LOSSES = {name: case for name, case in CASES.items() if not case.head}
HEADS = {name: case for name, case in CASES.items() if case.head}


def on_meta(case):
    with torch.device("meta"):
        return case.make()


def numbers(module: Any) -> dict[str, list[float]]:
    return {name: getattr(module, name).tolist() for name in module.settings}


def loaded(module, state, **options):
    """Load without a word about other values, which has a test of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return module.load_state_dict(state, **options)


# --- meta ----------------------------------------------------------------------------------


@each
def test_runs_on_meta(case):
    module = on_meta(case)
    assert all(t.is_meta for t in (*module.parameters(), *module.buffers()))
    assert case.call(module).is_meta
    assert "meta" in repr(module) or not module.settings
    if case.head:
        x, _ = _data(module.eval())
        if not isinstance(module, CenterLoss):
            assert module(x).is_meta


@each
def test_assigning_to_a_module_on_meta_leaves_nothing_there(case):
    first = case.make()
    module = on_meta(case)
    loaded(module, first.state_dict(), assign=True)
    assert numbers(module) == numbers(first)
    torch.testing.assert_close(case.call(module.eval()), case.call(first.eval()))
    if case.setting:
        setattr(module, case.setting, case.other)  # and it is the module's own
        assert getattr(first, case.setting).max() != case.other


@each
def test_to_empty_and_reset_give_a_module_as_made(case):
    module, first = on_meta(case).to_empty(device="cpu"), case.make()
    for reset in (False, True):  # settings are there at once: they need no drawing
        if reset:
            module.reset_parameters()
        if not any(isinstance(v, torch.Tensor) for v in _options(case)):
            assert numbers(module) == numbers(first)
    loaded(module, first.state_dict())
    torch.testing.assert_close(case.call(module.eval()), case.call(first.eval()))


def _options(case):
    defaults = case.make.__defaults__ or ()
    return [v for d in defaults if isinstance(d, dict) for v in d.values()]


@each
def test_reset_parameters_after_to_empty_of_a_real_module(case):
    module, first = case.make(), case.make()
    if case.setting:
        setattr(module, case.setting, case.other)
    module.to_empty(device="cpu")
    module.reset_parameters()
    assert numbers(module) == numbers(first)
    assert case.call(module).isfinite().all()


@with_setting
def test_a_value_set_or_loaded_on_meta_is_there_afterwards(case):
    module = on_meta(case)
    shape = getattr(module, case.setting).shape
    value = torch.full(shape, case.other) if len(shape) else case.other
    setattr(module, case.setting, value)
    module.to_empty(device="cpu")
    assert getattr(module, case.setting).eq(value).all()


@pytest.mark.parametrize("case", HEADS.values(), ids=HEADS)
def test_a_simplex_or_setting_follows_the_device_argument(case):
    head = case.make(device="meta")
    assert {t.device.type for t in (*head.parameters(), *head.buffers())} == {"meta"}
    assert numbers(head.to_empty(device="cpu")) == numbers(case.make())


@pytest.mark.parametrize("case", head_cases.EVERY_HEAD.values(), ids=head_cases.EVERY_HEAD)
def test_skip_init(case):
    head = nn.utils.skip_init(case.module, D, C, **case.options[0])
    head.reset_parameters()
    assert numbers(head) == numbers(case.module(D, C, **case.options[0]))
    assert _call_head(head).isfinite().all()


# --- copies --------------------------------------------------------------------------------


def _stored(module):
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


@each
@pytest.mark.parametrize(
    "copied",
    [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module)), _stored],
    ids=["deepcopy", "pickle", "save"],
)
def test_copies(case, copied):
    module = case.make()
    if case.setting:
        setattr(module, case.setting, case.other)
    other = copied(module)
    assert numbers(other) == numbers(module)
    torch.testing.assert_close(case.call(other.eval()), case.call(module.eval()))
    if case.setting:
        setattr(other, case.setting, 0.9)
        assert numbers(other) != numbers(module)
        other.reset_parameters()
        assert numbers(other) == numbers(case.make())


@each
def test_every_setting_is_in_the_state_dict(case):
    module, other = case.make(), case.make()
    for name in module.settings:
        value = getattr(module, name)
        setattr(module, name, torch.full(value.shape, 0.7) if value.ndim else 0.7)
    state = module.state_dict()
    assert set(module.settings) <= set(state)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded(other, torch.load(file, weights_only=True))
    assert numbers(other) == numbers(module)
    torch.testing.assert_close(case.call(other.eval()), case.call(module.eval()))


@each
def test_settings_may_be_missing_but_nothing_else(case):
    module = case.make()
    before = numbers(module)
    moving = {name for name, setting in module.settings.items() if setting.moves}
    state = {k: v for k, v in module.state_dict().items() if k not in set(before) - moving}
    module.load_state_dict(state)
    assert numbers(module) == before
    with pytest.raises(RuntimeError, match="Unexpected key"):
        module.load_state_dict({**state, "nonsense": torch.zeros(())})
    if state:
        state.popitem()
        with pytest.raises(RuntimeError, match="Missing key"):
            module.load_state_dict(state)


@pytest.mark.parametrize("case", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_checkpoint_of_cross_entropy_loads(case, weighted):
    weight = torch.rand(C, dtype=torch.float64) if weighted else None
    module = case.make(weight=None if weight is None else torch.ones(C, dtype=torch.float64))
    before = numbers(module)
    assert module.load_state_dict(nn.CrossEntropyLoss(weight=weight).state_dict())
    assert numbers(module) == before
    assert weight is None or torch.equal(module.weight, weight)


@with_setting
def test_loading_another_value_is_said_once(case):
    first, second = case.make(), case.make()
    if first.settings[case.setting].moves:
        return
    old = getattr(first, case.setting)
    setattr(first, case.setting, torch.full(old.shape, case.other) if old.ndim else case.other)
    with pytest.warns(UserWarning, match="was made with") as said:
        second.load_state_dict(first.state_dict())
    (warning,) = (each for each in said if each.category is UserWarning)
    message = str(warning.message)
    name = type(first).__name__
    value = _settings.describe(getattr(second, case.setting))
    assert message.startswith(f"{name} was made with {case.setting}=")
    assert f"but now has {case.setting}={value}" in message
    assert warning.filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        case.make().load_state_dict(case.make().state_dict(), strict=not case.head)
        if not old.ndim:
            softmargin.schedules.Constant(second, case.setting, case.other)
            second.load_state_dict(case.make().state_dict(), strict=not case.head)


@with_setting
def test_a_bad_value_in_a_checkpoint_is_refused(case):
    module = case.make()
    before = numbers(module)
    value = getattr(module, case.setting)
    for bad in (torch.full_like(value, torch.nan), torch.zeros(3, 2, dtype=torch.float64)):
        with pytest.raises(RuntimeError, match=case.setting):
            module.load_state_dict({**module.state_dict(), case.setting: bad})
    assert numbers(module) == before


# --- in place ------------------------------------------------------------------------------


@with_setting
def test_a_setting_changes_in_place(case):
    module = case.make()
    value = getattr(module, case.setting)
    address, state = value.data_ptr(), module.state_dict()
    new = torch.full(value.shape, case.other) if value.ndim else case.other
    for put in (
        lambda: setattr(module, case.setting, new),
        module.reset_parameters,
        lambda: loaded(module, {**module.state_dict(), case.setting: torch.full_like(value, 0.9)}),
    ):
        put()
        assert getattr(module, case.setting) is value
        assert value.data_ptr() == address
        assert torch.equal(state[case.setting], value)


@with_setting
def test_a_value_set_before_backward_does_not_touch_the_gradient(case):
    gradients = []
    for change in (False, True):
        torch.manual_seed(0)
        module = case.make().double()
        x, target = _data(module)
        x = (x if case.head else x[:, :C]).clone().requires_grad_()
        loss = module(x, target).square().sum()
        if change:
            for name in module.settings:
                value = getattr(module, name)
                setattr(module, name, torch.full(value.shape, 0.9) if value.ndim else 0.9)
        gradients.append(torch.autograd.grad(loss, (x, *module.parameters())))
    for before, after in zip(*gradients, strict=True):
        assert torch.equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("case", loss_cases.EVERY_LOSS.values(), ids=loss_cases.EVERY_LOSS)
@pytest.mark.parametrize("setting", ["own", "tau"])
def test_compiled_code_sees_new_values_without_new_graphs(case, setting):
    module = case.module(**case.options[0])
    name = case.setting if setting == "own" else setting
    if name not in module.settings:
        pytest.skip("a loss without a temperature")
    torch.compiler.reset()
    graphs = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(module, fullgraph=True, backend=graphs)
    x, target = torch.randn(N, C, dtype=torch.float64), torch.arange(N) % C
    counts = []
    for value in (1.0, 0.5, 0.6, 0.7, 0.8):
        setattr(module, name, value)
        torch.testing.assert_close(compiled(x, target), module(x, target), rtol=1e-12, atol=0)
        counts.append(graphs.frame_count)
    # no new graph, except where a temperature is 1 no longer
    assert len(set(counts[1:])) == 1
    assert name == "tau" or counts[0] == counts[1]


@pytest.mark.parametrize("case", loss_cases.EVERY_LOSS.values(), ids=loss_cases.EVERY_LOSS)
def test_exported_programs_keep_settings_as_buffers(case):
    module = case.module(**{**case.options[0], case.setting: 0.4})
    x, target = torch.randn(N, C, dtype=torch.float64), torch.arange(N) % C
    program = torch.export.export(module, (x, target))
    assert case.setting in program.state_dict
    torch.testing.assert_close(program.module()(x, target), module(x, target))


@pytest.mark.parametrize("backend", ["aot_eager", "eager"])
def test_a_setting_that_compiled_code_changes_is_changed_in_place(backend):
    torch.compiler.reset()
    head = softmargin.heads.AdaCosHead(D, C)
    alone = copy.deepcopy(head)
    scale = head.scale
    compiled = torch.compile(head, fullgraph=True, backend=backend)
    for _ in range(3):
        x, target = torch.randn(N, D), torch.arange(N) % C
        torch.testing.assert_close(compiled(x, target), alone(x, target))
    assert head.scale is scale
    torch.testing.assert_close(scale, alone.scale)
    assert scale != softmargin.heads.AdaCosHead(D, C).scale


def test_a_temperature_of_one_costs_nothing_until_someone_changes_it():
    criterion = softmargin.GradientDecayLoss()
    for fresh in (criterion, copy.deepcopy(criterion), pickle.loads(pickle.dumps(criterion))):
        assert fresh.current("tau") == 1
        assert not isinstance(fresh.current("tau"), torch.Tensor)
        fresh.half()
        assert not isinstance(fresh.current("tau"), torch.Tensor)
        fresh.tau.fill_(2.0)  # behind the module's back
        assert isinstance(fresh.current("tau"), torch.Tensor)
        assert fresh.current("tau") == 2
        fresh.tau = 1.0
        assert not isinstance(fresh.current("tau"), torch.Tensor)
    x, target = torch.randn(N, C), torch.arange(N) % C
    given = {**criterion.state_dict(), "tau": torch.tensor(2.0)}
    expected = softmargin.functional.gradient_decay_loss(x, target, tau=2.0)
    torch.testing.assert_close(torch.func.functional_call(criterion, given, (x, target)), expected)


# --- dtypes and devices --------------------------------------------------------------------


@each
@pytest.mark.parametrize(
    "convert",
    [
        lambda m: m.half().float(),
        lambda m: m.double(),
        lambda m: m.bfloat16(),
        lambda m: m.to(torch.float16).to("cpu"),
        lambda m: m.share_memory(),
    ],
    ids=["half", "double", "bfloat16", "to", "share_memory"],
)
def test_no_conversion_rounds_a_setting(case, convert):
    module = case.make()
    if case.setting:
        setattr(module, case.setting, 0.1)
    before = numbers(module)
    module = convert(module)
    assert numbers(module) == before
    assert {getattr(module, name).dtype for name in before} <= {torch.float64}


def test_sharing_memory_shares_settings():
    assert softmargin.GradientDecayLoss().share_memory().beta.is_shared()


@each
def test_devices_without_float64(case, monkeypatch):
    """The meta device plays one; what it is told to move must be float32 before it moves."""
    monkeypatch.setattr(_settings, "WITHOUT_FLOAT64", {"meta"})
    module = case.make().to("meta")
    assert torch.float64 not in {t.dtype for t in (*module.parameters(), *module.buffers())}
    assert case.call(module).is_meta
    module.to_empty(device="cpu")
    assert {getattr(module, name).dtype for name in module.settings} <= {torch.float64}


def test_a_simplex_is_as_precise_as_its_basis():
    head = softmargin.heads.SimplexHead(D, C)
    for convert in (lambda h: h.double(), lambda h: h.half().double()):
        gram = convert(copy.deepcopy(head)).weight.detach()
        gram = gram @ gram.T
        expected = torch.full((C, C), -1 / (C - 1), dtype=torch.float64).fill_diagonal_(1.0)
        torch.testing.assert_close(gram, expected, rtol=0, atol=1e-14)


def test_settings_made_in_inference_mode_can_be_set_and_trained_with():
    with torch.inference_mode():
        criterion = softmargin.RegularizedSoftmaxLoss(tau=2.0)
    criterion.lam = 0.1
    x = torch.randn(N, C, requires_grad=True)
    criterion(x, torch.arange(N) % C).backward()
    assert x.grad.isfinite().all()
