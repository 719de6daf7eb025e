"""Hugging Face: real Trainers on tiny transformers made from a configuration."""

from __future__ import annotations

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")

from tiny_transformers import (  # noqa: E402
    C,
    arguments,
    bert,
    gpt2,
    margin_bert,
    sentences,
    trained,
)

from softmargin import FocalLoss, GradientDecayLoss  # noqa: E402
from softmargin.calibration import TemperatureScaling  # noqa: E402
from softmargin.diagnostics import ConfidenceRecorder  # noqa: E402
from softmargin.integrations.transformers import (  # noqa: E402
    EvaluationMetrics,
    MarginCallback,
    compute_loss,
    margin_classifier,
)
from softmargin.schedules import Linear  # noqa: E402

KINDS = {
    "sequence": (bert, False),
    "token": (lambda: bert("ForTokenClassification"), False),
    "causal": (gpt2, True),
}
each_kind = pytest.mark.parametrize("kind", KINDS)


@each_kind
@pytest.mark.parametrize("weighted", [False, True])
def test_accumulated_gradients_are_those_of_one_large_batch(kind, weighted, tmp_path):
    make, causal = KINDS[kind]
    weight = None
    if weighted:
        weight = torch.linspace(0.5, 2.0, 40 if causal else C)
    loss = compute_loss(GradientDecayLoss(beta=5.0, weight=weight), causal=causal)
    found = []
    for size, parts in ((8, 1), (2, 4)):
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": parts}
        rows = sentences(kind, 8)
        found.append(trained(make(), rows, tmp_path, compute_loss_func=loss, arguments=options))
    assert max(change.abs().max() for change in found[0].values()) > 1e-3
    for name, change in found[0].items():
        torch.testing.assert_close(found[1][name], change, rtol=1e-4, atol=1e-7)


@each_kind
def test_beta_1_is_what_the_model_does_by_itself(kind, tmp_path):
    make, causal = KINDS[kind]
    rows = sentences(kind, 8)
    options = {"per_device_train_batch_size": 8}
    ours = trained(
        make(),
        rows,
        tmp_path,
        compute_loss_func=compute_loss(GradientDecayLoss(), causal=causal),
        arguments=options,
    )
    own = trained(make(), rows, tmp_path, arguments=options)
    for name, change in own.items():
        torch.testing.assert_close(ours[name], change, rtol=1e-4, atol=1e-7)


def test_soft_labels_are_counted_once(tmp_path):
    rows, soft = sentences("sequence", 8), sentences("sequence", 8)
    for row in soft:
        row["labels"] = nn.functional.one_hot(row["labels"], C).float()
    loss = compute_loss(GradientDecayLoss(beta=5.0))
    options = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4}
    found = [
        trained(bert(), given, tmp_path, compute_loss_func=loss, arguments=options)
        for given in (rows, soft)
    ]
    for name, change in found[0].items():
        torch.testing.assert_close(found[1][name], change, rtol=1e-4, atol=1e-7)


def test_schedules_follow_the_optimiser_and_resume(tmp_path):
    seen = {}

    class Watch(transformers.TrainerCallback):
        def on_step_begin(self, args, state, control, **parts):
            seen[state.global_step] = float(criterion.beta)

    logged = []

    def run(resume=None, **options):
        nonlocal criterion
        criterion = GradientDecayLoss()
        schedule = Linear(criterion, "beta", start=0.1, end=1.0, steps=6)
        given = {
            "per_device_train_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "save_strategy": "steps",
            "save_steps": 3,
            "logging_steps": 2,
            **options,
        }
        loss = compute_loss(criterion)
        trainer = transformers.Trainer(
            bert(),
            arguments(tmp_path, **given),
            train_dataset=sentences("sequence"),
            compute_loss_func=loss,
            callbacks=[
                MarginCallback(
                    schedule, loss=loss, logger=lambda metrics, step: logged.append((step, metrics))
                ),
                Watch(),
            ],
        )
        trainer.train(resume_from_checkpoint=resume)
        return {k: v.clone() for k, v in trainer.model.state_dict().items()}

    criterion = None
    whole = run(max_steps=8)
    expected = [0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 1.0, 1.0]
    assert [seen[step] for step in range(8)] == pytest.approx(expected)
    assert [step for step, _ in logged] == [2, 4, 6, 8, 8]
    assert logged[0][1] == {"beta": pytest.approx(0.4)}
    seen.clear()
    resumed = run(str(tmp_path / "checkpoint-3"), max_steps=8)
    assert [seen[step] for step in range(3, 8)] == pytest.approx(expected[3:])
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


def indexed(count=16):
    return [{**row, "index": torch.tensor(i)} for i, row in enumerate(sentences("sequence", count))]


@pytest.mark.parametrize("margin", [False, True])
def test_every_sample_is_recorded(margin, tmp_path):
    rows, recorder = indexed(), ConfidenceRecorder(16)
    options = {"per_device_train_batch_size": 4, "num_train_epochs": 2, "save_strategy": "epoch"}
    given = arguments(tmp_path, **options, remove_unused_columns=False)
    loss = compute_loss(FocalLoss())
    if margin:
        model = margin_classifier(transformers.BertForSequenceClassification)(
            bert().config, head="CosFace", head_options={"margin": 0.2}
        )
        extra = {"callbacks": [MarginCallback(recorder=recorder)]}
    else:
        model = bert()
        callback = MarginCallback(recorder=recorder, loss=loss)
        extra = {"compute_loss_func": loss, "callbacks": [callback]}
    transformers.Trainer(model, given, train_dataset=rows, eval_dataset=rows, **extra).train()
    assert recorder.epochs == 2
    assert recorder.confidence.isfinite().all()
    other = ConfidenceRecorder(16)
    other.load_state_dict(torch.load(tmp_path / "checkpoint-4" / "softmargin_recorder.pt"))
    assert torch.equal(other.confidence[0], recorder.confidence[0])
    assert not model._forward_hooks
    assert not loss.observers


def test_metrics_of_an_evaluation(tmp_path):
    rows = sentences("token", 64)
    found = []
    for batched in (False, True):
        metrics = EvaluationMetrics(None if batched else TemperatureScaling)
        trainer = transformers.Trainer(
            bert("ForTokenClassification"),
            arguments(tmp_path, batch_eval_metrics=batched, per_device_eval_batch_size=7),
            eval_dataset=rows,
            compute_loss_func=compute_loss(GradientDecayLoss()),
            compute_metrics=metrics,
        )
        found.append(trainer.evaluate())
    assert found[0]["eval_ece"] == pytest.approx(found[1]["eval_ece"])
    assert found[0]["eval_nll"] == pytest.approx(found[1]["eval_nll"])
    assert 0 < found[0]["eval_calibrated_ece"] < 1
    assert found[0]["eval_temperature"] > 0
    assert metrics.calibrator is None


# --- mistakes ----------------------------------------------------------------------------------


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ValueError, match="must have ignore_index=-100, which Trainer counts by"):
        compute_loss(GradientDecayLoss(ignore_index=0))
    with pytest.raises(ValueError, match="must have reduction=\"mean\", but got 'sum'"):
        compute_loss(GradientDecayLoss(reduction="sum"))
    with pytest.raises(TypeError, match="criterion must be a criterion .* but got MSELoss"):
        compute_loss(nn.MSELoss())
    loss = compute_loss(GradientDecayLoss())
    with pytest.raises(ValueError, match="labels must be in the batch for compute_loss"):
        loss({"logits": torch.zeros(2, 3)}, None)
    with pytest.raises(ValueError, match="outputs must hold logits, but got last_hidden_state"):
        loss({"last_hidden_state": torch.zeros(2, 3)}, torch.zeros(2))
    with pytest.raises(ValueError, match=r"labels must have shape \(2, 5\) for these logits"):
        loss({"logits": torch.zeros(2, 5, 3)}, torch.zeros(2))
    rows = sentences("sequence", 8)
    model = margin_bert("CosFace")
    with pytest.raises(ValueError, match="CosFaceHead needs them.*leave out Trainer's compute_lo"):
        trained(model, rows, tmp_path, compute_loss_func=loss)
    learned = compute_loss(GradientDecayLoss(learn_beta=True))
    with pytest.raises(ValueError, match="must have its log_beta in the optimiser"):
        trained(
            bert(),
            rows,
            tmp_path,
            compute_loss_func=learned,
            callbacks=[MarginCallback(loss=learned)],
        )
    with pytest.raises(ValueError, match="must have remove_unused_columns=False for a recorder"):
        trained(bert(), rows, tmp_path, callbacks=[MarginCallback(recorder=ConfidenceRecorder(8))])
    with pytest.raises(ValueError, match="the batch must hold 'index' for the recorder"):
        trained(
            bert(),
            rows,
            tmp_path,
            callbacks=[MarginCallback(recorder=ConfidenceRecorder(8))],
            arguments={"remove_unused_columns": False},
        )
    with pytest.raises(ValueError, match="head must be a name such as"):
        margin_bert("nonesuch")
