"""One protocol for loggers, with real ones where they are installed."""

from __future__ import annotations

import pytest

from softmargin.integrations.loggers import as_logger


@pytest.mark.slow
def test_tensorboard(tmp_path):
    tensorboard = pytest.importorskip("torch.utils.tensorboard")
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with tensorboard.SummaryWriter(tmp_path) as writer:
        logger = as_logger(writer)
        for step, beta in enumerate((0.25, 0.5, 1.0)):
            logger.log({"beta": beta, "ece": beta / 2}, step)
    reader = events.EventAccumulator(str(tmp_path))
    reader.Reload()
    assert [(e.step, e.value) for e in reader.Scalars("beta")] == [(0, 0.25), (1, 0.5), (2, 1.0)]
    assert [e.value for e in reader.Scalars("ece")] == [0.125, 0.25, 0.5]


@pytest.mark.slow
def test_mlflow(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri(tmp_path.as_uri())
    mlflow.set_experiment("softmargin")
    with mlflow.start_run() as run:
        logger = as_logger(mlflow)
        for step, beta in enumerate((0.25, 0.5, 1.0)):
            logger.log({"beta": beta}, step)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "beta")
    assert [(each.step, each.value) for each in history] == [(0, 0.25), (1, 0.5), (2, 1.0)]


@pytest.mark.slow
def test_wandb(tmp_path):
    wandb = pytest.importorskip("wandb")
    with wandb.init(mode="offline", dir=tmp_path, project="softmargin") as run:
        logger = as_logger(run)
        for step, beta in enumerate((0.25, 0.5, 1.0)):
            logger.log({"beta": beta}, step)
            assert run.summary.get("beta") == (None, 0.25, 0.5)[step]  # of steps that have ended


@pytest.mark.slow
def test_lightning(tmp_path):
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    csv = loggers.CSVLogger(tmp_path)
    as_logger(csv).log({"beta": 0.25}, 3)
    csv.save()
    (file,) = tmp_path.rglob("metrics.csv")
    assert file.read_text().split() == ["beta,step", "0.25,3"]


def test_what_cannot_log_is_refused():
    with pytest.raises(TypeError, match="logger must be a TensorBoard .* but got int"):
        as_logger(3)
