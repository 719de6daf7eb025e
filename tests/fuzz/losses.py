"""Losses on random logits, targets and options, against :mod:`fuzz.reference`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

import loss_cases
from fuzz import draw, reference
from fuzz.draw import chance, pick
from fuzz.reference import Wide

CASES = {
    "gradient_decay": loss_cases.EVERY_LOSS["GradientDecayLoss"],
    "soft_margin": loss_cases.EVERY_LOSS["SoftMarginSoftmaxLoss"],
    "modified": loss_cases.EVERY_LOSS["ModifiedSoftmaxLoss"],
    "regularized": loss_cases.EVERY_LOSS["RegularizedSoftmaxLoss"],
    "mean_hinge": loss_cases.EVERY_LOSS["MeanHingeLoss"],
    "max_hinge": loss_cases.EVERY_LOSS["MaxHingeLoss"],
    "hard_bias": loss_cases.EVERY_LOSS["HardBiasSoftmaxLoss"],
    "focal": loss_cases.EVERY_LOSS["FocalLoss"],
}


class Call(NamedTuple):
    """One call of a loss: its name, its tensors, its options as given and as numbers."""

    name: str
    input: torch.Tensor
    target: torch.Tensor
    given: dict
    numbers: dict
    shared: dict
    as_module: bool
    mode: type

    def __str__(self):
        options = {**self.given, **self.shared}
        how = "module" if self.as_module else "function"
        return (
            f"{self.name} ({how}, {self.mode.__name__}), input {draw.layout_of(self.input)}, "
            f"target {draw.layout_of(self.target)}, {options}"
        )


def run(rng):
    """Make one call and return what is wrong with it, or None."""
    call = random_call(rng)
    try:
        return check(call)
    except Exception as error:
        raise RuntimeError(f"{call}: {type(error).__name__}: {error}") from error


def check(call):
    learned = call.mode not in (torch.no_grad, torch.inference_mode)
    input = call.input.detach().requires_grad_(learned)
    beta = call.given.get("beta")
    if call.as_module:
        loss_function, given = CASES[call.name].module(**call.given, **call.shared), {}
    else:
        loss_function, given = CASES[call.name].function, {**call.given, **call.shared}
    with call.mode():
        result = loss_function(input, call.target, **given)
        again = loss_function(input, call.target, **given)  # what may be known by now
    if not torch.equal(result.nan_to_num(), again.nan_to_num()):
        return f"{call}: the loss is {result.tolist()}, and the second time {again.tolist()}"
    expected = Expected(call)
    wrong = expected.check_result(result)
    if wrong is None and learned and result.numel():
        again.backward(torch.ones_like(result))
        wrong = expected.check_gradient(input.grad)
        if wrong is None and isinstance(beta, torch.Tensor) and beta.requires_grad:
            wrong = expected.check_beta(beta.grad)
    if wrong is None and call.name == "gradient_decay":
        wrong = against_cross_entropy(call, result)
    return None if wrong is None else f"{call}: {wrong}"


def random_call(rng):
    name = pick(rng, list(CASES), [0.3, 0.1, 0.05, 0.2, 0.1, 0.1, 0.05, 0.1])
    dtype = pick(rng, draw.DTYPES)
    classes = int(pick(rng, [2, 3, 4, 5, 7, 10, 33, 150, 300]))
    most = max(1, 60_000 // classes**2)
    shape = pick(rng, [[], [1], [2], [7], [3, 2], [2, 2, 3], [0], [2, 0], [1, 1]])
    while np.prod(shape) > most:
        shape = shape[:-1]
    dim = min(1, len(shape))
    full = [*shape[:dim], classes, *shape[dim:]]
    input = draw.laid_out(rng, draw.logits(rng, full, dim, dtype))
    if len(shape) == 1 and chance(rng, 0.1):
        input = input[:1].expand(full) if shape[0] else input
    weight = None
    if chance(rng, 0.3):
        weight = torch.from_numpy(rng.random(classes) * pick(rng, [1e-3, 1.0, 1e3]))
        weight = weight.masked_fill(torch.from_numpy(rng.random(classes) < 0.2), 0.0)
        weight = weight.to(pick(rng, (dtype, torch.float32, torch.float64)))
    ignore_index = int(pick(rng, [-100, -100, -1, 0, 1, 255, 7]))
    soft = chance(rng, 0.35)
    smoothing = pick(rng, [0.0, 0.0, 0.0, 0.1, 1.0, 1e-8, float(rng.random())])
    if soft:
        target, ignore_index = soft_target(rng, full, dim, dtype), pick(rng, [-100, -1])
    else:
        target = hard_target(rng, shape, classes, ignore_index)
        if not shape and chance(rng, 0.3):
            target = target.reshape(1)
    given, numeric = options(rng, name, classes)
    shared = {
        "weight": weight,
        "ignore_index": ignore_index,
        "reduction": pick(rng, ["none", "mean", "sum"]),
        "label_smoothing": smoothing,
    }
    mode = pick(rng, draw.MODES)
    needs_grad = any(isinstance(v, torch.Tensor) and v.requires_grad for v in given.values())
    as_module = not needs_grad and chance(rng, 0.3)
    return Call(name, input, draw.laid_out(rng, target), given, numeric, shared, as_module, mode)


def hard_target(rng, shape, classes, ignore_index):
    dtype = pick(rng, [torch.int64, torch.int64, torch.uint8])
    limit = min(classes, 256) if dtype == torch.uint8 else classes
    target = torch.from_numpy(np.asarray(rng.integers(limit, size=shape)))
    share = pick(rng, [0.0, 0.0, 0.3, 1.0])
    if share and (dtype == torch.int64 or 0 <= ignore_index < 256):
        ignored = torch.from_numpy(np.asarray(rng.random(shape) < share))
        target = target.masked_fill(ignored, ignore_index)
    return target.to(dtype)


def soft_target(rng, full, dim, dtype):
    kind = pick(rng, ["soft", "one-hot", "unnormalised", "sparse"])
    values = rng.random(full) ** 3
    if kind == "one-hot":
        values = (values == values.max(dim, keepdims=True)).astype(float) if values.size else values
    elif kind == "sparse":
        values = np.where(rng.random(full) < 0.5, 0.0, values)
    if kind in ("soft", "sparse") and values.size:
        values = values / np.maximum(values.sum(dim, keepdims=True), 1e-300)
    return torch.from_numpy(values).to(pick(rng, (dtype, dtype, torch.float32, torch.float64)))


def options(rng, name, classes):
    """Return random options as they are given, and as numbers."""
    given, numeric = {}, {}

    def add(option, value):
        given[option], numeric[option] = draw.setting(rng, value)

    if name not in ("mean_hinge", "max_hinge") and chance(rng, 0.4):
        add("tau", float(pick(rng, [0.05, 0.7, 1.0, 3.0, 1e3])))
    if name in ("gradient_decay", "regularized") and chance(rng, 0.8):
        add("beta", float(10.0 ** pick(rng, [-12, -8, -3, -1, 0, 0.3, 1, 4, 12])))
        if chance(rng, 0.3):
            beta = torch.from_numpy(10.0 ** rng.uniform(-6, 6, classes))
            given["beta"] = beta.to(pick(rng, (torch.float64, torch.float32, torch.bfloat16)))
            numeric["beta"] = draw.numbers(given["beta"])
        if isinstance(given["beta"], torch.Tensor) and chance(rng, 0.5):
            given["beta"].requires_grad_()
    if name == "gradient_decay":
        given |= {n: True for n in ("floored", "compensate") if chance(rng, 0.25)}
        numeric |= {n: given[n] for n in ("floored", "compensate") if n in given}
    if name == "regularized":
        add("lam", float(pick(rng, [0.0, 0.3, 5.0])))
        kinds = ["symmetric", "uniform_to_logits", "logits_to_uniform"]
        given["divergence"] = numeric["divergence"] = pick(rng, kinds)
    if name in ("soft_margin", "mean_hinge", "max_hinge"):
        add("margin", float(pick(rng, [0.0, 0.5, 1.0, 20.0])))
    if name in ("modified", "hard_bias") and chance(rng, 0.7):
        add("rho", float(pick(rng, [-3.0, 0.0, 2.0, 50.0])))
    if name == "focal" and chance(rng, 0.7):
        add("gamma", float(pick(rng, [0.0, 0.3, 1.0, 5.0, 20.0])))
    return given, numeric


class Expected:
    """What a call should give, with the error that its precision allows."""

    def __init__(self, call):
        self.call = call
        self.precision = draw.compute_precision(call.input.dtype)
        self.eps = reference.ROUNDINGS * Wide(self.precision.eps)
        self.dim = min(1, call.input.ndim - 1)
        self.classes = call.input.shape[self.dim]
        self.z = self.by_row(call.input)
        self.shares, self.counted, self.norm = self.weights()
        rows, labels = np.nonzero(np.ones_like(self.shares) if self.soft else self.shares != 0)
        self.rows, self.labels = rows, labels
        self.pairs = reference.evaluate(
            call.name, self.z[rows], labels, call.numbers, self.precision
        )
        self.factor, self.factor_error = self.compensation()
        self.may_overflow = self.reach() > Wide(self.precision.max) / 64

    def by_row(self, tensor):
        values = np.moveaxis(draw.numbers(tensor), self.dim, -1)
        return values.reshape(-1, self.classes).astype(Wide)

    @property
    def soft(self):
        return self.call.target.is_floating_point()

    def weights(self):
        """Return the weight of every pair, the weights that compensation counts, and the norm."""
        shared, target = self.call.shared, self.call.target
        smoothing = Wide(shared["label_smoothing"])
        weight = shared["weight"]
        weight = np.ones(self.classes) if weight is None else draw.numbers(weight)
        if self.soft:
            y = self.by_row(target)
            counted = y * weight
            shares = (y * (1 - smoothing) + smoothing / self.classes) * weight
            return shares, counted, Wide(len(y))
        classes = target.reshape(-1).long().numpy()
        known = classes != shared["ignore_index"]
        hot = np.zeros((len(classes), self.classes), Wide)
        hot[known, classes[known]] = 1
        counted = hot * weight
        shares = (1 - smoothing) * counted + smoothing / self.classes * weight * known[:, None]
        return shares, counted, counted.sum()

    def compensation(self):
        """Return the factor and its relative error; no factor where it is not determined."""
        if not self.call.given.get("compensate"):
            return Wide(1), Wide(0)
        counted = self.counted[self.rows, self.labels]
        if not self.soft and self.call.shared["label_smoothing"] == 1:
            return None, None
        pairs = self.pairs
        plain, own = (counted * pairs.pull).sum(), (counted * pairs.own_pull).sum()
        if own < self.precision.tiny * 1e6 or plain < self.precision.tiny * 1e6:
            return None, None
        off = (np.abs(counted) * pairs.pull_error).sum() / plain
        off += (np.abs(counted) * pairs.own_pull_error).sum() / own
        return plain / own, 4 * (off + self.eps)

    def reach(self):
        """Return about the largest number on the way to the result."""
        finite = np.where(np.isfinite(self.z), self.z, -Wide(self.precision.max))
        spread = (finite.max(1) - finite.min(1)).max(initial=0)
        options = self.call.numbers
        factors = [
            1 / Wide(options.get("tau", 1)),
            Wide(options.get("lam", 1)),
            self.shares.max(initial=0),
        ]
        return spread * self.classes * len(self.z) * np.prod([max(1, each) for each in factors])

    def sums(self, values, errors):
        """Return each row's weighted sum of what its pairs have, and its error."""
        share = self.shares[self.rows, self.labels].reshape(-1, *[1] * (values.ndim - 1))
        with np.errstate(invalid="ignore", over="ignore"):
            terms = np.where(share == 0, 0, share * values)
            error = np.abs(share) * errors + self.eps * np.abs(terms)
        error = np.where(np.isfinite(error), error, 0)
        total = np.zeros((len(self.z), *values.shape[1:]), Wide)
        total_error, size = total.copy(), total.copy()
        for into, part in ((total, terms), (total_error, error), (size, np.abs(terms))):
            np.add.at(into, self.rows, part)
        return total, total_error, size

    def check_result(self, result):
        call, reduction = self.call, self.call.shared["reduction"]
        shape = call.target.shape
        if self.soft:
            shape = call.input.shape[: self.dim] + call.input.shape[self.dim + 1 :]
        if result.shape != (shape if reduction == "none" else ()):
            return f"the shape is {tuple(result.shape)}"
        # probabilities that are wider than the logits widen the loss, as in PyTorch
        wide = torch.promote_types(call.input.dtype, call.target.dtype) if self.soft else None
        if result.dtype != (wide or call.input.dtype):
            return f"the dtype is {result.dtype}"
        if self.factor is None:
            return None if not result.isnan().any() or not self.norm else "the result is NaN"
        each, error, size = self.sums(self.pairs.loss, self.pairs.loss_error)
        with np.errstate(invalid="ignore", divide="ignore"):
            if reduction != "none":
                each, error, size = each.sum(), error.sum() + self.eps * size.sum(), size.sum()
                if reduction == "mean":
                    each, error = each / self.norm, error / self.norm
            each, error = each * self.factor, error * self.factor
            error = error + np.abs(each) * self.factor_error
        got = draw.numbers(result).reshape(np.shape(each)).astype(Wide)
        return self.differ("the loss", got, each, error, size, result.dtype)

    def scale(self):
        return self.factor / (self.norm if self.call.shared["reduction"] == "mean" else 1)

    def check_gradient(self, gradient):
        if self.call.shared["reduction"] == "mean" and not self.norm:
            return None  # the mean of no weight at all, which is NaN for cross-entropy too
        if gradient.isnan().any():
            return "the gradient has NaN"
        if self.factor is None:
            return None
        each, error, size = self.sums(self.pairs.gradient, self.pairs.gradient_error)
        sure = np.ones(len(self.z), bool)
        sure[self.rows[~self.pairs.smooth]] = False
        # a class that is infinitely unlikely, and yet has a share
        sure[~np.isfinite(self.z).all(1) & ~np.isfinite(self.sums(self.pairs.loss, 0)[0])] = False
        scale = self.scale()
        got = self.by_row(gradient)
        error = (error + self.eps * size) * abs(scale) + np.abs(each * scale) * self.factor_error
        return self.differ(
            "the gradient", got[sure], (each * scale)[sure], error[sure], size[sure], gradient.dtype
        )

    def check_beta(self, gradient):
        if self.factor is None or (self.call.shared["reduction"] == "mean" and not self.norm):
            return None
        beta = np.asarray(self.call.numbers["beta"], Wide)
        share = self.shares[self.rows, self.labels] * self.scale()
        own = beta[self.labels] if beta.ndim else beta
        terms = share * self.pairs.of_log_beta / own
        errors = np.abs(share) * self.pairs.of_log_beta_error / own
        errors = errors + np.abs(terms) * (self.factor_error + 4 * self.eps)
        each, error = np.zeros(np.shape(beta), Wide), np.zeros(np.shape(beta), Wide)
        where = (self.labels,) if beta.ndim else ()
        for into, part in ((each, terms), (error, errors)):
            if beta.ndim:
                np.add.at(into, where, part)
            else:
                into += part.sum()
        got = draw.numbers(gradient).astype(Wide)
        # the gradient of log β is summed in the precision of the logits, before 1/β is applied
        lost = self.precision.tiny * len(self.z) * self.classes / beta
        return self.differ("the gradient of beta", got, each, error + lost, error, gradient.dtype)

    def differ(self, what, got, expected, error, size, dtype):
        """Return what differs, or None."""
        out = torch.finfo(dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            error = error + 2 * Wide(out.eps) * np.abs(expected)
            error = error + 4 * Wide(out.tiny) * out.eps + 64 * Wide(self.precision.tiny)
            good = np.abs(got - expected) <= error
            good |= (got == expected) | (np.isnan(got) & np.isnan(expected))
            # what no number of this type can be
            good |= np.isinf(got) & (np.maximum(np.abs(expected), size) > Wide(out.max) / 2)
            good |= np.isinf(got) & self.may_overflow
        if good.all():
            return None
        place = np.unravel_index(np.argmin(good), np.shape(good)) if np.ndim(good) else ()
        values = (np.asarray(x)[place] for x in (got, expected, np.broadcast_to(error, got.shape)))
        return "{} at {} is {}, not {} ± {:.1e}".format(what, [int(i) for i in place], *values)


def against_cross_entropy(call, result):
    """Compare β = 1 with PyTorch in float64, where that is accurate."""
    beta = call.numbers.get("beta", 1.0)
    if np.ndim(beta) or beta != 1 or call.numbers.get("compensate") or "tau" in call.given:
        return None
    finite = call.input[call.input.isfinite()]
    if not finite.numel() or finite.abs().max() > 1e5 or len(finite) < call.input.numel():
        return None
    target = call.target.double() if call.target.is_floating_point() else call.target.long()
    if call.input.ndim == 1 and not target.is_floating_point():
        target = target.reshape(())
    weight = call.shared["weight"]
    shared = call.shared | {"weight": None if weight is None else weight.double()}
    expected = F.cross_entropy(call.input.detach().double(), target, **shared)
    got = result.detach().double().reshape(expected.shape)
    eps = draw.compute_precision(call.input.dtype).eps + torch.finfo(result.dtype).eps
    size = finite.abs().max().item() + 10
    allowed = (
        64 * eps * (expected.abs() + size * (weight.max().item() if weight is not None else 1))
    )
    if call.target.is_floating_point():
        allowed = allowed * call.input.shape[min(1, call.input.ndim - 1)]
    if call.shared["reduction"] == "sum":
        allowed = allowed * max(1, call.target.numel())
    close = (got - expected).abs() <= allowed
    if bool((close | (got == expected) | (got.isnan() & expected.isnan()) | got.isinf()).all()):
        return None
    return f"the loss is {got.tolist()}, but cross_entropy is {expected.tolist()}"
