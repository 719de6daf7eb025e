"""A run's folder: what is in it is whole at every moment, whatever happens to the process.

- ``config.json``: the frozen configuration; a run that goes on must have the same one.
- ``metrics.jsonl``: one line per epoch.
- ``checkpoint.pt``: everything needed to go on, replaced atomically.
- ``predictions.npz``: logits and labels of the test set, once the run is finished.
- ``result.json``: the final metrics; while it is there, the run is not run again.
- ``environment.json``: versions, machine and commit of the last process that worked here.
"""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import Tensor

from softmargin.training.config import TrainingConfig


class RunFolder:
    """The folder of one run; only one process at a time may work in it."""

    def __init__(self, path: Path) -> None:
        """Name the folder; nothing is written yet."""
        self.path = path

    @contextmanager
    def locked(self, *, wait: bool = False) -> Iterator[None]:
        """Hold the folder; where another process does, wait for it or refuse."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / ".lock")
        try:
            lock.acquire(timeout=-1 if wait else 0)
        except Timeout:
            raise ValueError(
                f"out must be a folder that no other run is working in, but got {str(self.path)!r}."
            ) from None
        try:
            yield
        finally:
            lock.release()

    def freeze(self, config: TrainingConfig) -> None:
        """Keep the configuration and the environment."""
        self.save_environment()
        self.write("config.json", json.dumps(config.as_dict(), indent=1))

    def check(self, config: TrainingConfig) -> None:
        """Refuse a configuration that differs from the one kept, if there is one."""
        if not (self.path / "config.json").exists():
            return
        known = self.config()
        if changed := known.difference(config):
            name = changed[0]
            raise ValueError(
                f"{', '.join(changed)} must be as when the run in {str(self.path)!r} began, "
                f"{name} {known.as_dict()[name]!r}, but got {config.as_dict()[name]!r}."
            )

    def config(self) -> TrainingConfig:
        """Return the configuration kept."""
        return TrainingConfig.from_dict(self._json("config.json"))

    def result(self) -> dict[str, Any] | None:
        """Return the final metrics, or None while the run is not finished."""
        if not (self.path / "result.json").exists():
            return None
        result: dict[str, Any] = self._json("result.json")
        return result

    def metrics(self) -> list[dict[str, Any]]:
        """Return the metrics of all epochs so far."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        return [json.loads(line) for line in lines]

    def keep_metrics(self, epochs: int) -> None:
        """Drop what was written after the checkpoint that training goes on from."""
        path = self.path / "metrics.jsonl"
        if path.exists():
            lines = path.read_bytes().split(b"\n")[:epochs]
            self.write("metrics.jsonl", b"".join(line + b"\n" for line in lines))

    def append(self, metrics: dict[str, Any]) -> None:
        """Add the metrics of one epoch."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(metrics) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def save(self, state: dict[str, Any]) -> None:
        """Replace the checkpoint."""
        buffer = io.BytesIO()
        torch.save(state, buffer)
        self.write("checkpoint.pt", buffer.getvalue())

    def load(self, device: torch.device) -> dict[str, Any] | None:
        """Return the checkpoint, or None where there is none. It can hold no code."""
        path = self.path / "checkpoint.pt"
        if not path.exists():
            return None
        state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        return state

    def save_predictions(self, logits: Tensor, labels: Tensor) -> None:
        """Keep the logits and labels of the test set, for ``softmargin calibrate`` too."""
        buffer = io.BytesIO()
        np.savez(buffer, logits=logits.float().cpu().numpy(), labels=labels.cpu().numpy())
        self.write("predictions.npz", buffer.getvalue())

    def save_confidence(self, epoch: int, confidence: Tensor) -> None:
        """Keep every training sample's confidence after an epoch, in float16."""
        buffer = io.BytesIO()
        np.save(buffer, confidence.half().cpu().numpy())
        (self.path / "confidence").mkdir(exist_ok=True)
        self.write(f"confidence/{epoch:04d}.npy", buffer.getvalue())

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
        self.write("environment.json", json.dumps(content, indent=1))

    def write(self, name: str, content: str | bytes) -> None:
        """Write a file so that it is there whole or not at all, even after a power cut."""
        target = self.path / name
        unfinished = target.with_name(f".{target.name}.unfinished")
        try:
            with unfinished.open("wb") as file:
                file.write(content if isinstance(content, bytes) else content.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError:  # such as a full disk: at least give back what this has taken
            unfinished.unlink(missing_ok=True)
            raise
        unfinished.replace(target)

    def _json(self, name: str) -> Any:
        try:
            return json.loads((self.path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(
                f"RUN must be a folder with a readable {name}, but got {str(self.path)!r}: {error}."
            ) from None


def _commit() -> str | None:
    """Return the commit of the code that runs, where it runs from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
