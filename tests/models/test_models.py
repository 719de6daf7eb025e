"""What holds for every network, by the rows of ``model_cases.py``."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from model_cases import EVERY_MODEL
from torch import nn

from softmargin.models import (
    MODELS,
    ImageNetwork,
    build,
    has_batch_norm,
    parameter_count,
    to_channels_last,
)

each_model = pytest.mark.parametrize("case", EVERY_MODEL.values(), ids=EVERY_MODEL)


def make(case):
    return build(case.name, case.shape, **case.options)


def sample(case, count=3):
    return torch.randn(count, *case.shape)


def without_dropout(model):
    """Return the model in training mode, without chance."""
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()
    return model


def test_every_name_has_a_row():
    assert {case.name for case in EVERY_MODEL.values()} == set(MODELS)


@each_model
def test_features_and_gradients_reach_every_parameter(case):
    model = make(case)
    features = model(sample(case))
    assert features.shape == (3, model.out_features)
    assert features.dtype == torch.float32
    (features * torch.randn_like(features)).sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.any(), name


@pytest.mark.slow
@each_model
def test_compiles_as_one_graph(case):
    torch.compiler.reset()
    model, x = without_dropout(make(case)), sample(case)
    expected = copy.deepcopy(model)(x)
    torch.testing.assert_close(torch.compile(model, fullgraph=True, backend="eager")(x), expected)


@pytest.mark.slow
@each_model
def test_state_survives_a_file_and_evaluation_repeats(case):
    model, x = make(case), sample(case)
    model(x)  # moves the running statistics
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = make(case)
    other.load_state_dict(torch.load(file, weights_only=True))
    model.eval(), other.eval()
    features = model(x)
    assert features.equal(model(x))
    assert features.equal(other(x))
    torch.testing.assert_close(features[:1], model(x[:1]))  # no sample sees another


@pytest.mark.slow
@each_model
def test_the_seed_decides_the_weights(case):
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(nn.utils.parameters_to_vector(make(case).parameters()))
    assert states[0].equal(states[1])
    assert not states[0].equal(states[2])


@pytest.mark.slow
@each_model
def test_bfloat16_autocast(case):
    model, x = without_dropout(make(case)), sample(case)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features = model(x)
    features.float().sum().backward()
    assert features.isfinite().all()
    for parameter in model.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad.isfinite().all()


@each_model
def test_channels_last_changes_no_value(case):
    model, x = make(case).double().eval(), sample(case).double()
    expected = model(x)
    assert to_channels_last(model) is model
    for parameter in model.parameters():
        assert parameter.ndim != 4 or parameter.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(model(x), expected)


@each_model
def test_batch_norm_is_seen(case):
    model = make(case)
    assert has_batch_norm(model) == any("running_mean" in key for key in model.state_dict())
    assert has_batch_norm(nn.Sequential(nn.Identity(), model)) == has_batch_norm(model)


@each_model
def test_wrong_input_is_refused_in_one_sentence(case):
    model = make(case)
    with pytest.raises(TypeError, match="x must be a floating-point tensor, but got torch.uint8."):
        model(torch.zeros(2, *case.shape, dtype=torch.uint8))
    wrong = torch.zeros(2, case.shape[0] + 1, *case.shape[1:])
    with pytest.raises(ValueError, match=r"x must have shape \(N, .* but got \(2, .*\)\.$"):
        model(wrong)
    with pytest.raises(ValueError, match=r"x must have shape \(N, .* but got"):
        model(torch.zeros(3))


@each_model
def test_the_smallest_image_passes_and_one_below_does_not(case):
    model = make(case).eval()
    if not isinstance(model, ImageNetwork):
        return
    least = model.least_size
    assert model(torch.randn(1, case.shape[0], least, least)).isfinite().all()
    message = f"x must hold images of at least {least} by {least} for this .*, but got {least} by"
    with pytest.raises(ValueError, match=message):
        model(torch.randn(1, case.shape[0], least, least - 1))
    with pytest.raises(ValueError, match=message.replace("x must", "input_shape must")):
        build(case.name, (case.shape[0], least, least - 1), **case.options)


@pytest.mark.parametrize("name", ["fcnn", "small_resnet", "convnet13"])
def test_training_lowers_the_loss(name):
    case = EVERY_MODEL[name]
    network = make(case)
    model = nn.Sequential(network, nn.Linear(network.out_features, 3))
    x, target = sample(case, 12), torch.arange(12) % 3
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in range(15):
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_many_fully_connected_networks_run_as_one():
    case = EVERY_MODEL["mlp"]
    models = [make(case) for _ in range(3)]
    x = sample(case)
    parameters, buffers = torch.func.stack_module_state(models)

    def call(p, b):
        return torch.func.functional_call(models[0], (p, b), (x,))

    together = torch.func.vmap(call)(parameters, buffers)
    torch.testing.assert_close(together, torch.stack([model(x) for model in models]))


def test_parameter_count():
    assert parameter_count(nn.Linear(3, 4)) == 16
