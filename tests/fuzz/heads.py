"""Heads on random features and weights, against their own float64 and a plain-Python reference."""

from __future__ import annotations

import copy
import math

import numpy as np
import torch

import head_cases
from fuzz import draw
from fuzz.draw import chance, pick

LENGTHS = (0.0, 1e-20, 1e-6, 1e-3, 1.0, 1.0, 1.0, 30.0, 1e6, 1e15)
COSINES = ("CosineHead", "CosFaceHead", "ArcFaceHead", "AdaCosHead")
ROUNDINGS = 64


def run(rng):
    """Make one call and return what is wrong with it, or None."""
    case, options = pick(rng, list(head_cases.EVERY_OPTION.values()))
    if case.name == "AdaCosHead" and chance(rng, 0.3):
        options = {"dynamic": True}
    dtype = pick(rng, draw.DTYPES)
    classes = int(pick(rng, [3, 4, 10] if case.name == "AdaCosHead" else [2, 3, 5, 10]))
    size = int(pick(rng, [1, 2, 3, 8, 40]))
    if case.name == "SimplexHead":
        size = max(size, classes - 1)
    torch.manual_seed(int(rng.integers(1 << 30)))
    head = case.module(size, classes, **options, dtype=dtype)
    fill(rng, head, dtype)
    shape = pick(rng, [[], [0], [1], [5], [2, 3], [2, 0]])
    features = vectors(rng, [*shape, size], dtype, head)
    target = None
    if chance(rng, 0.7):
        target = torch.from_numpy(np.asarray(rng.integers(classes, size=shape)))
        if chance(rng, 0.3):
            target = target.masked_fill(torch.from_numpy(np.asarray(rng.random(shape) < 0.4)), -100)
        elif chance(rng, 0.3):
            target = target.to(torch.uint8)
    head.train(target is not None)
    features = draw.laid_out(rng, features)
    mode = pick(rng, draw.MODES)
    description = (
        f"{case.name}({size}, {classes}, **{options}, dtype={dtype}), {mode.__name__}, "
        f"features {draw.layout_of(features)}, target {None if target is None else target.tolist()}"
    )
    try:
        wrong = check(case, head, features, target, mode, rng)
    except Exception as error:
        raise RuntimeError(f"{description}: {type(error).__name__}: {error}") from error
    return None if wrong is None else f"{description}: {wrong}"


def directions(head):
    return head.basis if hasattr(head, "basis") else head.weight


def fill(rng, head, dtype):
    """Give the class weights random lengths."""
    with torch.no_grad():
        if hasattr(head, "basis"):
            return
        weight = head.weight
        weight.copy_(random_lengths(rng, weight.double(), dtype))
        if hasattr(head, "log_variance"):
            head.log_variance.copy_(torch.from_numpy(rng.uniform(-2, 2, weight.shape)))


def random_lengths(rng, values, dtype):
    """Return vectors in the same directions, with random lengths that the dtype can hold."""
    most = 1e3 if dtype == torch.float16 else 1e15
    least = 1e-3 if dtype == torch.float16 else 0.0
    allowed = [length for length in LENGTHS if length == 0 or least <= length <= most]
    same = pick(rng, allowed)
    lengths = np.asarray(
        [same if chance(rng, 0.5) else pick(rng, allowed) for _ in values[..., 0].flatten()]
    )
    norm = values.norm(dim=-1, keepdim=True)
    return values / norm.clamp_min(1e-300) * torch.from_numpy(lengths).reshape(norm.shape)


def vectors(rng, shape, dtype, head):
    """Return features, some of them on or near the line of a class weight."""
    values = torch.from_numpy(rng.standard_normal(shape))
    if values.numel() and chance(rng, 0.5):
        weight = head.weight.detach().double()
        rows = torch.from_numpy(np.asarray(rng.integers(len(weight), size=shape[:-1])))
        near = weight[rows]
        near = near / near.norm(dim=-1, keepdim=True).clamp_min(1e-300)
        near = near * pick(rng, [1.0, -1.0]) + values * pick(rng, [0.0, 1e-9, 1e-4, 1e-2])
        some = torch.from_numpy(np.asarray(rng.random(shape[:-1]) < 0.7)).unsqueeze(-1)
        values = torch.where(some, near, values)
    if not values.numel():
        return values.to(dtype)
    return random_lengths(rng, values, dtype).to(dtype)


def check(case, head, features, target, mode, rng):
    learned = mode not in (torch.no_grad, torch.inference_mode)
    exact_head, exact = copy.deepcopy(head).double(), features.detach().double()
    x = features.detach().clone().requires_grad_(learned)
    exact.requires_grad_(learned)
    with mode():
        logits = head(x, target)
        expected = exact_head(exact, target)
    if logits.shape != (*features.shape[:-1], head.num_classes):
        return f"the shape is {tuple(logits.shape)}"
    if case.name == "AdaCosHead" and head.dynamic and target is not None:
        if not (head.scale.isfinite() and head.scale > 0):
            return f"the scale is {head.scale}"
        off = abs(head.scale - exact_head.scale) / exact_head.scale
        if off > 1e4 * torch.finfo(logits.dtype).eps:
            return f"the scale is {head.scale}, not {exact_head.scale}"
        return None
    known = torch.ones(features.shape[:-1], dtype=torch.bool)
    if target is not None:
        known = target.long() != head.ignore_index
    allowed = allowed_error(head, exact_head, exact.detach(), target, expected.detach())
    wrong = differ("the logits", logits.detach()[known], expected.detach()[known], allowed[known])
    wrong = wrong or against_reference(case, exact_head, exact.detach(), target, expected.detach())
    if wrong or not learned or not features.numel():
        return wrong
    weights = torch.from_numpy(rng.standard_normal(logits.shape))
    (logits * weights.to(logits.dtype)).sum().backward()
    (expected * weights.to(logits.dtype).double()).sum().backward()
    return check_gradients(head, exact_head, x.grad, exact, target, weights, known)


def check_gradients(head, exact_head, gradient, exact, target, weights, known):
    limit = torch.finfo(gradient.dtype).max / 100
    pairs = [("the features' gradient", gradient, exact.grad)]
    exact_parameters = dict(exact_head.named_parameters())
    for name, parameter in head.named_parameters():
        pairs.append((f"{name}'s gradient", parameter.grad, exact_parameters[name].grad))
    for name, got, reference in pairs:
        bad = ~got.isfinite() & (reference.abs() < limit)
        if bool(bad.any()) and bool(reference.isfinite().all()):
            return f"{name} is {got[bad][0]}, not {reference[bad][0]}"
    allowed = allowed_gradient_error(head, exact_head, exact.detach(), target, weights)
    if allowed is None:
        return None
    allowed = allowed + 4 * torch.finfo(gradient.dtype).eps * exact.grad.abs()
    allowed = allowed + 16 * torch.finfo(gradient.dtype).tiny
    sure = known & (exact.grad.abs().amax(-1) < limit)
    return differ(
        "the features' gradient",
        gradient[sure],
        exact.grad[sure],
        allowed.expand_as(gradient)[sure],
    )


def geometry(exact_head, exact):
    """Return lengths of features and weights, and their cosines, in float64."""
    weight = exact_head.weight.detach()
    x_length, w_length = exact.norm(dim=-1, keepdim=True), weight.norm(dim=-1)
    unit = exact / torch.where(x_length > 0, x_length, 1.0)
    cosine = unit @ (weight / torch.where(w_length > 0, w_length, 1.0).unsqueeze(-1)).T
    return x_length, w_length, cosine.clamp(-1, 1)


def allowed_error(head, exact_head, exact, target, expected):
    """Return what rounding may do to the logits."""
    name, dtype = type(head).__name__, directions(head).dtype
    eps = ROUNDINGS * draw.compute_precision(dtype).eps
    tiny = 1e3 * draw.compute_precision(dtype).tiny
    x_length, w_length, cosine = geometry(exact_head, exact)
    product = x_length * w_length
    if name == "LinearHead":
        eps = eps + 2 * torch.finfo(dtype).eps
        size = product + exact_head.bias.detach().abs()
    elif name in COSINES:
        size = float(head.scale) * torch.ones_like(cosine)
        if name == "ArcFaceHead" and target is not None and head.beyond != "none":
            kink = math.pi / 2 if head.beyond == "easy" else math.pi - float(head.margin)
            size = torch.where((cosine.acos() - kink).abs() < 1e-3, 1e30, size)
    elif name == "ArcGradHead":
        sine = (1 - cosine.square()).clamp_min(0).sqrt()
        off = torch.minimum(eps / sine, torch.tensor(4 * eps**0.5))
        if target is not None:
            index = target.long().clamp_min(0).unsqueeze(-1)
            off = off.scatter(-1, index, eps)
        return float(head.scale) * (off + eps) * 4
    elif name == "GaussianHead":
        precision = (-exact_head.log_variance.detach()).exp()
        squares = exact.square() @ precision.T + (
            exact_head.weight.detach().square() * precision
        ).sum(-1)
        # distances are from the centre of the means
        size = (1 + float(head.margin)) * (squares + squares.mean(-1, keepdim=True)) * 4 + 10
    elif name == "SimplexHead":
        size = product + 0 * expected
    else:
        lengths = torch.ones_like(w_length) if name == "ASoftmaxHead" else w_length
        size = x_length * lengths * head.k**2
    return eps * size + 4 * draw.compute_precision(dtype).eps * expected.abs() + tiny


def allowed_gradient_error(head, exact_head, exact, target, weights):
    """Return what rounding may do to the gradient of the features; None where that is not known."""
    name, dtype = type(head).__name__, directions(head).dtype
    eps = ROUNDINGS * draw.compute_precision(dtype).eps
    x_length, w_length, cosine = geometry(exact_head, exact)
    weights = weights.abs().sum(-1, keepdim=True)
    if name == "LinearHead":
        return (eps + torch.finfo(dtype).eps * 8) * weights * w_length.max()
    if name == "SimplexHead":
        return eps * weights * w_length.max()
    if name == "GaussianHead":
        return eps * weights * 100 * (x_length + w_length.max() + 1)
    if name in ("CosineHead", "CosFaceHead", "AdaCosHead"):
        return 4 * eps * weights * float(head.scale) / torch.where(x_length > 0, x_length, 1.0)
    sine = (1 - cosine.square()).clamp_min(0).sqrt()
    tame = bool((sine > 0.2).all()) and bool((x_length > 0).all())
    if name in ("LSoftmaxHead", "ASoftmaxHead"):
        if head.k > 1 or not tame:  # ψ has kinks
            return None
        lengths = torch.ones_like(w_length) if name == "ASoftmaxHead" else w_length
        return eps * weights * lengths.max()
    if not tame or (name == "ArcFaceHead" and head.beyond != "none"):
        return None
    return 16 * eps * weights * float(head.scale) / x_length


def against_reference(case, head, exact, target, expected):
    """Compare float64 with plain Python, where that does not overflow."""
    x_length, w_length, cosine = geometry(head, exact)
    lengths = torch.cat([x_length.flatten(), w_length])
    if not exact.numel() or lengths.min() < 1e-7 or lengths.max() > 1e7 or exact.ndim > 2:
        return None
    rows, logits = exact.reshape(-1, exact.shape[-1]), expected.reshape(-1, head.num_classes)
    for i, (x, got) in enumerate(zip(rows.tolist(), logits, strict=True)):
        c = None if target is None else int(target.reshape(-1)[i])
        if c == head.ignore_index:
            continue
        reference = torch.tensor(case.reference(head, x, c), dtype=torch.float64)
        row = cosine.reshape(-1, head.num_classes)[i]
        size = reference.abs().max() + float(x_length.flatten()[i]) * w_length.max() + 1
        if case.name == "GaussianHead":
            size = size + 100 * (x_length.flatten()[i] + w_length.max()) ** 2
        # arccos of a cosine is no better than this near 0 and π
        off = 1e-11 + torch.where(row.abs() > 0.99, 1e-6, 0.0)
        if case.name == "ArcFaceHead":
            kink = math.pi / 2 if head.beyond == "easy" else math.pi - float(head.margin)
            off = torch.where((row.acos() - kink).abs() < 1e-6, 1e9, off)
        wrong = differ("the logits in float64", got, reference, off * size * 50)
        if wrong:
            return wrong
    return None


def differ(what, got, expected, allowed):
    """Return what differs, or None."""
    got, expected = got.double(), expected.double()
    good = ((got - expected).abs() <= allowed) | (got == expected)
    if bool(good.all()):
        return None
    place = tuple((~good).nonzero()[0].tolist())
    return f"{what} at {place} is {got[place]}, not {expected[place]} ± {allowed[place]:.1e}"
