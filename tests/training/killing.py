"""Kill a run at every operation on its files, run it again, and compare with one never killed.

A program of its own, since it forks: ``python killing.py SCENARIO FOLDER``. Children count their
operations on files and send themselves SIGKILL at the k-th: before a file is made, when half of it
is written, before it is flushed, before it gets its name, before its folder is flushed, and so
between every two writes.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimisers need it, and every child would import it anew

from softmargin import data
from softmargin.training import TrainingConfig, train, train_together
from softmargin.training.ensemble import run as together

OPERATIONS = (
    *((os, name) for name in ("replace", "fsync", "mkdir", "unlink", "rmdir")),
    (tempfile, "mkstemp"),
)
NOT_COMPARED = ("environment.json", ".lock")
Work = Callable[[Path], None]


class Mortal:
    """Counts operations on files, and dies at one of them."""

    def __init__(self, at: int | None) -> None:
        self.at, self.count = at, 0
        for module, name in OPERATIONS:
            setattr(module, name, self.counted(getattr(module, name)))
        fdopen = os.fdopen
        os.fdopen = lambda *arguments: Halving(fdopen(*arguments), self)

    def counted(self, function: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self.moment()
            return function(*arguments, **named)

        return call

    def moment(self) -> None:
        self.count += 1
        if self.count == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


class Halving:
    """A file that is written in two halves, with a moment to die between them."""

    def __init__(self, file: Any, life: Mortal) -> None:
        self.file, self.life = file, life

    def __enter__(self) -> Halving:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.file, name)

    def write(self, content: bytes) -> None:
        self.file.write(content[: len(content) // 2])
        self.file.flush()
        self.life.moment()
        self.file.write(content[len(content) // 2 :])


def live(work: Work, folder: Path, at: int | None = None) -> int | None:
    """Do the work in a child; return how many moments it had, or None if it was killed."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            life = Mortal(at)
            work(folder)
            os.write(write, str(life.count).encode())
            code = 0
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            os._exit(code)
    os.close(write)
    with os.fdopen(read) as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return None
    if status:
        raise SystemExit(f"a child ended with {status} (to be killed at {at})")
    return int(told)


def plain(value: Any) -> Any:
    """Return a state without tensors: two files of equal states need not be equal."""
    if isinstance(value, torch.Tensor):
        return [str(value.dtype), value.tolist()]
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list | tuple) else value


def read(path: Path) -> bytes:
    """Return a file's content, a checkpoint's without its packing."""
    if path.name != "checkpoint.pt":
        return path.read_bytes()
    return json.dumps(plain(torch.load(path, weights_only=True))).encode()


def content(folder: Path) -> dict[str, bytes]:
    """Return all files of a folder that must be the same."""
    return {
        str(path.relative_to(folder)): read(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in NOT_COMPARED
    }


SMALL = TrainingConfig(data="iris", model="mlp", epochs=2, batch=45, lr=0.05)
FULL = replace(
    SMALL,
    loss_options={"beta": 0.5},
    schedules=("beta=linear:0.5:1:50%",),
    center=0.01,
    record=True,
)

STEERED = replace(SMALL, batch=12, held_out=0.75, schedules=("beta=calibrated",))


def trained(config: TrainingConfig, checkpoint_steps: int | None) -> Work:
    """Return a run of three steps per epoch."""
    return lambda folder: train(  # type: ignore[return-value]
        config, folder, device="cpu", checkpoint_steps=checkpoint_steps, dataset=IRIS
    )


def trained_together(folder: Path) -> None:
    """Train six networks, and write their scores, logits and weights beside the run."""
    together.SAVE_EVERY = -1.0  # after every epoch
    configs = [
        replace(SMALL, loss_options={"beta": beta}, seed=seed)
        for beta in (1.0, 0.1)
        for seed in range(3)
    ]
    found = train_together(configs, out=folder, parts=2, threads=1, record=True, dataset=IRIS)
    numbers = [found.history(name) for name in ("train_loss", "nll", "accuracy")]
    numbers += [part for number in range(6) for part in found.predictions(number)]
    numbers += [found.recorder(number)[0].confidence for number in range(6)]
    text = json.dumps([each.tolist() for each in numbers])
    with (folder / "numbers.json").open("w") as file:
        file.write(text)


SCENARIOS: dict[str, Work] = {
    "everything, every step": trained(FULL, 1),
    "one epoch, every step": trained(replace(SMALL, epochs=1), 1),
    "one epoch, its last step": trained(replace(SMALL, epochs=1, record=True), 3),
    "epochs alone": trained(FULL, None),
    "steered, every step": trained(STEERED, 1),
    "together": trained_together,
}
MANY = {"many epochs": trained(replace(SMALL, epochs=12), 2)}
IRIS = data.load("iris")


def at_every_moment(work: Work, folder: Path) -> dict[str, Any]:
    """Kill fresh runs, each at another moment, and let each end."""
    moments = live(work, folder / "straight")
    assert moments is not None
    expected = content(folder / "straight")
    wrong: dict[int, list[str]] = {}
    for at in range(1, moments + 1):
        path = folder / "killed"
        assert live(work, path, at) is None
        live(work, path)
        if (found := content(path)) != expected:
            names = {*found, *expected}
            wrong[at] = sorted(name for name in names if found.get(name) != expected.get(name))
        shutil.rmtree(path)
    return {"moments": moments, "files": sorted(expected), "wrong": wrong}


def again_and_again(work: Work, folder: Path, lifetime: int) -> dict[str, Any]:
    """Kill one run as often as it lives that long, until it has ended."""
    live(work, folder / "straight")
    kills = 0
    while live(work, folder / "killed", lifetime) is None:
        kills += 1
        assert kills < 100, "it does not go on"
    return {"kills": kills, "same": content(folder / "killed") == content(folder / "straight")}


if __name__ == "__main__":
    torch.set_num_threads(1)
    name, where, *lifetime = sys.argv[1:]
    if lifetime:
        done = again_and_again(MANY[name], Path(where), int(lifetime[0]))
    else:
        done = at_every_moment(SCENARIOS[name], Path(where))
    print(json.dumps(done))
