"""``softmargin train`` and ``softmargin evaluate``: one run in one folder."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from softmargin.commands.common import (
    Command,
    UsageError,
    count,
    data_set,
    folder,
    require_lab,
    seed,
)

TRAIN = """\
Train one model. The folder --out keeps everything: configuration, metrics by epoch,
checkpoint, and the test set's logits at the end. The same command again goes on where the
run was stopped, or shows what it gave; with other options it is refused.

Start it with torchrun to train on several processes or machines; --batch is the size over
all of them."""
EVALUATE = """\
Score a finished run again from its stored logits. The numbers are those that training gave."""
# option: (kind, help); what is not given comes from --config, or has its default
GROUPS: dict[str, dict[str, tuple[Callable[[str], Any], str]]] = {
    "data": {
        "data": (data_set, "data set, such as mnist, cifar10, digits, uci/iris"),
        "fraction": (float, "share of the training set to keep"),
        "pollute": (float, "share of training labels to move to another class"),
    },
    "model": {
        "model": (str, "network, such as fcnn, small_resnet, resnet18"),
        "head": (str, "head, such as linear, arcface, arcgrad (see softmargin losses)"),
        "scale": (float, "scale of the head"),
        "margin": (float, "margin of the head"),
    },
    "loss": {
        "loss": (str, "loss, such as gradient_decay, focal (see softmargin losses)"),
        "beta": (float, "gradient decay factor of the loss"),
        "tau": (float, "temperature of the loss"),
        "lam": (float, "weight of the regulariser of the loss"),
        "gamma": (float, "exponent of the focal loss"),
        "label_smoothing": (float, "share of the label spread over all classes"),
        "center": (float, "weight of a center loss to add"),
    },
    "optimisation": {
        "epochs": (count, "passes over the training set"),
        "batch": (count, "samples per step"),
        "lr": (float, "learning rate"),
        "lr_schedule": (str, "constant, step:50%%,75%%, log_linear:1e-4 or one_cycle"),
        "optimizer": (str, "sgd, adam or adamw"),
        "momentum": (float, "momentum of sgd"),
        "weight_decay": (float, "weight decay"),
        "clip": (float, "largest norm of the gradient"),
        "precision": (str, "32, 64, bf16 or 16"),
    },
}
HEAD_OPTIONS = ("scale", "margin")
LOSS_OPTIONS = ("beta", "tau", "lam", "gamma", "label_smoothing")
SHOWN = ("accuracy", "top_k_accuracy", "nll", "brier", "ece", "mce", "mean_confidence")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin train``."""
    from softmargin.commands.common import folder as path

    parser.add_argument("--out", type=path, required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with options")
    for title, options in GROUPS.items():
        group = parser.add_argument_group(title)
        for name, (kind, text) in options.items():
            group.add_argument(
                f"--{name.replace('_', '-')}", type=kind, metavar="X", help=text, default=None
            )
        if title == "data":
            group.add_argument("--augment", action="store_true", default=None, help="crop and flip")
        if title == "loss":
            group.add_argument(
                "--schedule",
                action="append",
                metavar="SPEC",
                help="a setting that moves, such as beta=linear:0.1:1:30%%; may be repeated",
            )
    run = parser.add_argument_group("run")
    run.add_argument("--seed", type=seed, default=None, metavar="N", help="seed (default: 0)")
    run.add_argument("--device", default="auto", metavar="X", help="auto, cpu, cuda, cuda:1, mps")
    run.add_argument(
        "--checkpoint-steps", type=count, metavar="N", help="checkpoints within epochs, too"
    )
    run.add_argument("--tensorboard", action="store_true", help="write metrics for TensorBoard")
    run.add_argument(
        "--record", action="store_true", default=None, help="keep every sample's confidence"
    )


def configuration(options: argparse.Namespace) -> Any:
    """Return the configuration of the options and the YAML file, the options first."""
    from softmargin.training import TrainingConfig

    values: dict[str, Any] = _yaml(options.config) if options.config else {}
    for group in GROUPS.values():
        for name in group:
            if (given := getattr(options, name)) is None:
                continue
            if name in HEAD_OPTIONS:
                values["head_options"] = {**values.get("head_options", {}), name: given}
            elif name in LOSS_OPTIONS:
                values["loss_options"] = {**values.get("loss_options", {}), name: given}
            else:
                values[name] = given
    for name in ("seed", "augment", "record"):
        if (given := getattr(options, name)) is not None:
            values[name] = given
    if options.schedule:
        values["schedules"] = options.schedule
    return TrainingConfig.from_dict(values)


def _yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"config must be a readable YAML file, but got {str(path)!r}: {reason}."
        ) from None
    if not isinstance(values, dict):
        raise ValueError(f"config must hold names and values, but {str(path)!r} does not.")
    return values


def run(options: argparse.Namespace) -> None:
    """Train, show progress, print the table of results."""
    require_lab()
    from softmargin.training import train
    from softmargin.training.folder import RunFolder

    with mistakes():
        config = configuration(options)
        finished = RunFolder(options.out).result() is not None
        with progress_line(config) as tell:
            result = train(
                config,
                options.out,
                device=options.device,
                checkpoint_steps=options.checkpoint_steps,
                progress=tell,
                tensorboard=options.tensorboard,
            )
    if int(os.environ.get("RANK", "0")) > 0:
        return  # of several processes, the first one speaks
    if finished:
        print(f"{options.out} was finished before; nothing was run.")
    print_result(result)
    print(f"\nRun: {options.out}")


def declare_evaluate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin evaluate``."""
    parser.add_argument("run", type=folder, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run_evaluate(options: argparse.Namespace) -> None:
    """Score stored logits and print the metrics."""
    require_lab()
    import torch

    from softmargin.calibration import CalibrationMetrics
    from softmargin.calibration.predictions import open_predictions

    with mistakes():
        path = options.run / "predictions.npz"
        if not path.exists():
            raise ValueError(f"RUN must be the folder of a finished run, but got {options.run}.")
        with open_predictions(path) as stored:
            metrics = CalibrationMetrics(stored.values.shape[1], from_logits=True)
            metrics.update(torch.from_numpy(stored.values), torch.from_numpy(stored.labels))
        result = {each.name: each.value for each in metrics.compute().estimates()}
    print(json.dumps(result)) if options.json else print_result(result)


def print_result(result: dict[str, Any], names: Sequence[str] = SHOWN) -> None:
    """Print the metrics of the test set."""
    for name in names:
        if name in result:
            print(f"{name.replace('_', ' '):18}{result[name]:.4f}")


@contextlib.contextmanager
def mistakes() -> Iterator[None]:
    """Turn what the user can put right into one sentence."""
    try:
        yield
    except (ValueError, TypeError, IndexError, OSError, ImportError) as error:
        raise UsageError(str(error).strip()) from None


@contextlib.contextmanager
def progress_line(config: Any) -> Iterator[Any]:
    """Show epoch, step and loss while training runs."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    text = TextColumn("epoch {task.fields[epoch]} of {task.total}, loss {task.fields[loss]:.4f}")
    columns = text, BarColumn(), TimeRemainingColumn()
    hidden = not console.is_terminal or int(os.environ.get("RANK", "0")) > 0
    with Progress(*columns, console=console, disable=hidden, refresh_per_second=4) as bar:
        task = bar.add_task("training", total=config.epochs, epoch=1, loss=float("nan"))

        def tell(epoch: int, step: int, loss: Any) -> None:
            if step % 50 == 0:
                bar.update(task, completed=epoch, epoch=epoch + 1, loss=float(loss))

        yield None if hidden else tell


COMMAND = Command(
    "train one model in a folder that survives anything", TRAIN, declare, run, resumes=True
)
EVALUATE_COMMAND = Command(
    "score a finished run again from its stored logits", EVALUATE, declare_evaluate, run_evaluate
)
