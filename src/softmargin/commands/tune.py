"""``softmargin tune``: β chosen for a training function of one's own, or on cached features."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmargin._files import write_file, write_json
from softmargin._text import one_line, printable
from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    count,
    folder,
    print_table,
    progress,
    quoted,
    require_lab,
    writing_to,
)
from softmargin.commands.demo import betas
from softmargin.commands.fit import read

if TYPE_CHECKING:
    from softmargin.tuning import TuningResult

DESCRIPTION = """\
Choose β for your own model. Prints how every β does on held-out rows, beside β = 1 with a
temperature, and which is best.

WHAT is a function package.module:function, or a file of features:

- The function gets a criterion, trains a model with it, and returns logits (N, C) and
  classes (N,) of held-out rows, the same ones each time. It may have an argument seed, and
  an argument report, to call with those logits and classes after every epoch: then values
  that are hopeless are given up early. It is found as python finds it from this folder.
- FEATURES.npz has arrays x (N, D), what the last layer of a trained network gets, and y
  (N,). The last layer alone is trained for all β and heads together, in seconds: try it
  first, and train in full what is best there. Best are the features of the rows that the
  network was trained on, with those of other rows in --held-out and its own
  --weight-decay; without --held-out the features must be of rows that are new to it.

With --out, runs that have ended are kept, and the same command goes on where it stopped.

example:
  softmargin tune features.npz --held-out held-out.npz --weight-decay 5e-4
  softmargin tune mymodel:train --betas 1,5,20 --seeds 3 --jobs 2 --out tuned"""
FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
OF_FUNCTIONS = ("jobs", "ray")
OF_FEATURES = ("held_out", "weight_decay", "heads", "folds", "epochs", "target")
PAGE, RESULT = "index.html", "result.json"


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin tune``."""
    parser.add_argument("what", metavar="WHAT", help="package.module:function, or an .npz file")
    how = parser.add_argument_group("how to choose")
    how.add_argument(
        "--betas",
        type=betas,
        nargs="+",
        default=[[1.0, 2.0, 5.0, 10.0, 20.0]],
        metavar="BETA",
        help="values of β, separated by commas or spaces; 1 is added (default: 1,2,5,10,20)",
    )
    how.add_argument(
        "--seeds",
        type=count,
        metavar="N",
        help="networks for each β (default: 1 of a function, 3 on features)",
    )
    how.add_argument(
        "--scoring",
        choices=("nll", "brier", "accuracy"),
        default="nll",
        help="what to judge by (default: %(default)s)",
    )
    own = parser.add_argument_group("of a function")
    own.add_argument(
        "--jobs", type=count, metavar="N", help="runs at a time, each in its own process"
    )
    ray = "run on the Ray cluster at host:port or ray://host:port, or on one started here (local)"
    own.add_argument("--ray", metavar="ADDRESS", help=ray)
    features = parser.add_argument_group("of features")
    features.add_argument(
        "--heads", nargs="+", metavar="NAME", help="such as linear arcface (default: linear)"
    )
    features.add_argument(
        "--held-out", type=Path, metavar="FILE", help="features of rows to judge by, as WHAT"
    )
    features.add_argument(
        "--weight-decay", type=float, metavar="NUMBER", help="the network's own (default: 0)"
    )
    features.add_argument("--folds", type=count, metavar="N", help="default: 5")
    features.add_argument(
        "--epochs", type=count, metavar="N", help="default: 100, or 10 with --held-out"
    )
    features.add_argument("--target", metavar="NAME", help="array of the classes (default: y)")
    out = parser.add_argument_group("what to write")
    out.add_argument(
        "--out", type=folder, metavar="DIR", help="folder for runs and a page (default: none)"
    )
    out.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run(options: argparse.Namespace) -> None:
    """Choose, write what was asked for and print what was found."""
    is_file = check(options)
    require_lab()
    with progress() as show, _told_in_a_sentence():
        found = of_features(options, show) if is_file else of_function(options, show)
        if options.out is not None:
            write(options, found)
    if options.json:
        print(json.dumps(found.as_dict()))
        return
    headings, rows = found.cells()
    print_table([headings, *rows], right=headings)
    print(f"\n{found.legend()}")
    for sentence in found.sentences():
        print(sentence)
    print(next_step(found, is_file))
    if options.out is not None:
        print(f"\nReport: {printable(str(options.out / PAGE), None)}")


def check(options: argparse.Namespace) -> bool:
    """Check what can be checked before anything is imported; return whether WHAT is a file."""
    is_file: bool = options.what.lower().endswith(".npz")
    if is_file and not Path(options.what).is_file():
        raise UsageError(f"WHAT must be a file that exists, but got {quoted(options.what)}.")
    if not is_file and not FUNCTION.fullmatch(options.what):
        raise UsageError(
            "WHAT must be package.module:function, or an .npz file of features, but got "
            f"{quoted(options.what)}."
        )
    for name in OF_FUNCTIONS if is_file else OF_FEATURES:
        if getattr(options, name) is not None:
            other = "a function" if is_file else "a file of features"
            flag = name.replace("_", "-")
            raise UsageError(
                f"argument --{flag}: must be left out unless WHAT is {other}, but WHAT is "
                f"{quoted(options.what)}."
            )
    held_out = options.held_out
    if held_out is not None and not (held_out.suffix.lower() == ".npz" and held_out.is_file()):
        raise UsageError(
            "argument --held-out: must be an .npz file that exists, but got "
            f"{quoted(str(held_out))}."
        )
    if options.weight_decay is not None and options.weight_decay < 0:
        raise UsageError(
            f"argument --weight-decay: must be at least 0, but got {options.weight_decay:g}."
        )
    if options.folds is not None and options.folds < 2:
        raise UsageError(f"argument --folds: must be at least 2, but got {options.folds}.")
    if options.out is not None:
        check_out(options.out)
    return is_file


def of_features(options: argparse.Namespace, show: Any) -> TuningResult:
    """Return what is found on features."""
    import numpy as np

    from softmargin.tuning import tune_last_layer

    show(0, 0, "reading")
    features, labels = _features(Path(options.what), options.target)
    names, target = np.unique(labels, return_inverse=True)
    held_out = None
    if options.held_out is not None:
        with _of_held_out():
            own, classes = _features(options.held_out, options.target)
            if new := sorted(set(classes.tolist()) - set(names.tolist())):
                raise UsageError(f"must have no classes that WHAT has not, but got {new[0]!r}.")
        held_out = own, np.searchsorted(names, classes)
    return tune_last_layer(
        features,
        target,
        [beta for group in options.betas for beta in group],
        held_out=held_out,
        heads=options.heads or ("linear",),
        seeds=options.seeds or 3,
        folds=options.folds or 5,
        epochs=options.epochs,
        weight_decay=options.weight_decay or 0.0,
        scoring=options.scoring,
        progress=lambda done, total: show(done, total, "training all last layers"),
    )


def _features(path: Path, target: str | None) -> tuple[Any, Any]:
    """Return the features of a file, and the classes of its rows."""
    import numpy as np

    columns, labels = read(argparse.Namespace(file=path, target=target, ignore=[]))
    return np.column_stack(list(columns.values())), np.asarray(labels)


@contextmanager
def _of_held_out() -> Iterator[None]:
    """Say of a mistake that it is in the second file."""
    try:
        yield
    except (UsageError, ValueError) as error:
        raise UsageError(f"argument --held-out: {error}") from None


def of_function(options: argparse.Namespace, show: Any) -> TuningResult:
    """Return what is found with a user's function."""
    from softmargin.tuning import tune

    train = imported(options.what)
    show(0, 0, "training")
    return tune(
        train,
        [beta for group in options.betas for beta in group],
        seeds=options.seeds or 1,
        scoring=options.scoring,
        jobs=options.jobs,
        ray=options.ray,
        out=options.out,
        progress=lambda done, total, text: show(done, total, f"{text} has ended"),
    )


def imported(name: str) -> Callable[..., Any]:
    """Return a function by its path; modules in this folder are found, too."""
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module, _, attributes = name.partition(":")
    try:
        found: Any = reduce(getattr, attributes.split("."), importlib.import_module(module))
    except Exception as error:  # whatever a user's module does when it is imported
        said = f"{type(error).__name__}: {str(error).rstrip('.')}"
        raise UsageError(
            f"WHAT must be a function that can be imported, but got {quoted(name)}: {said}."
        ) from None
    if not callable(found):
        raise UsageError(f"WHAT must be a function, but {quoted(name)} is none.")
    function: Callable[..., Any] = found
    return function


def write(options: argparse.Namespace, found: TuningResult) -> None:
    """Write the numbers and the page."""
    from softmargin.report.tune import tuning_page

    words = ["softmargin", "tune", Path(options.what).name, "--scoring", options.scoring]
    words += ["--betas", ",".join(f"{beta:g}" for group in options.betas for beta in group)]
    for name in ("seeds", *OF_FUNCTIONS, *OF_FEATURES):
        value = getattr(options, name)
        if value is not None:
            words += [f"--{name}", *(value if isinstance(value, list) else [str(value)])]
    page = tuning_page(found, printable(options.what), shlex.join(words))
    with writing_to(options.out):
        options.out.mkdir(parents=True, exist_ok=True)
        write_json(options.out / RESULT, found.as_dict())
        write_file(options.out / PAGE, page)


def next_step(found: TuningResult, is_file: bool) -> str:
    """Return one line on what to do next."""
    betas = sorted({each.beta for each in found.candidates})
    best = found.best
    if best.temperature is None and len(betas) > 1 and best.beta == betas[-1] != 1:
        return f"Do this next: try larger values, such as --betas {best.beta:g},{4 * best.beta:g}."
    if best.temperature is not None:
        return "Do this next: keep cross-entropy, and softmargin calibrate its predictions."
    if is_file and best.beta != 1:
        return f"Do this next: train the whole network with β = {best.beta:g}, and without."
    return f"Do this next: train with GradientDecayLoss(beta={best.beta:g})."


@contextmanager
def _told_in_a_sentence() -> Iterator[None]:
    """Turn what the user can put right into a sentence."""
    try:
        yield
    except (ValueError, TypeError, ImportError, ConnectionError) as error:
        said = re.sub(r"^held_out:? ", "argument --held-out: ", one_line(str(error)))
        raise UsageError(said) from None
    except RuntimeError as error:
        from softmargin.tuning.runs import FailedRunError

        if not isinstance(error, FailedRunError):
            raise
        raise UsageError(one_line(str(error))) from None


COMMAND = Command(
    "choose β for your own model: a training function, or cached features",
    DESCRIPTION,
    declare,
    run,
    resumes=True,
)
