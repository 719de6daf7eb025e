"""``softmargin train`` and ``softmargin evaluate``: one run in one folder."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from softmargin.commands.common import (
    Command,
    UsageError,
    check_out,
    count,
    folder,
    progress,
    require_lab,
    seed,
    writing_to,
)

if TYPE_CHECKING:
    from softmargin.training import TrainingConfig

TRAIN = """\
Train one model. The folder --out keeps everything: configuration, metrics by epoch,
checkpoint, and the test set's logits at the end. The same command again goes on where the
run was stopped, or shows what it gave; with other options it is refused.

Start it with torchrun to train on several processes or machines; --batch is the size over
all of them."""
EVALUATE = """\
Score a finished run again from its stored logits. The numbers are those that training gave."""
GROUPS = {
    "data": ("data", "target", "fraction", "held_out", "pollute", "augment"),
    "model": ("model", "head", "scale", "margin"),
    "loss": ("loss", "beta", "tau", "lam", "gamma", "label_smoothing", "center", "schedule"),
    "optimisation": (
        "epochs",
        "batch",
        "lr",
        "lr_schedule",
        "optimizer",
        "momentum",
        "weight_decay",
        "clip",
        "precision",
    ),
    "run": ("seed", "record"),
}
HEAD_OPTIONS = {"scale": "scale of the head", "margin": "margin of the head"}
LOSS_OPTIONS = {
    "beta": "gradient decay factor of the loss",
    "tau": "temperature of the loss",
    "lam": "weight of the regulariser of the loss",
    "gamma": "exponent of the focal loss",
    "label_smoothing": "share of the label spread over all classes",
}
READERS: dict[str, Callable[[str], Any]] = {"int": count, "float": float, "float | None": float}
METAVARS = {"data": "NAME|PATH", "target": "COLUMN", "lr_schedule": "SPEC", "precision": "BITS"}
FULLY_CONNECTED = ("fcnn", "fcnn_2d", "mlp")  # one thread is fastest for these
EVERY = 0.2  # seconds between looks at the loss, which may have to come from a device
LARGEST_CONFIG = 1 << 16  # bytes
DEEPEST_CONFIG = 10  # lists and mappings within each other
SHOWN = ("accuracy", "top_k_accuracy", "nll", "brier", "ece", "mce", "mean_confidence")


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin train``."""
    parser.add_argument("--out", type=folder, required=True, metavar="DIR", help="the run's folder")
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with options")
    for title, names in GROUPS.items():
        group = parser.add_argument_group(title)
        for name in names:
            group.add_argument(f"--{name.replace('_', '-')}", **_flag(name))
    group.add_argument("--device", default="auto", metavar="X", help="auto, cpu, cuda, cuda:1, mps")
    group.add_argument(
        "--checkpoint-steps", type=count, metavar="N", help="checkpoints within epochs, too"
    )
    group.add_argument(
        "--overwrite", action="store_true", help="start again: remove the run that is in --out"
    )
    group.add_argument(
        "--threads",
        type=count,
        metavar="N",
        help="threads to compute with (default: 1 for fcnn and mlp, which is fastest for them, "
        "otherwise as many as PyTorch takes; $OMP_NUM_THREADS counts before both)",
    )
    group.add_argument("--quiet", action="store_true", help="print nothing but mistakes")
    group.add_argument("--tensorboard", action="store_true", help="write metrics for TensorBoard")


def _flag(name: str) -> dict[str, Any]:
    """Return how a flag is read; without it the option comes from --config or is the default."""
    from softmargin.training.config import TrainingConfig

    if name in (*HEAD_OPTIONS, *LOSS_OPTIONS):
        return {"type": float, "metavar": "X", "help": {**HEAD_OPTIONS, **LOSS_OPTIONS}[name]}
    option = TrainingConfig.__dataclass_fields__["schedules" if name == "schedule" else name]
    text = option.metadata["text"].replace("%", "%%")
    if not isinstance(option.default, bool) and option.default not in (None, "", (), 0.0):
        text += f" (default: {option.default})"
    if name == "schedule":
        return {"action": "append", "metavar": "SPEC", "help": f"{text}; may be repeated"}
    if name == "seed":
        return {"type": seed, "metavar": "N", "help": f"{text} (default: 0)"}
    if option.type == "bool":
        return {"action": "store_true", "default": None, "help": text}
    metavar = METAVARS.get(name) or {"int": "N", "Any": "NAME", "str": "NAME"}.get(
        str(option.type), "X"
    )
    return {"type": READERS.get(str(option.type), str), "metavar": metavar, "help": text}


def configuration(options: argparse.Namespace) -> TrainingConfig:
    """Return the configuration of the options and the YAML file, the options first."""
    from softmargin.training import TrainingConfig

    values: dict[str, Any] = _yaml(options.config) if options.config else {}
    for name in (name for names in GROUPS.values() for name in names):
        if (given := getattr(options, name)) is None:
            continue
        if name in HEAD_OPTIONS:
            values["head_options"] = {**values.get("head_options", {}), name: given}
        elif name in LOSS_OPTIONS:
            values["loss_options"] = {**values.get("loss_options", {}), name: given}
        else:
            values["schedules" if name == "schedule" else name] = given
    return TrainingConfig.from_dict(values)


def check_names(config: TrainingConfig) -> None:
    """Refuse names that do not exist before PyTorch is imported, which takes a while."""
    from softmargin import catalogue, models
    from softmargin.data.registry import entry_of, own_kind
    from softmargin.training.config import naming
    from softmargin.training.rates import learning_rate

    with naming("data"):
        if not (kind := own_kind(config.data)):
            entry_of(config.data, "data")
        elif not (Path(config.data).is_dir() if kind == "folder" else Path(config.data).is_file()):
            raise ValueError(f"data must be a {kind} that exists, but got {config.data!r}.")
    if ":" not in config.model:
        with naming("model"):
            models.find(config.model, "model")
    for option, find in (("head", catalogue.find_head), ("loss", catalogue.find_loss)):
        name = getattr(config, option)
        if ":" not in name:  # not a class of the user's own, which only an import shows
            with naming(option):
                find(name)
    with naming("lr_schedule"):
        learning_rate(config.lr_schedule, config.lr, total=1)


def _yaml(path: Path) -> dict[str, Any]:
    """Read a configuration; one that is huge or deep is refused before it is built."""
    import yaml

    from softmargin.training.config import OptionError

    depth = 0
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_CONFIG + 1)
        if len(content) > LARGEST_CONFIG:
            raise ValueError(f"it has more than {LARGEST_CONFIG} bytes")
        for event in yaml.parse(content, Loader=yaml.SafeLoader):
            if isinstance(event, yaml.AliasEvent):
                raise ValueError(f"it refers to itself with *{event.anchor}")
            depth += isinstance(event, yaml.CollectionStartEvent)
            depth -= isinstance(event, yaml.CollectionEndEvent)
            if depth > DEEPEST_CONFIG:
                raise ValueError(f"it is nested more than {DEEPEST_CONFIG} deep")
        values = yaml.safe_load(content)
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error).splitlines()[0]
        raise OptionError(
            "config", f"config must be a readable YAML file, but got {str(path)!r}: {reason}."
        ) from None
    if not isinstance(values, dict):
        raise OptionError(
            "config", f"config must hold names and values, but {str(path)!r} does not."
        )
    return values


def run(options: argparse.Namespace) -> None:
    """Train, show progress, print the table of results."""
    check_out(options.out)
    require_lab()
    rank = int(os.environ.get("RANK", "0"))
    with mistakes(options):
        config = configuration(options)
        check_names(config)

        from softmargin.training import RunFolder, train  # and PyTorch with them

        finished = not options.overwrite and RunFolder(options.out).result() is not None
        hidden = options.quiet or rank > 0
        with threads(options.threads, config), shown_progress(config.epochs, hidden) as tell:
            result = train(
                config,
                options.out,
                device=options.device,
                checkpoint_steps=options.checkpoint_steps,
                progress=tell,
                tensorboard=options.tensorboard,
                overwrite=options.overwrite,
            )
        if rank > 0:
            return  # of several processes, the first one speaks
        page = write_report(options.out)
    if options.quiet:
        return
    if finished:
        print(f"{options.out} was finished before; nothing was run.")
    print_result(result)
    print(f"\nRun: {options.out}\nReport: {page}")


def write_report(out: Path) -> Path:
    """Write the page of a finished run, if it is not there yet; return where it is."""
    page = out / "index.html"
    if not page.exists():
        from softmargin._files import write_file
        from softmargin.report.run import read_run, run_page

        write_file(page, run_page(read_run(out)))
    return page


@contextlib.contextmanager
def threads(given: int | None, config: TrainingConfig) -> Iterator[None]:
    """Compute with so many threads; without a number, with what is fastest."""
    import torch

    before = torch.get_num_threads()
    if given is None and "OMP_NUM_THREADS" not in os.environ and config.model in FULLY_CONNECTED:
        given = 1
    try:
        if given is not None:
            torch.set_num_threads(given)
        yield
    finally:
        torch.set_num_threads(before)


def declare_evaluate(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments of ``softmargin evaluate``."""
    parser.add_argument("run", type=folder, metavar="RUN", help="folder of a finished run")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")


def run_evaluate(options: argparse.Namespace) -> None:
    """Score stored logits and print the metrics."""
    if not (options.run / "predictions.npz").exists():
        raise UsageError(f"RUN must be the folder of a finished run, but got {str(options.run)!r}.")
    require_lab()
    import torch

    from softmargin.calibration import CalibrationMetrics
    from softmargin.calibration.predictions import open_predictions
    from softmargin.training.folder import RunFolder

    with mistakes(options):
        path = RunFolder(options.run).check_predictions()
        stored = open_predictions(path)
        metrics = CalibrationMetrics(stored.values.shape[1], from_logits=True)
        metrics.update(torch.from_numpy(stored.values), torch.from_numpy(stored.labels))
        result = {each.name: each.value for each in metrics.compute().estimates()}
    print(json.dumps(result)) if options.json else print_result(result)


def print_result(result: dict[str, Any], names: Sequence[str] = SHOWN) -> None:
    """Print the metrics of the test set, shares in percent."""
    from softmargin.calibration.result import IN_PERCENT

    for name in names:
        if name in result:
            value = result[name]
            shown = f"{100 * value:.2f} %" if name in IN_PERCENT else f"{value:.4f}"
            print(f"{name.replace('_', ' '):18}{shown}")


@contextlib.contextmanager
def mistakes(options: argparse.Namespace) -> Iterator[None]:
    """Turn what the user can put right into one sentence."""
    from softmargin.training.config import DivergedError, OptionError

    try:
        yield
    except DivergedError as error:
        raise UsageError(
            f"training diverged at step {error.step}: lower --lr, or set --clip, and start again "
            "with --overwrite or in another folder."
        ) from None
    except OptionError as error:
        raise UsageError(_as_typed(error.option, str(error), options)) from None
    except OSError as error:
        out = getattr(options, "out", None)
        where = str(error.filename or "")
        if out is not None and (error.errno == errno.ENOSPC or where.startswith(str(out))):
            with writing_to(out):
                raise
        said = f"{error.strerror}: {where!r}." if error.strerror and where else str(error)
        raise UsageError(said) from None
    except (ValueError, TypeError, IndexError, ImportError) as error:
        raise UsageError(str(error).strip()) from None


def _as_typed(option: str, sentence: str, options: argparse.Namespace) -> str:
    """Return a sentence about an option by the name that it has where the user wrote it."""
    name = option.removesuffix("s") if option == "schedules" else option
    known = vars(options)
    if name in known and (known[name] is not None or known["config"] is None):
        shown = f"--{name.replace('_', '-')}"
    else:
        shown = option if known.get("config") is None else f"{option} in {str(known['config'])!r}"
    for start in (option, name):
        if sentence.startswith(f"{start} "):
            return shown + sentence.removeprefix(start)
    return f"{shown}: {sentence}"


@contextlib.contextmanager
def shown_progress(epochs: int, hidden: bool) -> Iterator[Callable[[int, int, Any], None]]:
    """Show epoch, step and loss while training runs."""
    with progress(hidden=hidden) as show:
        looked = -EVERY

        def tell(epoch: int, step: int, loss: Any) -> None:
            nonlocal looked
            if (now := time.monotonic()) - looked >= EVERY:
                looked = now
                text = f"epoch {epoch + 1} of {epochs}, step {step}, loss {float(loss):.4f}"
                show(epoch, epochs, text)

        yield tell


COMMAND = Command(
    "train one model in a folder that is safe to interrupt", TRAIN, declare, run, resumes=True
)
EVALUATE_COMMAND = Command(
    "score a finished run again from its stored logits", EVALUATE, declare_evaluate, run_evaluate
)
