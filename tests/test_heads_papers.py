"""Heads against peers, against the papers, and at the points where others fail."""

from __future__ import annotations

import math

import mpmath
import pytest
import torch
from pytorch_metric_learning import losses as pml
from torch import distributed as dist
from torch import multiprocessing, nn

import softmargin
from softmargin import functional as F
from softmargin import heads, theory

mpmath.mp.dps = 50


def vectors(count, size, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, size, generator=generator, dtype=dtype)


# their margins are in degrees for ArcFace and in cosines for CosFace; ours are as in the papers
PEERS = {
    "ArcFace": (
        lambda: heads.ArcFaceHead(16, 6, scale=20.0, margin=0.4, dtype=torch.float64),
        lambda: pml.ArcFaceLoss(6, 16, margin=math.degrees(0.4), scale=20.0),
    ),
    "ArcFace, wide": (  # past π - m for many samples
        lambda: heads.ArcFaceHead(16, 6, scale=5.0, margin=1.5, dtype=torch.float64),
        lambda: pml.ArcFaceLoss(6, 16, margin=math.degrees(1.5), scale=5.0),
    ),
    "CosFace": (
        lambda: heads.CosFaceHead(16, 6, scale=20.0, margin=0.3, dtype=torch.float64),
        lambda: pml.CosFaceLoss(6, 16, margin=0.3, scale=20.0),
    ),
    "SphereFace": (
        lambda: heads.ASoftmaxHead(16, 6, k=4, dtype=torch.float64),
        lambda: pml.SphereFaceLoss(6, 16, margin=4, scale=1),
    ),
    "L-Softmax": (
        lambda: heads.LSoftmaxHead(16, 6, k=3, dtype=torch.float64),
        lambda: pml.LargeMarginSoftmaxLoss(6, 16, margin=3, scale=1),
    ),
}


@pytest.mark.parametrize("name", PEERS)
def test_equals_pytorch_metric_learning(name):
    make_ours, make_theirs = PEERS[name]
    head, peer = make_ours(), make_theirs().double()
    with torch.no_grad():
        head.weight.copy_(vectors(6, 16, seed=1))
        peer.W.copy_(head.weight.T)
    x, target = vectors(40, 16, seed=2), torch.arange(40) % 6
    results = []
    for weight, loss in (
        (head.weight, lambda z: nn.functional.cross_entropy(head(z, target), target)),
        (peer.W, lambda z: peer(z, target)),
    ):
        z = x.clone().requires_grad_()
        value = loss(z)
        value.backward()
        gradient = weight.grad if weight is head.weight else weight.grad.T
        results.append((value.detach(), z.grad, gradient))
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(head.eval()(x), peer.get_logits(x), rtol=1e-10, atol=1e-10)


def exact_angle(x, w):
    """Return θ and dθ/dx, dθ/dw of float vectors to 50 digits."""
    x, w = mpmath.matrix(x), mpmath.matrix(w)
    nx, nw = mpmath.norm(x), mpmath.norm(w)
    a, b = x / nx, w / nw
    theta = 2 * mpmath.atan2(mpmath.norm(a - b), mpmath.norm(a + b))
    cosine, sine = mpmath.cos(theta), mpmath.sin(theta)
    return theta, (a * cosine - b) / sine / nx, (b * cosine - a) / sine / nw


def at_angle(theta, size=24, seed=3):
    """Return a feature and a class weight in float32 at about this angle, of odd lengths."""
    w, direction = vectors(2, size, seed)
    w = w / w.norm()
    direction = direction - (direction @ w) * w
    direction = direction / direction.norm()
    x = math.cos(theta) * w + math.sin(theta) * direction
    return (x * 3.7).float(), (w * 0.6).float()


@pytest.mark.parametrize("theta", [1e-4, 1e-2, math.pi / 2, math.pi - 1e-4])
@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_angle_to_the_target_is_right_to_2e_6(theta, compiled):
    x, w = at_angle(theta)
    head = heads.ArcGradHead(24, 3, scale=1.0)
    with torch.no_grad():
        head.weight.copy_(vectors(3, 24, seed=4))
        head.weight[1] = w
    features = x.unsqueeze(0).requires_grad_()
    target = torch.tensor([1])
    call = torch.compile(head, fullgraph=True, backend="aot_eager") if compiled else head
    angle = -call(features, target)[0]
    angle[1].backward()
    expected, of_x, of_w = exact_angle(x.tolist(), w.tolist())
    assert abs(mpmath.mpf(angle[1].item()) - expected) <= 2e-6 * expected
    for ours, exact in ((features.grad[0], of_x), (head.weight.grad[1], of_w)):
        error = mpmath.norm(mpmath.matrix(ours.tolist()) - exact)
        assert error <= 2e-6 * mpmath.norm(exact)
    # the other entries and inference have the precision of a float32 cosine
    for j in (0, 2):
        other = exact_angle(x.tolist(), head.weight[j].tolist())[0]
        assert abs(angle[j].item() - other) <= 5e-4
    inference = -head.eval()(features)[0]
    assert abs(inference[1].item() - expected) <= 5e-4


@pytest.mark.parametrize("theta", [1e-6, 1e-4, 1e-3, 1e-2, 0.4, 1.4, math.pi - 1e-3])
@pytest.mark.parametrize(
    "path", ["fused", "accelerator", "plain", pytest.param("compiled", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("beyond", ["monotone", "easy", "none"])
def test_arcface_is_right_at_any_angle_of_the_target(theta, path, beyond, monkeypatch):
    """A float32 cosine would lose a tenth of the gradient at 1e-3 rad, and most of it at 1e-4."""
    if path == "accelerator":  # where looking at values would stall the queue
        monkeypatch.setattr("softmargin.functional._close_pairs._may_look", lambda tensor: False)
    x, w = at_angle(theta)
    head = heads.ArcFaceHead(24, 3, scale=64.0, margin=0.5, beyond=beyond)
    with torch.no_grad():
        head.weight.copy_(vectors(3, 24, seed=4))
        head.weight[1] = w
    if path == "plain":
        head.scale = nn.Parameter(torch.tensor(64.0))
    features = x.unsqueeze(0).requires_grad_()
    call = head
    if path == "compiled":
        call = torch.compile(head, fullgraph=True, backend="aot_eager")
    logit = call(features, torch.tensor([1]))[0, 1]
    logit.backward()
    angle, of_x, of_w = exact_angle(x.tolist(), w.tolist())
    value, slope = mpmath.cos(angle + 0.5), -mpmath.sin(angle + 0.5)
    if beyond == "easy" and angle >= mpmath.pi / 2:
        value, slope = mpmath.cos(angle), -mpmath.sin(angle)
    elif beyond == "monotone" and angle > mpmath.pi - 0.5:
        value, slope = mpmath.cos(angle) - 0.5 * mpmath.sin(0.5), -mpmath.sin(angle)
    assert abs(logit.item() - 64 * value) <= 2e-5
    for ours, exact in ((features.grad[0], of_x), (head.weight.grad[1], of_w)):
        error = mpmath.norm(mpmath.matrix(ours.tolist()) - 64 * slope * exact)
        # past π - m the gradient is that of a cosine, and fades with it
        assert error <= 2e-5 * 64 * mpmath.norm(exact) * max(abs(slope), 0.05)


@pytest.mark.parametrize("head", [heads.ArcFaceHead, heads.ArcGradHead])
def test_accelerators_give_what_the_processor_gives(head, monkeypatch):
    """There all targets get the precise angle, those of zero vectors too: a right angle."""
    head = head(24, 3, scale=8.0)
    with torch.no_grad():
        head.weight[2] = 0
    features = vectors(5, 24, seed=5).float()
    features[1] = 0
    features[2] = head.weight[1].detach() * 3
    features[3] = -features[2]
    target = torch.tensor([0, 1, 1, 1, 2])
    results = []
    for looks in (True, False):
        monkeypatch.setattr("softmargin.functional._close_pairs._may_look", lambda _, v=looks: v)
        x = features.clone().requires_grad_()
        logits = head(x, target)
        gradients = torch.autograd.grad(logits.square().sum(), (x, head.weight))
        results.append((logits.detach(), *gradients))
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-4)


def test_angles_as_a_function():
    x, w = at_angle(1e-3)
    together = F.angles(x.unsqueeze(0), torch.stack([w, -w]), torch.tensor([0]))
    assert together[0, 0].item() == pytest.approx(1e-3, rel=1e-5)
    assert together[0, 1].item() == pytest.approx(math.pi - 1e-3, abs=5e-4)
    assert F.cosine_logits(x, torch.stack([w, -w]), 2.0).tolist() == pytest.approx([2, -2])
    with pytest.raises(ValueError, match="scale must be a finite number above 0, but got -1"):
        F.cosine_logits(x, w.unsqueeze(0), -1.0)


def test_arcface_names_what_happens_past_pi():
    head = heads.ArcFaceHead(2, 3, scale=1.0, margin=0.5, dtype=torch.float64)
    angle = torch.linspace(0, math.pi, 2001, dtype=torch.float64)
    margin = torch.tensor(0.5, dtype=torch.float64)
    moved = {}
    for name in ("monotone", "easy", "none"):
        head.beyond = name
        moved[name], slope = head.enlarge_angle(angle, margin)
        inside = (angle - math.pi / 2).abs() > 0.01  # the easy margin jumps there
        inside &= (angle - (math.pi - 0.5)).abs() > 0.01  # the monotone one has a kink there
        numeric = torch.gradient(moved[name], spacing=(angle,))[0]
        torch.testing.assert_close(slope[inside][1:-1], numeric[inside][1:-1], rtol=0, atol=1e-5)
    assert (moved["monotone"].diff() < 0).all()
    assert (moved["none"].diff() > 0).any()  # the trap
    behind = angle >= math.pi / 2
    assert torch.equal(moved["easy"][behind], angle.cos()[behind])


@pytest.mark.parametrize(("classes", "scale", "degrees"), [(3, 1.0, 83.8), (3, 40.0, 2.1)])
def test_margin_scale_law(classes, scale, degrees):
    """At the gap of theory, no other scale gives a larger gradient (AG eq. 19)."""
    gap = theory.gap(classes, scale)
    assert math.degrees(gap) == pytest.approx(degrees, abs=0.05)
    # every other class's angle is larger than the target's by the gap; the feature may move
    scales = torch.linspace(0.5, 1.5, 401, dtype=torch.float64) * scale
    target_angle = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    magnitudes = []
    for s in scales:
        angles = torch.cat([target_angle.view(1), torch.full((classes - 1,), 0.3 + gap).double()])
        loss = softmargin.GradientDecayLoss()(-s * angles, torch.tensor(0))
        magnitudes.append(torch.autograd.grad(loss, target_angle)[0])
    best = scales[torch.stack(magnitudes).argmax()].item()
    assert best == pytest.approx(theory.scale(classes, gap), rel=3e-3)
    assert best == pytest.approx(scale, rel=3e-3)


def test_simplex_stays_a_simplex():
    head = heads.SimplexHead(12, 8, scale=2.0)
    x, target = vectors(64, 12, dtype=torch.float32), torch.arange(64) % 8
    optimizer = torch.optim.SGD(head.parameters(), lr=0.5, momentum=0.9)
    before = head.weight.detach().clone()
    for _ in range(100):
        optimizer.zero_grad()
        nn.functional.cross_entropy(head(x, target), target).backward()
        optimizer.step()
    weight = head.weight.detach()
    assert (weight - before).abs().max() > 0.1  # it moved
    expected = torch.full((8, 8), -4 / 7).fill_diagonal_(4.0)
    torch.testing.assert_close(weight @ weight.T, expected, rtol=0, atol=4e-6)
    assert (weight @ weight.T / 4 - expected / 4).abs().max() <= 1e-6


def test_simplex_says_how_many_features_it_needs():
    with pytest.raises(ValueError, match="in_features must be at least 9 for a simplex of 10"):
        heads.SimplexHead(8, 10)


def test_gaussian_head_is_a_gaussian_mixture():
    head = heads.GaussianHead(5, 4, margin=0.3, dtype=torch.float64)
    nn.init.normal_(head.log_variance, std=0.5)
    nn.init.normal_(head.weight, std=2.0)
    x, target = vectors(30, 5) * 2, torch.arange(30) % 4
    classes = torch.distributions.Independent(
        torch.distributions.Normal(head.weight, (0.5 * head.log_variance).exp()), 1
    )
    log_density = classes.log_prob(x.unsqueeze(1))
    posterior = log_density.softmax(1)
    torch.testing.assert_close(head.eval()(x).softmax(1), posterior, rtol=1e-10, atol=1e-12)
    own = log_density.gather(1, target[:, None])[:, 0]
    torch.testing.assert_close(head.log_likelihood(x, target), own, rtol=1e-12, atol=1e-12)
    constant = 2.5 * math.log(2 * math.pi)
    torch.testing.assert_close(head.likelihood_loss(x, target), -own.mean() - constant)
    ignored = target.clone()
    ignored[::3] = -100
    kept = ignored != -100
    torch.testing.assert_close(
        head.likelihood_loss(x, ignored), head.likelihood_loss(x[kept], target[kept])
    )
    assert head.added_loss(x, target) is None
    head.likelihood = 0.1
    torch.testing.assert_close(
        head.added_loss(x, target), 0.1 * head.likelihood_loss(x, target), rtol=0, atol=0
    )


def adacos_step(head, x, target, scale):
    """Return the next scale by AG eq. 10, with plain loops."""
    total, angles = 0.0, []
    for row, c in zip(x.tolist(), target.tolist(), strict=True):
        for j, w in enumerate(head.weight.tolist()):
            cosine = sum(a * b for a, b in zip(row, w, strict=True))
            cosine /= math.hypot(*row) * math.hypot(*w)
            if j == c:
                angles.append(math.acos(cosine))
            else:
                total += math.exp(scale * cosine)
    median = sorted(angles)[(len(angles) - 1) // 2]
    return math.log(total / len(angles)) / math.cos(min(math.pi / 4, median))


def test_adacos_follows_its_equation():
    head = heads.AdaCosHead(6, 9, dtype=torch.float64)
    scale = math.sqrt(2) * math.log(8)
    assert head.scale.item() == pytest.approx(scale, rel=1e-15)
    for step in range(5):
        x, target = vectors(20, 6, seed=step), (torch.arange(20) * 7 + step) % 9
        with torch.no_grad():  # closer to the target each time, so that the median comes in
            x += step * head.weight[target] * 4
        scale = adacos_step(head, x, target, scale)
        logits = head(x, target)
        assert head.scale.item() == pytest.approx(scale, rel=1e-12)
        assert logits.detach().abs().max() <= scale * (1 + 1e-12)
    kept = head.scale.item()
    head.eval()(x, target)
    head(x)
    assert head.scale.item() == kept
    resumed = heads.AdaCosHead(6, 9, dtype=torch.float64)
    resumed.load_state_dict(head.state_dict())
    assert torch.equal(resumed.train()(x, target), head.train()(x, target))
    assert resumed.scale.item() == head.scale.item() != kept


def test_adacos_leaves_ignored_samples_out():
    x, target = vectors(20, 6), torch.arange(20) % 9
    target[::4] = -100
    first, second = (heads.AdaCosHead(6, 9, dtype=torch.float64) for _ in range(2))
    second.load_state_dict(first.state_dict())
    first(x, target)
    second(x[target != -100], target[target != -100])
    assert first.scale.item() == pytest.approx(second.scale.item(), rel=1e-12)
    before = first.scale.item()
    first(x, torch.full((20,), -100))
    assert first.scale.item() == before


def test_adacos_refuses_what_it_cannot_do():
    with pytest.raises(ValueError, match="num_classes must be at least 3, but got 2"):
        heads.AdaCosHead(6, 2)
    head, target = heads.AdaCosHead(6, 4), torch.arange(4)
    with pytest.raises(RuntimeError, match="cannot run inside torch.func; use dynamic=False"):
        torch.func.vmap(lambda x: head(x, target))(torch.randn(3, 4, 6))
    with pytest.raises(ValueError, match="target must be given to AdaCosHead in training"):
        head(torch.randn(4, 6))


@pytest.mark.slow
def test_adacos_compiles():
    torch.compiler.reset()
    eager = heads.AdaCosHead(6, 4, dtype=torch.float64)
    compiled = heads.AdaCosHead(6, 4, dtype=torch.float64)
    compiled.load_state_dict(eager.state_dict())
    x, target = vectors(12, 6), torch.arange(12) % 4
    torch.testing.assert_close(
        torch.compile(compiled, fullgraph=True, backend="aot_eager")(x, target), eager(x, target)
    )
    torch.testing.assert_close(compiled.scale, eager.scale)


def _adacos_worker(rank, folder, x, target, weight, share):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    head = heads.AdaCosHead(6, 9, dtype=torch.float64)
    with torch.no_grad():
        head.weight.copy_(weight)
    part = slice(0, share) if rank == 0 else slice(share, 20)
    for _ in range(3):
        head(x[part], target[part])
    torch.save(head.scale, f"{folder}/scale{rank}")
    dist.destroy_process_group()


@pytest.mark.slow
@pytest.mark.parametrize("share", [8, 20])  # unequal on purpose, or nothing left for the second
def test_two_processes_get_the_scale_of_the_joined_batch(tmp_path, share):
    x, target = vectors(20, 6), torch.arange(20) % 9
    head = heads.AdaCosHead(6, 9, dtype=torch.float64)
    for _ in range(3):
        head(x, target)
    arguments = (str(tmp_path), x, target, head.weight.detach(), share)
    multiprocessing.spawn(_adacos_worker, arguments, nprocs=2)
    for rank in range(2):
        scale = torch.load(tmp_path / f"scale{rank}", weights_only=True)
        torch.testing.assert_close(scale, head.scale, rtol=1e-14, atol=0)


def test_l_softmax_at_a_large_k():
    """By the Chebyshev recurrence, where the binomial expansion is off by 4e-5."""
    from softmargin.functional.angular import multiplicative_margin

    angle = torch.linspace(0.01, 3.13, 500, dtype=torch.float64)
    step = (20 * angle / math.pi).floor()
    expected = (-1) ** step * (20 * angle).cos() - 2 * step
    ours = multiplicative_margin(angle.cos().float(), 20)
    assert (ours.double() - expected).abs().median() < 1e-5
    ours = multiplicative_margin(angle.cos(), 20)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-10)
