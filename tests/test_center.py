"""Center loss against slow Python, in both ways its centers can move."""

from __future__ import annotations

import io
import math

import pytest
import torch
from torch import distributed, multiprocessing, nn
from torch.autograd import gradcheck, gradgradcheck

from softmargin.center import CenterLoss
from softmargin.schedules import Linear

NUM_CLASSES, SIZE = 4, 3
both = pytest.mark.parametrize("update", ["gradient", "running"])


def sample(number=9, dtype=torch.float64):
    target = torch.randint(0, NUM_CLASSES, (number,))
    target[1] = -100
    return torch.randn(number, SIZE, dtype=dtype) * 2, target


def center_loss(update="gradient", lam=0.4, **options):
    """Return the loss with centers that are far from each other and from 0."""
    module = CenterLoss(SIZE, NUM_CLASSES, lam, update=update, dtype=torch.float64, **options)
    with torch.no_grad():
        module.centers.copy_(torch.randn(NUM_CLASSES, SIZE))
    return module


def slow_loss(features, target, centers, lam, ignore_index=-100):
    total, count = 0.0, 0
    for x, y in zip(features.tolist(), target.tolist(), strict=True):
        if y != ignore_index:
            total += sum((a - b) ** 2 for a, b in zip(x, centers[y], strict=True))
            count += 1
    return lam / 2 * total / count


def slow_update(features, target, centers, rate, ignore_index=-100):
    """Wen et al.'s rule, class by class."""
    moved = []
    for j, center in enumerate(centers):
        members = [
            x
            for x, y in zip(features.tolist(), target.tolist(), strict=True)
            if y == j and y != ignore_index
        ]
        moved.append(
            [
                c - rate * sum(c - x[d] for x in members) / (1 + len(members))
                for d, c in enumerate(center)
            ]
        )
    return moved


@both
@pytest.mark.parametrize("ignore_index", [-100, 2, 255])
def test_equals_a_slow_reference(update, ignore_index):
    module = center_loss(update, ignore_index=ignore_index)
    features, target = sample()
    target[1] = ignore_index
    expected = slow_loss(features, target, module.centers.tolist(), 0.4, ignore_index)
    assert module(features, target).item() == pytest.approx(expected, rel=1e-13)


def test_targets_may_be_bytes():
    module = center_loss(ignore_index=255)
    features, target = sample()
    target[1] = 255
    assert torch.equal(module(features, target.to(torch.uint8)), module(features, target))


@pytest.mark.parametrize("ignored", [False, True])
def test_gradients(ignored):
    module = center_loss()
    features, target = sample(5)
    target = target if ignored else target.clamp(min=0)
    lam = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)

    def loss(x, centers, lam):
        state = {"centers": centers, "lam": lam}
        return torch.func.functional_call(module, state, (x, target))

    inputs = features.requires_grad_(), module.centers.detach().requires_grad_(), lam
    assert gradcheck(loss, inputs, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(loss, inputs)


def test_running_centers_take_no_gradient():
    module = center_loss("running").eval()
    features, target = sample(5)
    features.requires_grad_()
    assert gradcheck(lambda x: module(x, target), features)
    assert gradgradcheck(lambda x: module(x, target), features)
    assert not list(module.parameters())
    assert not module.centers.requires_grad


def test_running_centers_move_by_the_rule_step_by_step():
    module = center_loss("running", rate=0.3)
    centers = module.centers.tolist()
    for _ in range(6):
        features, target = sample()
        features.requires_grad_()
        before = slow_loss(features, target, centers, 0.4)
        centers_before = torch.tensor(centers, dtype=torch.float64)
        loss = module(features, target)
        assert loss.item() == pytest.approx(before, rel=1e-13)  # with the old centers
        centers = slow_update(features, target, centers, 0.3)
        torch.testing.assert_close(
            module.centers, torch.tensor(centers, dtype=torch.float64), rtol=1e-12, atol=1e-14
        )
        loss.backward()  # after the centers have moved: still the gradient at the old ones
        gaps = features.detach() - centers_before[target.clamp(min=0)]
        expected = (0.4 / 8 * gaps).masked_fill(target.unsqueeze(1) == -100, 0.0)
        torch.testing.assert_close(features.grad, expected, rtol=1e-12, atol=1e-14)


def test_running_centers_reach_the_means_of_their_classes():
    torch.manual_seed(1)
    module = CenterLoss(SIZE, NUM_CLASSES, update="running", dtype=torch.float64)
    target = torch.arange(NUM_CLASSES).repeat(5)
    features = torch.randn(len(target), SIZE, dtype=torch.float64)
    for _ in range(100):
        module(features, target)
    means = features.view(5, NUM_CLASSES, SIZE).mean(0)
    torch.testing.assert_close(module.centers, means)


def test_gradient_descent_moves_learned_centers_to_the_means():
    module = CenterLoss(SIZE, NUM_CLASSES, lam=1.0)
    target = torch.arange(NUM_CLASSES).repeat(5)
    features = torch.randn(len(target), SIZE)
    optimizer = torch.optim.SGD(module.parameters(), lr=2.0)
    for _ in range(100):
        optimizer.zero_grad()
        module(features, target).backward()
        optimizer.step()
    means = features.view(5, NUM_CLASSES, SIZE).mean(0)
    torch.testing.assert_close(module.centers.detach(), means, rtol=1e-4, atol=1e-5)


@both
def test_eval_leaves_the_centers_alone(update):
    module = center_loss(update).eval()
    before = module.centers.detach().clone()
    module(*sample())
    assert torch.equal(module.centers, before)


def test_initial_centers():
    learned = CenterLoss(50, 40)
    assert isinstance(learned.centers, nn.Parameter)
    assert learned.centers.std().item() == pytest.approx(0.01, rel=0.1)
    running = CenterLoss(50, 40, update="running")
    assert not running.centers.any()
    running(torch.randn(4, 50), torch.arange(4))
    running.reset_parameters()
    assert not running.centers.any()
    placed = CenterLoss(2, 3, device="meta", dtype=torch.float16)
    assert {placed.centers.device.type, placed.lam.device.type} == {"meta"}
    assert placed.centers.dtype == torch.float16


def _train(rank, world, rendezvous, features, target, results):
    """Two steps of one of ``world`` processes with its share of every batch."""
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=world
    )
    module = CenterLoss(SIZE, NUM_CLASSES, update="running", dtype=torch.float64)
    losses = [
        module(x.chunk(world)[rank], y.chunk(world)[rank])
        for x, y in zip(features, target, strict=True)
    ]
    torch.save((module.centers, torch.stack(losses)), f"{results}/{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.slow
@pytest.mark.skipif(not distributed.is_gloo_available(), reason="needs gloo")
def test_two_processes_equal_one_with_the_joined_batch(tmp_path):
    steps, number = 3, 10
    features = torch.randn(steps, number, SIZE, dtype=torch.float64)
    target = torch.randint(0, NUM_CLASSES - 1, (steps, number))  # and a class that never occurs
    target[:, 2] = target[:, 7] = -100
    target[1, :5] = -100  # one process with nothing to say
    alone = CenterLoss(SIZE, NUM_CLASSES, update="running", dtype=torch.float64)
    losses = torch.stack([alone(x, y) for x, y in zip(features, target, strict=True)])
    arguments = (2, str(tmp_path / "rendezvous"), features, target, str(tmp_path))
    multiprocessing.spawn(_train, arguments, nprocs=2)
    parts = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for centers, _ in parts:
        torch.testing.assert_close(centers, alone.centers, rtol=1e-12, atol=1e-12)
    means = (parts[0][1] + parts[1][1]) / 2
    torch.testing.assert_close(means[[0, 2]], losses[[0, 2]], rtol=1e-12, atol=1e-12)


@both
def test_state_dict_keeps_centers_and_settings(update):
    first = center_loss(update, lam=0.7, rate=0.2)
    first(*sample())
    stored = io.BytesIO()
    torch.save(first.state_dict(), stored)
    stored.seek(0)
    second = CenterLoss(SIZE, NUM_CLASSES, update=update, dtype=torch.float64)
    second.load_state_dict(torch.load(stored, weights_only=True))
    assert second.state_dict().keys() == {"centers", "lam", "rate"}
    assert (second.lam.item(), second.rate.item()) == (0.7, 0.2)
    features, target = sample()
    for _ in range(2):  # goes on the same
        assert torch.equal(second(features, target), first(features, target))
    assert torch.equal(second.centers, first.centers)


@both
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("whole", [False, True])
def test_half_precision(update, dtype, whole):
    """Half features, alone (as from autocast) or with half centers: computed in float32."""
    features, target = sample(dtype=torch.float32)
    half = (features * 300).to(dtype).requires_grad_()  # squares overflow float16
    module = center_loss(update).to(dtype if whole else torch.float32)
    exact = CenterLoss(SIZE, NUM_CLASSES, lam=0.4, update=update, dtype=torch.float64)
    exact.centers.data.copy_(module.centers)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=not whole):
        loss = module(half, target)
    loss.backward()
    assert loss.dtype == torch.float32
    assert half.grad.dtype == dtype
    assert half.grad.isfinite().all()
    assert module.centers.dtype == (dtype if whole else torch.float32)
    assert module.centers.isfinite().all()
    assert module.lam.item() == 0.4
    x = half.detach().double().requires_grad_()
    expected = exact(x, target)
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    near = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 1e-3}
    torch.testing.assert_close(half.grad.double(), x.grad, **near)
    torch.testing.assert_close(module.centers.double(), exact.centers, **near)


@pytest.mark.slow
@both
@pytest.mark.parametrize("training", [False, True])
def test_compiles_to_one_graph(update, training):
    torch.compiler.reset()
    module, twin = center_loss(update), center_loss(update)
    twin.load_state_dict(module.state_dict())
    compiled = torch.compile(twin.train(training), fullgraph=True, backend="aot_eager")
    module.train(training)
    for _ in range(3):
        features, target = sample()
        gradients = []
        for function in (module, compiled):
            x = features.clone().requires_grad_()
            function(x, target).backward()
            gradients.append(x.grad)
        torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(module.centers, twin.centers, rtol=1e-12, atol=1e-14)


@both
def test_vmap_over_models(update):
    module = center_loss(update).eval()
    features, target = sample()
    centers = torch.randn(5, NUM_CLASSES, SIZE, dtype=torch.float64)

    def loss(centers):
        return torch.func.functional_call(module, {"centers": centers}, (features, target))

    expected = torch.stack([loss(each) for each in centers])
    torch.testing.assert_close(torch.func.vmap(loss)(centers), expected)


def test_running_centers_say_that_they_do_not_move_in_transforms():
    module = center_loss("running")
    features, target = sample()
    with pytest.raises(RuntimeError, match=r'update="running" cannot move .* call \.eval'):
        torch.func.grad(lambda x: module(x, target))(features)


@both
def test_all_ignored_means_what_torch_means(update):
    module = center_loss(update)
    before = module.centers.detach().clone()
    features, _ = sample()
    features.requires_grad_()
    loss = module(features, torch.full((9,), -100))
    loss.backward()
    assert loss.isnan()
    assert not features.grad.any()
    assert torch.equal(module.centers, before)
    assert module(features[:0], torch.zeros(0, dtype=torch.long)).isnan()


def test_what_is_ignored_may_be_nan():
    module = center_loss("running")
    features, target = sample()
    features[1] = math.nan
    features.requires_grad_()
    module(features, target).backward()
    assert features.grad.isfinite().all()
    assert module.centers.isfinite().all()


def test_memory_does_not_grow_with_samples_times_classes():
    """10 000 samples times 10 000 centers times 8 features would be 3 GB."""
    module = CenterLoss(8, 10_000)
    features = torch.randn(10_000, 8, requires_grad=True)
    with torch.profiler.profile(profile_memory=True) as profile:
        module(features, torch.arange(10_000)).backward()
    largest = max(event.cpu_memory_usage for event in profile.events())
    assert 0 < largest < 4 * features.numel() * 4


def test_lam_follows_a_schedule():
    module = center_loss(lam=0.1)
    features, target = sample()
    one = module(features, target)
    Linear(module, "lam", start=0.2, end=0.0, steps=10)
    torch.testing.assert_close(module(features, target), 2 * one)
    assert repr(module) == "CenterLoss(3, 4, lam=0.2, update='gradient')"
    running = CenterLoss(3, 4, update="running", ignore_index=7)
    assert repr(running) == (
        "CenterLoss(3, 4, lam=0.003, update='running', rate=0.5, ignore_index=7)"
    )


FEATURES, TARGET = torch.zeros(4, SIZE), torch.tensor([0, 1, 2, 3])
BAD_CALLS = {
    "size": (FEATURES[:, :2], TARGET, ValueError, r"shape \(N, 3\), but got \(4, 2\)"),
    "one sample": (FEATURES[0], TARGET[0], ValueError, r"shape \(N, 3\), but got \(3,\)"),
    "image": (FEATURES[None], TARGET, ValueError, r"shape \(N, 3\), but got \(1, 4, 3\)"),
    "integers": (FEATURES.long(), TARGET, TypeError, "floating-point, but got torch.int64"),
    "list": ([[0.0] * 3], TARGET, TypeError, "features must be a Tensor, but got list"),
    "batch": (FEATURES, TARGET[:3], ValueError, r"shape \(4,\) .*, but got \(3,\)"),
    "column": (FEATURES, TARGET[:, None], ValueError, r"shape \(4,\) .*, but got \(4, 1\)"),
    "float target": (FEATURES, TARGET.float(), TypeError, "indices .*, but got torch.float32"),
    "above": (
        FEATURES,
        TARGET + 1,
        IndexError,
        "target must hold classes from 0 to 3 or ignore_index -100, but got 4",
    ),
    "below": (FEATURES, TARGET - 1, IndexError, "or ignore_index -100, but got -1"),
}


@both
@pytest.mark.parametrize("call", BAD_CALLS)
def test_bad_calls(update, call):
    features, target, error, message = BAD_CALLS[call]
    module = CenterLoss(SIZE, NUM_CLASSES, update=update)
    with pytest.raises(error, match=message):
        module(features, target)
    if update == "running":
        assert not module.centers.any()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"in_features": 0}, ValueError, "in_features must be a whole number .* but got 0"),
        ({"num_classes": 2.5}, ValueError, "num_classes must be a whole number .* but got 2.5"),
        ({"update": "mean"}, ValueError, "update must be one of gradient, running, but got 'mean'"),
        ({"lam": -0.1}, ValueError, "lam must be a finite number of at least 0, but got -0.1"),
        ({"rate": 0.0}, ValueError, "rate must be a finite number above 0, but got 0.0"),
        ({"dtype": torch.int64}, TypeError, "dtype must be a floating-point dtype, but got torch"),
    ],
)
def test_bad_arguments(options, error, message):
    with pytest.raises(error, match=message):
        CenterLoss(**{"in_features": 2, "num_classes": 3, **options})
