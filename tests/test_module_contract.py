"""What PyTorch and the frameworks on top of it expect of a module, for every loss and head."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
from torch import nn

import head_cases
import softmargin
from module_cases import (
    HEADS,
    LOSSES,
    C,
    D,
    call_head,
    data_for,
    each,
    loaded,
    numbers,
    with_setting,
)
from softmargin import _settings
from softmargin.center import CenterLoss


def on_meta(case):
    with torch.device("meta"):
        return case.make()


# --- meta ----------------------------------------------------------------------------------


@each
def test_runs_on_meta(case):
    module = on_meta(case)
    assert all(t.is_meta for t in (*module.parameters(), *module.buffers()))
    assert case.call(module).is_meta
    assert "meta" in repr(module) or not module.settings
    if case.head:
        x, _ = data_for(module.eval())
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
    assert call_head(head).isfinite().all()


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
