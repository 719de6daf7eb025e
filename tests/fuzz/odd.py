"""Odd arguments for everything public: it works, or it says in one sentence what is wrong."""

from __future__ import annotations

import contextlib
import inspect
import re
import signal
import traceback
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

import softmargin
from fuzz.draw import chance, pick
from softmargin import calibration, diagnostics, functional, heads, losses, schedules, theory
from softmargin.calibration.scaling import TemperatureScaling, VectorScaling

# what messages about schedules may begin with beside their arguments
ALSO = ("anneal", "margin", "module", "name", "state_dict", "step of a point")
CLEAR = (ValueError, TypeError, RuntimeError, IndexError, NotImplementedError)
SECONDS = 60  # far longer than any of these calls takes

LOGITS = torch.tensor([[2.5, 0.1, -1.0], [0.3, 1.7, 0.2], [0.0, -2.0, 3.0], [1.0, 0.9, 0.8]])
FEATURES = torch.linspace(-1, 1, 20).reshape(4, 5) + 0.05
WEIGHT = torch.linspace(1, -2, 15).reshape(3, 5).sin()
TARGET = torch.tensor([0, 1, 2, 0])
SHARED = {
    "input": LOGITS,
    "logits": LOGITS,
    "predictions": LOGITS,
    "target": TARGET,
    "features": FEATURES,
    "from_logits": True,
    "confidence": torch.tensor([0.1, 0.5, 0.8, 1.0]),
    "correct": torch.tensor([0, 1, 1, 1]),
    "margin": 0.5,
    "p": 0.3,
    "q": 0.3,
    "beta": 0.5,
    "z": 0.2,
    "xi": 0.1,
    "x": 1.5,
    "num_classes": 3,
    "scale": 2.0,
    "gap": 0.7,
    "in_features": 5,
    "name": "beta",
    "value": 0.5,
    "start": 0.1,
    "end": 1.0,
    "steps": 10,
    "points": [(0, 0.5), (5, 1.0)],
    "base": 2.0,
    "gamma": 0.5,
    "num_samples": 4,
    "index": torch.arange(4),
    "angles": torch.tensor([0.1, 1.0]),
    "loss": softmargin.GradientDecayLoss(),
    "samples": [0, 2],
    "scaler": TemperatureScaling,
    "step": 3,
}
PER_EPOCH = {
    "confidence": torch.rand(4, 3, generator=torch.Generator().manual_seed(0)),
    "correct": torch.ones(4, 3, dtype=torch.bool),
    "margin": torch.zeros(4, 3),
}
OWN = {
    "functional.angles": {"weight": WEIGHT},
    "functional.cosine_logits": {"weight": WEIGHT},
    "functional.linear_gradient_decay_loss": {
        "input": FEATURES,
        "linear_weight": WEIGHT,
    },
    "diagnostics.angle_statistics": {"weight": WEIGHT},
    "diagnostics.confidence_groups": PER_EPOCH,
    "diagnostics.data_map": PER_EPOCH,
    "schedules.InversePower": {"name": "lam"},
}


class Callee(NamedTuple):
    """Something to call: its name, how to get it, and arguments with which it works."""

    name: str
    get: Callable[[], Callable]
    arguments: dict


def bag():
    """Return odd objects by how they are shown."""
    objects = [
        *(None, "abc", "", b"x", True, 1j, [], [1, 2], (0.5,), {}, set(), print, object, nn.Linear),
        *(float("nan"), float("inf"), -float("inf"), -1, 0, 1, 2, 2.5, 1e-300, 1e300),
        *(2**70, 10**400, -(10**400)),
        *(np.float32(0.5), np.int64(3), np.array(["a"]), np.array([0.5, 0.2]), np.zeros((4, 3))),
    ]
    result = {repr(each)[:40]: each for each in objects}
    return result | {
        "tensor []": torch.tensor([]),
        "tensor nan": torch.tensor(float("nan")),
        "tensor 3": torch.tensor(3),
        "tensor 0.5": torch.tensor(0.5),
        "tensor of (2, 2, 2)": torch.zeros(2, 2, 2),
        "tensor of (0, 3)": torch.zeros(0, 3),
        "tensor of (4, 3)": torch.rand(4, 3, generator=torch.Generator().manual_seed(1)),
        "NaN of (4, 3)": torch.full((4, 3), float("nan")),
        "tensor of (4, 1)": torch.zeros(4, 1),
        "tensor of (3,)": torch.ones(3),
        "bool tensor": torch.tensor([True, False, True, True]),
        "int32 tensor": torch.tensor([0, 1, 2, 0], dtype=torch.int32),
        "int64 tensor": torch.tensor([0, 1, 2, 99]),
        "negative int64 tensor": torch.tensor([0, -1, 2, 0]),
        "int64 tensor of (4, 3)": torch.zeros(4, 3, dtype=torch.int64),
        "complex tensor": torch.zeros(4, 3, dtype=torch.complex64),
        "float16 tensor": torch.zeros(4, 3, dtype=torch.float16),
        "meta tensor": torch.zeros(4, 3, device="meta"),
        "meta int64 tensor": torch.zeros(4, dtype=torch.int64, device="meta"),
        "learned tensor": torch.ones(4, 3, requires_grad=True),
        "nn.Parameter": nn.Parameter(torch.tensor(0.5)),
        "a loss": softmargin.GradientDecayLoss(),
        "a NumPy string": np.str_("abc"),
    }


BAG = bag()


def arguments_of(name, function):
    """Return arguments with which a function works, by its signature."""
    own = {**SHARED, **OWN.get(name, {})}
    result = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name in ("device", "dtype"):  # PyTorch's own words are good enough
            continue
        required = parameter.default is parameter.empty
        if required and parameter.name not in own:
            raise LookupError(f"{name} needs {parameter.name}: give it in SHARED or OWN")
        special = parameter.name in OWN.get(name, {})
        result[parameter.name] = own[parameter.name] if required or special else parameter.default
    return result


def callees():
    """Return everything public that can be called."""
    found = []

    def add(name, get, **more):
        given = arguments_of(name, get())
        found.append(Callee(name, get, given | more))

    def public(module, *kinds):
        for name in getattr(module, "__all__", dir(module)):
            each = getattr(module, name)
            own = getattr(each, "__module__", "").startswith("softmargin")
            if own and not name.startswith("_") and any(kind(each) for kind in kinds):
                yield f"{module.__name__.removeprefix('softmargin.')}.{name}", each

    # what draws, or reads a file
    other = ("_diagram", "calibration.confidence_histogram", "plot_", "load_calibrator")
    for module in (functional, calibration, diagnostics, theory):
        for name, each in public(module, inspect.isfunction):
            if not any(part in name for part in other):
                add(name, lambda each=each: each)
    for name, each in public(losses, inspect.isclass):
        if issubclass(each, losses.LogitLoss) and each is not losses.LogitLoss:
            made = arguments_of(name, each)
            add(name, lambda each=each: each)
            add(f"{name}()", lambda each=each, made=made: each(**made).forward)
    for name, each in public(heads, inspect.isclass):
        if each is not heads.Head:
            add(name, lambda each=each: each)
            add(f"{name}()", lambda each=each: each(5, 3).forward, target=TARGET)
    add("CenterLoss", lambda: softmargin.CenterLoss)
    add("CenterLoss()", lambda: softmargin.CenterLoss(3, 5).forward)
    add_schedules(add)
    add_accumulators(add)
    return found


def add_schedules(add):
    def module():
        result = softmargin.RegularizedSoftmaxLoss()
        result.anneal = result.margin = 0.5
        return result

    names = ("Constant", "Linear", "Geometric", "Cosine", "Piecewise", "InversePower")
    for name in names:
        SHARED["module"] = module()
        each = getattr(schedules, name)
        add(f"schedules.{name}", lambda each=each: each)
        made = arguments_of(f"schedules.{name}", each)
        add(f"schedules.{name}.value_at", lambda each=each, made=made: each(**made).value_at)
    SHARED["head"] = module()
    for name in ("l_softmax_annealing", "a_softmax_annealing", "lgm_annealing"):
        add(f"schedules.{name}", lambda name=name: getattr(schedules, name))
    constant = schedules.Constant(module(), "beta", 1.0)
    SHARED["schedules"] = [constant]
    SHARED["state_dict"] = constant.state_dict()
    add("schedules.Schedules", lambda: schedules.Schedules)
    add("schedules.Constant.load_state_dict", lambda: constant.load_state_dict)
    together = schedules.Schedules([constant])
    SHARED["state_dict"] = together.state_dict()
    add("schedules.Schedules.load_state_dict", lambda: together.load_state_dict)


def add_accumulators(add):
    def counted():
        metrics = calibration.CalibrationMetrics(3, from_logits=True)
        metrics.update(LOGITS, TARGET)
        return metrics

    add("CalibrationMetrics", lambda: calibration.CalibrationMetrics)
    add("CalibrationMetrics.update", lambda: counted().update)
    add("CalibrationMetrics.compute", lambda: counted().compute)
    add("CalibrationMetrics.load_state_dict", lambda: counted().load_state_dict)
    add("CalibrationMetrics.merge", lambda: lambda other: counted().merge(other))
    for kind in (TemperatureScaling, VectorScaling):
        add(f"{kind.__name__}.fit", lambda kind=kind: kind().fit)
        fitted = kind().fit(torch.cat([LOGITS, LOGITS]), torch.cat([TARGET, TARGET.flip(0)]))
        add(f"{kind.__name__}.transform", lambda fitted=fitted: fitted.transform)

    def recorded():
        recorder = diagnostics.ConfidenceRecorder(4)
        recorder.update(torch.arange(4), LOGITS, TARGET)
        recorder.end_epoch()
        return recorder

    add("ConfidenceRecorder", lambda: diagnostics.ConfidenceRecorder)
    for name in ("update", "record_pass", "histogram", "groups", "traces", "load_state_dict"):
        add(f"ConfidenceRecorder.{name}", lambda name=name: getattr(recorded(), name))


SHARED["state"] = {}
SHARED["other"] = None
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    CALLEES = callees()


@contextlib.contextmanager
def time_limit():
    """Raise in a call that does not come back."""

    def stop(*_):
        raise TimeoutError(f"no answer after {SECONDS} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def run(rng):
    """Make one call and return what is wrong with it, or None."""
    callee = pick(rng, CALLEES)
    chosen = {}
    for _ in range(1 if chance(rng, 0.8) else 2):
        chosen[pick(rng, list(callee.arguments))] = pick(rng, list(BAG))
    return check(callee, chosen)


def check(callee, chosen):
    """Call with some arguments from the bag, by their names there."""
    if any(name in ("loss", "scaler") and callable(BAG[shown]) for name, shown in chosen.items()):
        return None  # what a function that was given raises is not ours
    arguments = callee.arguments | {name: BAG[shown] for name, shown in chosen.items()}
    shown = ", ".join(f"{name}={value}" for name, value in chosen.items())
    call = f"{callee.name}({shown})"
    function = callee.get()
    try:
        with time_limit(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(**arguments)
    except Exception as error:
        if fault := unclear(error, callee.arguments):
            return f"{call}: {fault} [{site(error)}]"
    return None


def unclear(error, names):
    """Return what is wrong with an exception, or None if it is clear."""
    message = str(error)
    if re.search(r"\bmeta\b", message) and isinstance(error, CLEAR):
        return None  # PyTorch's own words for tensors without values
    # the value of an argument may name what it is about: name="beta"
    values = [each for each in names.values() if isinstance(each, str)]
    names = [*names, *values, *ALSO]
    if (
        re.match(rf"({'|'.join(map(re.escape, names))})\b.* must ", message, re.DOTALL)
        and "but got" in message
    ):
        return None
    if not isinstance(error, CLEAR) or isinstance(error, (RecursionError, UnicodeError)):
        return f"{type(error).__name__}: {message[:200]}"
    if "\n" in message.strip() and "array(" not in message and "tensor(" not in message:
        return f"{type(error).__name__} of several lines: {message[:200]!r}"
    if not any(re.search(rf"\b{re.escape(name)}\b", message) for name in names):
        return f"{type(error).__name__} that names no argument: {message[:200]}"
    return None


def site(error):
    """Return the last line of the library that an exception passed."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "softmargin" in f.filename]
    if not frames:
        return "outside the library"
    last = frames[-1]
    return f"{last.filename.split('softmargin/')[-1]}:{last.lineno} {last.name}"
