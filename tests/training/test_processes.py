"""Devices, and several processes that follow one."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from launching import launch

from softmargin.training.processes import backend_for, device_name

DEVICES = [  # asked for, CUDA here, MPS here, local rank: device
    ("auto", False, False, 0, "cpu"),
    ("auto", False, False, 1, "cpu"),
    ("auto", True, False, 0, "cuda:0"),
    ("auto", True, False, 3, "cuda:3"),
    ("auto", True, True, 1, "cuda:1"),
    ("auto", False, True, 1, "mps"),
    ("cuda", True, False, 0, "cuda:0"),
    ("cuda", True, False, 2, "cuda:2"),
    ("cuda:1", True, False, 2, "cuda:1"),
    ("cpu", True, True, 2, "cpu"),
    ("mps", True, True, 2, "mps"),
]


@pytest.mark.parametrize(("name", "cuda", "mps", "rank", "expected"), DEVICES)
def test_which_device_a_process_takes(name, cuda, mps, rank, expected):
    assert device_name(name, cuda=cuda, mps=mps, local_rank=rank) == expected


@pytest.mark.parametrize(
    ("device", "backend"),
    [("cpu", "gloo"), ("cuda:0", "nccl"), ("cuda:3", "nccl"), ("mps", "gloo")],
)
def test_the_backend_follows_the_device(monkeypatch, device, backend):
    for here in (False, True):
        monkeypatch.setattr(torch.cuda, "is_available", lambda here=here: here)
        assert backend_for(torch.device(device)) == backend


WORKER = """
import sys, torch
from pathlib import Path
torch.set_num_threads(1)
from softmargin.data import Dataset, Provenance, Split
from softmargin.training import TrainingConfig, train

def split(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randint(0, 256, (count, 3, 8, 8), generator=generator, dtype=torch.uint8)
    return Split(x, torch.arange(count) % 3)

out, model, precision, head, batch = sys.argv[1:]
samples = {"6": 25, "7": 24}[batch]  # of the last batch 1 or 3: none, or one, for the second
pictures = Dataset("made up", split(samples, 0), split(1, 1), ("a", "b", "c"), Provenance("", ""))
options = {"width": 4} if model == "small_resnet" else {}
config = TrainingConfig(
    model=model, model_options=options, head=head, epochs=2, batch=int(batch), lr=0.05, clip=3.0,
    center=0.01, record=True, precision=precision, lr_schedule="step",
)
train(config, Path(out), device="cpu", dataset=pictures)
"""
CASES = [
    ("small_resnet", "64", "linear", "6"),  # one sample is left over: nothing for the second
    ("small_resnet", "64", "gaussian", "7"),  # shares of 4 and 3, then of 2 and 1
    ("small_resnet", "32", "linear", "7"),
    ("mlp", "64", "arcface", "6"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=["-".join(case) for case in CASES])
def test_two_processes_equal_one_with_batch_norm_and_uneven_shares(tmp_path, case):
    """Weights, running statistics, centers, confidences and metrics, to rounding."""
    (tmp_path / "worker.py").write_text(WORKER)
    one = [sys.executable, str(tmp_path / "worker.py"), str(tmp_path / "one"), *case]
    subprocess.run(one, check=True, timeout=300)
    two = tmp_path / "two"
    launch(tmp_path / "worker.py", [str(two), *case], two)
    first, second = (
        torch.load(tmp_path / name / "checkpoint.pt", weights_only=True) for name in ("one", "two")
    )
    rtol, atol = (1e-9, 1e-11) if case[1] == "64" else (2e-3, 2e-4)
    for part in ("model", "center"):
        assert first[part].keys() == second[part].keys()
        for name, value in first[part].items():
            torch.testing.assert_close(second[part][name], value, rtol=rtol, atol=atol, msg=name)
    if case[0] == "small_resnet":
        assert any("running_var" in name for name in first["model"])
    final = [state["recorder"]["final"] for state in (first, second)]
    torch.testing.assert_close(final[1], final[0], rtol=rtol, atol=atol)
    assert second["metrics"][-1]["nll"] == pytest.approx(first["metrics"][-1]["nll"], rel=10 * rtol)
