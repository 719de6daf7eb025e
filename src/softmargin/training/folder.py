"""A run's folder: consistent at every moment, whatever happens to the process.

- ``checkpoint.pt``: everything needed to go on, the metrics of all epochs among it. It is what
  counts: the files that follow from it are written after it, and again when a run goes on.
- ``config.json``: the frozen configuration; a run that goes on must have the same one.
- ``metrics.jsonl``: one line per epoch, for other programs.
- ``confidence/``: every training sample's confidence by epoch, where it is recorded.
- ``predictions.npz``: logits and labels of the test set, once the run is finished.
- ``held_out.npz``: the same of the rows held out of training, if any are.
- ``result.json``: the final metrics; while it is there, the run is not run again.
- ``environment.json``: versions, machine and commit of the last process that worked here.

Each is replaced in one piece and has a checksum, except ``metrics.jsonl``, which is never read.
"""

from __future__ import annotations

import contextlib
import io
import json
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from softmargin._files import (
    DamagedFileError,
    read_json,
    read_sealed,
    seal,
    write_file,
    write_json,
)
from softmargin.training.config import OptionError, TrainingConfig

LOCK = ".lock"
CHECKPOINT, PREDICTIONS, HELD_OUT = "checkpoint.pt", "predictions.npz", "held_out.npz"
FILES = (
    "result.json",
    CHECKPOINT,
    PREDICTIONS,
    HELD_OUT,
    "config.json",
    "environment.json",
    "metrics.jsonl",
    "index.html",
)
FOLDERS = ("confidence", "tensorboard")
CPU = torch.device("cpu")
START_AGAIN = "delete it and run the same command again, which then trains from the start"
RUN_AGAIN = "delete it and run the same command again"
PREDICT_AGAIN = "delete it and result.json, and run the same train command again"


class RunFolder:
    """The folder of one run; only one process at a time may work in it."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is written yet."""
        self.path = path

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Hold the folder; where another process does, wait for it or refuse.

        Where nothing is written into it, nothing is left of it that was not there before.
        """
        made = [each for each in (self.path, *self.path.parents) if not each.exists()]
        lock = FileLock(self.path / LOCK)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            known = (self.path / LOCK).exists()
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            found = str(self.path)
            raise OptionError(
                "out", f"out must be a folder that no other run is working in, but got {found!r}."
            ) from None
        except OSError as error:
            raise OptionError(
                "out",
                f"out must be a folder that can be written to, but {str(self.path)!r} is not: "
                f"{error.strerror or error}.",
            ) from None
        try:
            yield
        finally:
            if not known and [each.name for each in self.path.iterdir()] == [LOCK]:
                (self.path / LOCK).unlink()
                with contextlib.suppress(OSError):  # another process has begun something there
                    for each in made:
                        each.rmdir()
            lock.release()

    def clean(self) -> None:
        """Remove what a killed process has left unfinished; only for who holds the folder."""
        for path in self.path.rglob(".*.unfinished"):
            path.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove a run, finished or not; what else is in the folder stays. For who holds it."""
        for name in FILES:  # the result first: while it is there, the run is a finished one
            (self.path / name).unlink(missing_ok=True)
        for name in FOLDERS:
            if (self.path / name).is_dir() and not (self.path / name).is_symlink():
                shutil.rmtree(self.path / name)

    def freeze(self, config: TrainingConfig) -> None:
        """Keep the configuration and the environment."""
        self.save_environment()
        write_json(self.path / "config.json", config.as_dict())

    def check(self, config: TrainingConfig) -> None:
        """Refuse a configuration that differs from the one kept, if there is one."""
        known = self.config()
        if known is None:
            if (self.path / "result.json").exists():
                raise OptionError(
                    "out",
                    "out must be a new folder or one with the run of this configuration, but "
                    f"{str(self.path)!r} has a result.json and nothing that says of what.",
                )
            return
        before, now = _flat(known), _flat(config)
        changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
        if changed:
            first, *others = (name for _, name in changed)
            was = f"{first} {before[changed[0]]!r}" if changed[0] in before else "without it"
            given = repr(now[changed[0]]) if changed[0] in now else "nothing"
            more = f"; so must {', '.join(others)}" if others else ""
            raise OptionError(
                first,
                f"{first} must be as when the run in {str(self.path)!r} began, {was}, "
                f"but got {given}{more}.",
            )

    def config(self) -> TrainingConfig | None:
        """Return the configuration kept, None where there is none yet."""
        path = self.path / "config.json"
        if path.exists():
            try:
                return TrainingConfig.from_dict(read_json(path, RUN_AGAIN))
            except OptionError as error:
                raise DamagedFileError(path, str(error), RUN_AGAIN) from None
        state = self.load()
        return None if state is None else TrainingConfig.from_dict(state.get("config", {}))

    def result(self) -> dict[str, Any] | None:
        """Return the final metrics, or None while the run is not finished."""
        path = self.path / "result.json"
        return read_json(path, RUN_AGAIN) if path.exists() else None

    def save_predictions(self, name: str, logits: Tensor, labels: Tensor) -> None:
        """Keep logits and labels, of the test set or of what was held out."""
        z, y = logits.float().cpu().numpy(), labels.cpu().numpy()
        self._write_sealed(name, lambda file: np.savez(file, logits=z, labels=y))

    def save_result(self, result: dict[str, Any]) -> None:
        """Keep the final metrics, which ends the run."""
        write_json(self.path / "result.json", result)

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics of all epochs that are in the checkpoint."""
        state = self.load()
        return [] if state is None else list(state["metrics"])

    def save_metrics(self, epochs: Sequence[dict[str, Any]]) -> None:
        """Write the metrics of all epochs for other programs."""
        text = "".join(f"{json.dumps(each)}\n" for each in epochs)
        write_file(self.path / "metrics.jsonl", text)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        self._write_sealed(CHECKPOINT, lambda file: torch.save(state, file))

    def load(self, device: torch.device = CPU) -> dict[str, Any] | None:
        """Return the checkpoint, or None where there is none. It can hold no code."""
        path = self.path / CHECKPOINT
        if not path.exists():
            return None
        content = read_sealed(path, START_AGAIN)
        try:
            state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
        except Exception:  # whatever a mutilated archive makes of its reader
            raise DamagedFileError(path, "it is no whole checkpoint", START_AGAIN) from None
        if not isinstance(state, dict):
            raise DamagedFileError(path, "it holds no names and values", START_AGAIN)
        return state

    def restore(
        self,
        load: Callable[[dict[str, Any]], None],
        why: str,
        device: torch.device = CPU,
    ) -> dict[str, Any] | None:
        """Hand the checkpoint to what goes on from it, and return it; None where there is none.

        One that it cannot take is damaged: ``why`` says how.
        """
        state = self.load(device)
        if state is not None:
            try:
                load(state)
            except (KeyError, TypeError, ValueError, RuntimeError):
                raise DamagedFileError(self.path / CHECKPOINT, why, START_AGAIN) from None
        return state

    def check_predictions(self) -> Path:
        """Return the file of predictions, refusing one that is damaged."""
        path = self.path / PREDICTIONS
        content = read_sealed(path, PREDICT_AGAIN)
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                _ = stored["logits"].shape, stored["labels"].shape
        except Exception:
            raise DamagedFileError(path, "it is no whole archive", PREDICT_AGAIN) from None
        return path

    def save_confidence(self, epoch: int, confidence: Tensor) -> None:
        """Keep every training sample's confidence after an epoch, in float16."""
        (self.path / "confidence").mkdir(exist_ok=True)
        values = confidence.half().cpu().numpy()
        self._write_sealed(f"confidence/{epoch:04d}.npy", lambda file: np.save(file, values))

    def save_environment(self) -> None:
        """Note versions, machine and commit."""
        from softmargin import __version__

        content = {
            "softmargin": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
            "threads": torch.get_num_threads(),
            "commit": _commit(),
        }
        write_json(self.path / "environment.json", content)

    def _write_sealed(self, name: str, save: Callable[[io.BytesIO], None]) -> None:
        """Write a file with its checksum so that it is there whole or not at all."""
        buffer = io.BytesIO()
        save(buffer)
        write_file(self.path / name, seal(buffer.getvalue()))


def _flat(config: TrainingConfig) -> dict[tuple[str, str], Any]:
    """Return the options by group and name, those of parts one by one."""
    flat: dict[tuple[str, str], Any] = {}
    for name, value in config.as_dict().items():
        if isinstance(value, dict):
            flat |= {(name, key): each for key, each in value.items()}
        else:
            flat["", name] = value
    return flat


def _commit() -> str | None:
    """Return the commit of the code that runs, where it runs from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
