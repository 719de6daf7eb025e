"""Lightning: a real Trainer, with schedules, metrics, records, checkpoints and two processes."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

lightning = pytest.importorskip("lightning.pytorch")

from softmargin import GradientDecayLoss, heads  # noqa: E402
from softmargin.calibration import calibration_metrics  # noqa: E402
from softmargin.diagnostics import ConfidenceRecorder  # noqa: E402
from softmargin.integrations.lightning import MarginCallback  # noqa: E402
from softmargin.integrations.torchmetrics import ExpectedCalibrationError  # noqa: E402
from softmargin.schedules import Linear  # noqa: E402

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")

C, D, N = 3, 5, 48


def data(count=N, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, D, generator=generator)
    target = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    return TensorDataset(torch.arange(count), x, target)


def loader(**options):
    return DataLoader(data(**options), batch_size=8)


class Module(lightning.LightningModule):
    """A small network with a margin head, as a user writes it."""

    def __init__(self, learn_beta=False):
        super().__init__()
        torch.manual_seed(0)
        self.network = nn.Sequential(nn.Linear(D, 8), nn.Tanh())
        self.head = heads.CosFaceHead(8, C, scale=8.0, margin=0.1)
        self.criterion = GradientDecayLoss(learn_beta=learn_beta)
        self.ece = ExpectedCalibrationError(C, from_logits=True)
        self.used = []

    def training_step(self, batch, batch_idx):
        index, x, target = batch
        features = self.network(x)
        self.used.append(float(self.criterion.beta))
        loss = self.criterion(self.head(features, target), target)
        logits = self.head.inference_logits(features)
        return {"loss": loss, "logits": logits, "target": target, "index": index}

    def validation_step(self, batch, batch_idx):
        _, x, target = batch
        logits = self.head(self.network(x))
        self.ece.update(logits, target)
        self.log("torchmetrics_ece", self.ece)
        return {"logits": logits, "target": target}

    test_step = validation_step

    def configure_optimizers(self):
        own = [*self.network.parameters(), *self.head.parameters()]
        return torch.optim.SGD(own, lr=0.5, momentum=0.9)


def trainer(folder, *callbacks, **options):
    given = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        "max_epochs": 2,
        "num_sanity_val_steps": 1,
        **options,
    }
    return lightning.Trainer(callbacks=list(callbacks), **given)


def ramp(module):
    return Linear(module.criterion, "beta", start=0.5, end=1.1, steps=6)


def test_schedules_follow_the_optimiser_not_the_batches(tmp_path):
    module = Module()
    callback = MarginCallback(ramp)
    fit = trainer(tmp_path, callback, accumulate_grad_batches=3, max_epochs=2)
    fit.fit(module, loader())
    assert fit.global_step == 4
    expected = [0.5, 0.6, 0.7, 0.8]
    assert module.used == pytest.approx([value for value in expected for _ in range(3)])
    assert float(module.criterion.beta) == pytest.approx(0.9)
    assert fit.logged_metrics["beta"] == pytest.approx(0.8)


def test_metrics_are_those_of_all_samples(tmp_path):
    module, callback = Module(), MarginCallback(metrics=["accuracy", "ece", "nll", "classwise_ece"])
    fit = trainer(tmp_path, callback)
    fit.fit(module, loader(), loader(seed=1))
    _, x, target = data(seed=1).tensors
    with torch.no_grad():
        logits = module.head.inference_logits(module.network(x))
    expected = calibration_metrics(logits, target, from_logits=True)
    for name in callback.metrics:
        assert fit.logged_metrics[f"val_{name}"] == pytest.approx(getattr(expected, name), rel=1e-5)
    assert fit.logged_metrics["torchmetrics_ece"] == pytest.approx(expected.ece, rel=1e-5)
    (found,) = fit.test(module, loader(seed=1), verbose=False)
    assert found["test_ece"] == pytest.approx(expected.ece, rel=1e-5)


class Continuing:
    """A loader that goes on where a checkpoint was; PyTorch's own starts an epoch anew."""

    def __init__(self):
        self.batches, self.place = list(loader()), 0

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        self.place %= len(self.batches)
        while self.place < len(self.batches):
            self.place += 1
            yield self.batches[self.place - 1]

    def state_dict(self):
        return {"place": self.place}

    def load_state_dict(self, state):
        self.place = state["place"]


def run(folder, *, batches, resume=None, **when):
    module, recorder = Module(), ConfidenceRecorder(N)
    callback = MarginCallback(
        lambda m: Linear(m.criterion, "beta", start=0.1, end=2.1, steps=20), recorder=recorder
    )
    save = lightning.callbacks.ModelCheckpoint(folder, save_top_k=-1, **when)
    fit = trainer(
        folder,
        callback,
        save,
        max_epochs=4,
        accumulate_grad_batches=2,
        enable_checkpointing=True,
    )
    fit.fit(module, batches, ckpt_path=resume, weights_only=True if resume else None)
    return module, recorder


@pytest.mark.parametrize(
    ("batches", "when"),
    [(loader, {"every_n_epochs": 1}), (Continuing, {"every_n_train_steps": 4})],
    ids=["epoch", "step"],
)
def test_a_resumed_run_is_the_same_run(batches, when, tmp_path):
    whole, records = run(tmp_path / "whole", batches=batches(), **when)
    assert float(whole.criterion.beta) == pytest.approx(1.3)
    checkpoints = sorted((tmp_path / "whole").glob("*.ckpt"))[:2]
    assert len(checkpoints) == 2
    for checkpoint in checkpoints:
        resumed, again = run(
            tmp_path / "resumed", batches=batches(), resume=str(checkpoint), **when
        )
        assert 0 < len(resumed.used) < len(whole.used)
        assert whole.used[-len(resumed.used) :] == resumed.used
        for name, value in whole.state_dict().items():
            assert torch.equal(resumed.state_dict()[name], value), name
        assert torch.equal(again.confidence, records.confidence)


class InTwo(Module):
    """Writes what each process has logged."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def on_fit_end(self):
        found = {name: float(value) for name, value in self.trainer.logged_metrics.items()}
        found["beta_now"] = float(self.criterion.beta)
        torch.save(found, f"{self.folder}/{self.trainer.global_rank}.pt")
        torch.save(self.state_dict(), f"{self.folder}/weights{self.trainer.global_rank}.pt")


@pytest.mark.slow
def test_two_processes_log_what_one_would(tmp_path):
    module = InTwo(str(tmp_path))
    callback = MarginCallback(ramp, metrics=["ece", "nll"])
    fit = trainer(tmp_path, callback, devices=2, strategy="ddp_spawn", max_epochs=1)
    fit.fit(module, loader(), loader(seed=1))
    found = [torch.load(tmp_path / f"{rank}.pt") for rank in (0, 1)]
    module = Module()
    module.load_state_dict(torch.load(tmp_path / "weights0.pt"), strict=False)
    _, x, target = data(seed=1).tensors
    with torch.no_grad():
        logits = module.head.inference_logits(module.network(x))
    expected = calibration_metrics(logits, target, from_logits=True)
    for each in found:
        assert each["val_ece"] == pytest.approx(expected.ece, rel=1e-5)
        assert each["val_nll"] == pytest.approx(expected.nll, rel=1e-5)
        assert each["torchmetrics_ece"] == pytest.approx(expected.ece, rel=1e-5)
        assert each["beta_now"] == pytest.approx(0.8)


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="metrics must be one of .* but got 'auc'"):
        MarginCallback(metrics=["auc"])
    with pytest.raises(ValueError, match="must have its log_beta in the optimiser, but it is in"):
        trainer(tmp_path, MarginCallback()).fit(Module(learn_beta=True), loader())

    class Silent(Module):
        def validation_step(self, batch, batch_idx):
            return super().validation_step(batch, batch_idx)["logits"]

    with pytest.raises(ValueError, match="validation_step must return a dict with tensors logits,"):
        trainer(tmp_path, MarginCallback(metrics=["ece"])).fit(Silent(), loader(), loader())

    class Short(Module):
        def training_step(self, batch, batch_idx):
            return super().training_step(batch, batch_idx)["loss"]

    with pytest.raises(ValueError, match="but returned a dict without logits, target, index"):
        trainer(tmp_path, MarginCallback(recorder=ConfidenceRecorder(N))).fit(Short(), loader())
