"""Models trained together: each must be the model that the trainer trains alone."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ensemble_cases import BASE, KINDS, WARM_UP, iris_folds
from softmargin import data
from softmargin.training import Fold, TrainingConfig, train, train_together
from softmargin.training.batches import Batches, statistics
from softmargin.training.ensemble import run as ensemble
from softmargin.training.ensemble.members import blocks_of, pool
from softmargin.training.ensemble.part import Part

CPU = torch.device("cpu")


def alone(config: TrainingConfig, fold: Fold | None, out: Path) -> list[float]:
    """Return the loss of every step of the trainer."""
    table = data.load_table("iris")
    dataset = table
    if fold is not None:
        whole = table.whole
        dataset = dataclasses.replace(
            table, train=whole.select(fold.train), test=whole.select(fold.test)
        )
    losses: list[float] = []
    train(config, out, progress=lambda e, s, loss: losses.append(float(loss)), dataset=dataset)
    return losses


def together(configs: list[TrainingConfig], folds: list[Fold] | None) -> list[list[float]]:
    """Return the loss of every step of every model."""
    table = data.load_table("iris")
    samples, _ = pool(table, folded=folds is not None)
    blocks = blocks_of(configs, table, folds)
    x = ensemble._normalised(samples, blocks, configs[0])
    losses: list[list[float]] = [[] for _ in configs]
    for block in blocks:
        part = Part(block, x, (4,), 3)
        for _ in range(configs[0].epochs):
            for step in part.train_epoch():
                for number, loss in zip(part.numbers, step.tolist(), strict=True):
                    losses[number].append(loss)
    return losses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "optimizer", "bound"),
    [("64", "sgd", 1e-9), ("64", "adam", 1e-9), ("32", "sgd", 1e-3)],
)
def test_every_model_is_the_one_trained_alone(
    precision: str, optimizer: str, bound: float, tmp_path: Path
) -> None:
    base = dataclasses.replace(BASE, precision=precision, optimizer=optimizer)
    base = dataclasses.replace(base, lr=0.005) if optimizer == "adam" else base
    configs = [dataclasses.replace(base, **kind) for kind in KINDS]
    found = together(configs, None)
    for number, config in enumerate(configs):
        expected = alone(config, None, tmp_path / str(number))
        assert len(expected) >= 80
        worst = max(
            abs(a - b) / max(abs(b), 1e-3) for a, b in zip(found[number], expected, strict=True)
        )
        assert worst < bound, (config, worst)


@pytest.mark.slow
def test_folds_of_unequal_size_are_exact(tmp_path: Path) -> None:
    """Some folds of 149 rows have three batches, others a fourth of one row: none is dropped."""
    folds, batch = iris_folds(4), 37
    rows = [len(fold.train) for fold in folds]
    assert {-(-size // batch) for size in rows} == {3, 4}
    kinds = [KINDS[0], {"head": "adacos"}, {"center": 0.1}, WARM_UP]
    for optimizer in ("sgd", "adam"):
        base = dataclasses.replace(BASE, batch=batch, epochs=8, optimizer=optimizer, lr=0.01)
        configs = [
            dataclasses.replace(base, seed=seed, **kind)
            for seed in range(len(folds))
            for kind in kinds
        ]
        own = [fold for fold in folds for _ in kinds]
        found = together(configs, own)
        for number, config in enumerate(configs):
            expected = alone(config, own[number], tmp_path / optimizer / str(number))
            assert found[number] == pytest.approx(expected, rel=1e-9), config


def test_scores_logits_and_weights_are_the_trainers(tmp_path: Path) -> None:
    kinds = [KINDS[1], {"head": "arcface"}, {"head": "adacos"}]
    configs = [dataclasses.replace(BASE, **kind, epochs=3) for kind in kinds]
    result = train_together(configs, threads=1)
    table = data.load_table("iris")
    for number, config in enumerate(configs):
        expected = train(config, tmp_path / str(number), dataset=table)
        for name in ("accuracy", "nll", "ece"):
            assert float(result.final(name)[number]) == pytest.approx(expected[name], abs=1e-9)
        logits, y = result.predictions(number)
        stored = np.load(tmp_path / str(number) / "predictions.npz")
        np.testing.assert_allclose(logits.numpy(), stored["logits"], rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(y.numpy(), stored["labels"])
        rows = Batches(table.test, statistics(table.train), 15, device=CPU, dtype=torch.float64)
        again = result.classifier(number)(rows.prepared(table.test.x))
        torch.testing.assert_close(again, logits, rtol=1e-9, atol=1e-9)
    assert result.history("accuracy").shape == (3, 3)


def test_confidences_are_those_that_the_trainer_records(tmp_path: Path) -> None:
    kinds = [KINDS[0], {"head": "cosface"}]
    configs = [dataclasses.replace(BASE, **kind, epochs=3, record=True) for kind in kinds]
    result = train_together(configs, threads=1, record=True)
    for number, config in enumerate(configs):
        train(config, tmp_path / str(number), dataset=data.load_table("iris"))
        recorder, place = result.recorder(number)
        for epoch in range(3):
            stored = np.load(tmp_path / str(number) / "confidence" / f"{epoch + 1:04d}.npy")
            own = recorder.confidence[place, epoch, :135].numpy()
            np.testing.assert_allclose(own, stored, atol=1e-3)


def test_parts_threads_and_memory_do_not_matter() -> None:
    configs = [dataclasses.replace(BASE, epochs=2, seed=seed) for seed in range(7)]
    whole = train_together(configs, parts=1, threads=1)
    for options in ({"parts": 3, "threads": 2}, {"parts": 1, "memory": 1.0, "threads": 2}):
        other = train_together(configs, **options)  # type: ignore[arg-type]
        assert len(other._parts) == (3 if options["parts"] == 3 else 7)
        torch.testing.assert_close(whole.final("nll"), other.final("nll"), rtol=1e-9, atol=0)


def test_scores_can_be_watched_as_they_come_in() -> None:
    configs = [dataclasses.replace(BASE, epochs=4, seed=seed) for seed in range(3)]
    seen: dict[tuple[int, int], dict[str, float]] = {}

    def watch(epoch: int, scores: dict[int, dict[str, float]]) -> None:
        seen.update({(number, epoch): own for number, own in scores.items()})

    result = train_together(configs, evaluate_every=2, watch=watch)
    assert sorted(seen) == [(number, epoch) for number in range(3) for epoch in range(1, 5)]
    for number in range(3):
        assert "nll" not in seen[number, 1]
        for place, epoch in enumerate((2, 4)):
            assert seen[number, epoch]["nll"] == float(result.history("nll")[number, place])


def test_a_stopped_run_goes_on_and_ends_the_same(tmp_path: Path) -> None:
    kinds = [KINDS[0], WARM_UP, {"head": "adacos"}, {"center": 0.1}]
    configs = [
        dataclasses.replace(BASE, epochs=6, optimizer="adam", lr=0.01, seed=seed, **kind)
        for seed in range(2)
        for kind in kinds
    ]
    expected = train_together(configs, record=True)

    def stop(done: int, total: int) -> None:
        if done >= total / 2:
            raise KeyboardInterrupt

    ensemble_save, ensemble.SAVE_EVERY = ensemble.SAVE_EVERY, 0.0
    try:
        with pytest.raises(KeyboardInterrupt):
            train_together(configs, record=True, out=tmp_path / "run", threads=1, progress=stop)
        started: list[int] = []
        found = train_together(
            configs, record=True, out=tmp_path / "run", progress=lambda d, t: started.append(d)
        )
    finally:
        ensemble.SAVE_EVERY = ensemble_save
    assert started[0] > 6, "it began again"
    for name in ("train_loss", "nll"):
        assert torch.equal(expected.history(name), found.history(name))
    for number in range(len(configs)):
        ours, place = found.recorder(number)
        theirs, _ = expected.recorder(number)
        assert torch.equal(
            ours.confidence[place].nan_to_num(-1), theirs.confidence[place].nan_to_num(-1)
        )
    again: list[int] = []
    train_together(
        configs, record=True, out=tmp_path / "run", progress=lambda d, t: again.append(d)
    )
    assert again == [48]  # all was there, nothing was trained
    with pytest.raises(ValueError, match="same models"):
        train_together(configs[:4], record=True, out=tmp_path / "run")


KILLED = """
import sys
from pathlib import Path
from softmargin.training import TrainingConfig, train_together
from softmargin.training.ensemble import run
run.SAVE_EVERY = 0.0
configs = [
    TrainingConfig("iris", "mlp", epochs=100, batch=30, seed=seed, loss_options={"beta": beta})
    for seed in range(4) for beta in (1.0, 0.1)
]
result = train_together(configs, out=Path(sys.argv[1]))
print(result.history("nll").double().sum(1).tolist())
"""


@pytest.mark.slow
def test_killed_at_random_moments_it_ends_the_same(tmp_path: Path) -> None:
    def start(out: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path / out)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    expected = start("whole").communicate()[0]
    moments = random.Random(0)
    killed = 0
    for _ in range(3):
        process = start("killed")
        marker = tmp_path / "killed" / "part-0000" / "checkpoint.pt"
        while process.poll() is None and not marker.exists():
            time.sleep(0.02)
        time.sleep(moments.uniform(0, 0.5))
        if process.poll() is None:
            process.kill()
            killed += 1
        process.communicate()
    assert killed >= 1
    assert start("killed").communicate()[0] == expected != ""


def test_a_model_that_diverges_does_not_disturb_the_others() -> None:
    configs = [dataclasses.replace(BASE, epochs=3, lr=lr) for lr in (0.01, 1e9)]
    alone_ = train_together(configs[:1], threads=1)
    both = train_together(configs, threads=1, record=True, parts=1)
    assert float(both.final("nll")[0]) == pytest.approx(float(alone_.final("nll")[0]), rel=1e-9)
    assert not both.final("train_loss")[1].isfinite() or both.final("accuracy")[1] < 0.9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model": "small_resnet", "model_options": {}, "data": "digits"},
            "SmallResNet, has batch",
        ),
        ({"augment": True}, "augment must be False"),
        ({"precision": "bf16"}, "precision must be 32 or 64"),
        ({"batch": 500}, "batch must be at most the 135 training samples, but got 500"),
        ({"loss_options": {"reduction": "none"}}, "loss must be one number for a batch"),
        ({"head": "arcfase"}, "head must be a name such as arcface"),
        ({"loss_options": {"beta": -1.0}}, "beta must be a finite number above 0, but got -1"),
    ],
)
def test_what_cannot_be_trained_together_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train_together([dataclasses.replace(BASE, **change)], threads=1)


def test_models_must_agree_in_what_they_share() -> None:
    other = dataclasses.replace(BASE, epochs=21)
    with pytest.raises(ValueError, match="epochs must be the same .* but got 5 and 21"):
        train_together([BASE, other])
    with pytest.raises(ValueError, match="at least one configuration"):
        train_together([])
    with pytest.raises(ValueError, match="folds must hold one per model, 1, but got 2"):
        train_together([BASE], folds=iris_folds(2))
    with pytest.raises(ValueError, match="record must be True"):
        train_together([dataclasses.replace(BASE, epochs=1)]).recorder(0)
