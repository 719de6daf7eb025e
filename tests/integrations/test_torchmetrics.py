"""Calibration in torchmetrics: collections, batches, processes, checkpoints, mistakes."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

torchmetrics = pytest.importorskip("torchmetrics")

from softmargin.calibration import CalibrationMetrics  # noqa: E402
from softmargin.integrations import torchmetrics as ours  # noqa: E402

OPTIONS = {"num_classes": 5, "from_logits": True, "bins": 8}
SCALARS = [
    kind
    for kind in vars(ours).values()
    if isinstance(kind, type) and issubclass(kind, ours.CalibrationMetric) and kind.metric
]
each = pytest.mark.parametrize("kind", SCALARS, ids=lambda kind: kind.__name__)


def batches(count=4):
    generator = torch.Generator().manual_seed(0)
    for size in range(50, 50 + count):
        logits = 2 * torch.randn(size, 5, generator=generator)
        yield logits, torch.multinomial(logits.softmax(1), 1, generator=generator).squeeze(1)


def whole(parts):
    metrics = CalibrationMetrics(5, from_logits=True, bins=8)
    for logits, target in parts:
        metrics.update(logits, target)
    return metrics.compute()


@each
def test_values_over_batches_are_those_of_all_rows(kind):
    metric = kind(**OPTIONS)
    for logits, target in batches():
        metric.update(logits, target)
    assert metric.compute().item() == pytest.approx(getattr(whole(batches()), kind.metric))
    assert metric.compute().dtype == torch.float32
    metric.reset()
    logits, target = next(batches())
    value = metric(logits, target)  # forward gives the batch's own value
    assert value.item() == pytest.approx(getattr(whole([(logits, target)]), kind.metric))


def test_a_collection_counts_once():
    metrics = torchmetrics.MetricCollection([kind(**OPTIONS) for kind in SCALARS])
    for logits, target in batches():
        metrics.update(logits, target)
    assert [sorted(group) for group in metrics.compute_groups.values()] == [
        sorted(kind.__name__ for kind in SCALARS)
    ]
    expected = whole(batches())
    for kind in SCALARS:
        value = metrics.compute()[kind.__name__]
        assert value.item() == pytest.approx(getattr(expected, kind.metric))
    everything = torchmetrics.MetricCollection(
        {"all": ours.Calibration(**OPTIONS), "accuracy_of_theirs": accuracy()}
    )
    for logits, target in batches():
        everything.update(logits, target)
    found = everything.compute()
    assert found["ece"].item() == pytest.approx(expected.ece)
    assert found["accuracy"] == pytest.approx(found["accuracy_of_theirs"])


def accuracy():
    return torchmetrics.classification.MulticlassAccuracy(5, average="micro")


def test_ignored_targets_and_more_dimensions():
    metric = ours.ExpectedCalibrationError(**OPTIONS, ignore_index=-100)
    logits, target = next(batches())
    ignored = target.clone()
    ignored[:10] = -100
    metric.update(logits[:48].view(8, 6, 5).movedim(-1, 1), ignored[:48].view(8, 6))
    expected = whole([(logits[10:48], target[10:48])]).ece
    assert metric.compute().item() == pytest.approx(expected)


def test_copies_and_checkpoints():
    metric = ours.NegativeLogLikelihood(**OPTIONS)
    metric.persistent(True)
    for logits, target in batches():
        metric.update(logits, target)
    value = metric.compute()
    for other in (copy.deepcopy(metric), pickle.loads(pickle.dumps(metric)), metric.clone()):
        assert other.compute() == value
    file = io.BytesIO()
    torch.save(metric.state_dict(), file)
    file.seek(0)
    other = ours.NegativeLogLikelihood(**OPTIONS)
    other.persistent(True)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.compute() == value


def test_mistakes_are_named():
    metric = ours.ExpectedCalibrationError(**OPTIONS)
    logits, target = next(batches())
    for given, got in (
        ((), "no predictions"),
        ((logits,), "no target"),
        ((logits, target, None, None, 3), "5 arguments"),
    ):
        for each in (metric, torchmetrics.MetricCollection([metric])):
            with pytest.raises(TypeError, match=rf"update\(preds, target\) or .*, but got {got}\."):
                each.update(*given)
    with pytest.raises(ValueError, match="must hold 5 classes in dimension 1, but got 4"):
        metric.update(logits[:, :4], target.clamp(max=3))
    with pytest.raises(ValueError, match="num_classes must be"):
        ours.BrierScore(1, from_logits=True)


def _in_process(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/init", rank=rank, world_size=2)
    metrics = torchmetrics.MetricCollection(
        [ours.ExpectedCalibrationError(**OPTIONS), ours.NegativeLogLikelihood(**OPTIONS)]
    )
    for number, (logits, target) in enumerate(batches()):
        if number % 2 == rank:
            metrics.update(logits, target)
    torch.save(metrics.compute(), f"{folder}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()


@pytest.mark.slow
def test_two_processes_add_up(tmp_path):
    mp.spawn(_in_process, (str(tmp_path),), nprocs=2)
    expected = whole(batches())
    for rank in (0, 1):
        found = torch.load(tmp_path / f"{rank}.pt")
        assert found["ExpectedCalibrationError"].item() == pytest.approx(expected.ece)
        assert found["NegativeLogLikelihood"].item() == pytest.approx(expected.nll)
