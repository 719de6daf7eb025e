"""Settings of losses and heads: changed in place, compiled, converted."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import loss_cases
import softmargin
from module_cases import C, D, N, data_for, each, loaded, numbers, with_setting
from softmargin import _settings

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
        x, target = data_for(module)
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


@pytest.mark.slow
@pytest.mark.parametrize("case", loss_cases.EVERY_LOSS.values(), ids=loss_cases.EVERY_LOSS)
def test_exported_programs_keep_settings_as_buffers(case):
    module = case.module(**{**case.options[0], case.setting: 0.4})
    x, target = torch.randn(N, C, dtype=torch.float64), torch.arange(N) % C
    program = torch.export.export(module, (x, target))
    assert case.setting in program.state_dict
    torch.testing.assert_close(program.module()(x, target), module(x, target))


@pytest.mark.slow
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
