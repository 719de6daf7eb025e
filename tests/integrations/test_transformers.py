"""Hugging Face: real Trainers on tiny transformers made from a configuration."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")

from softmargin import FocalLoss, GradientDecayLoss, heads  # noqa: E402
from softmargin.calibration import TemperatureScaling  # noqa: E402
from softmargin.diagnostics import ConfidenceRecorder  # noqa: E402
from softmargin.integrations.transformers import (  # noqa: E402
    EvaluationMetrics,
    MarginCallback,
    compute_loss,
    margin_classifier,
)
from softmargin.schedules import Linear  # noqa: E402

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

SMALL = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 16,
    "max_position_embeddings": 16,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
C, LENGTH = 4, 6


def bert(kind="ForSequenceClassification", **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, **NO_DROPOUT, num_labels=C)
    return getattr(transformers, f"Bert{kind}")(config, **options)


def gpt2(kind="LMHeadModel"):
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=40,
        n_embd=16,
        n_layer=1,
        n_head=2,
        n_positions=16,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        num_labels=C,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=1,
    )
    return getattr(transformers, f"GPT2{kind}")(config)


def sentences(kind, count=16):
    """Return rows whose labels depend on their tokens, with unequal numbers of ignored ones."""
    generator = torch.Generator().manual_seed(0)
    rows = []
    for number in range(count):
        tokens = torch.randint(1, 40, (LENGTH,), generator=generator)
        row = {"input_ids": tokens, "attention_mask": torch.ones(LENGTH, dtype=torch.int64)}
        if kind == "sequence":
            row["labels"] = tokens[0] % C
        else:
            labels = tokens % C if kind == "token" else tokens.clone()
            labels[1 + number % (LENGTH - 1) :] = -100
            if kind == "causal":
                labels = tokens.clone()
                labels[: number % (LENGTH - 1)] = -100
            row["labels"] = labels
        rows.append(row)
    return rows


def arguments(folder, **options):
    given = {
        "output_dir": str(folder),
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        "save_strategy": "no",
        "max_grad_norm": 0.0,
        "learning_rate": 0.1,
        "lr_scheduler_type": "constant",
        "seed": 0,
        **options,
    }
    return transformers.TrainingArguments(**given)


def trained(model, rows, folder, **options):
    """Train one step with plain gradient descent and return the change of every parameter."""
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    trainer = transformers.Trainer(
        model,
        arguments(folder, max_steps=1, **options.pop("arguments", {})),
        train_dataset=rows,
        optimizers=(torch.optim.SGD(model.parameters(), lr=0.1), None),
        **options,
    )
    trainer.train()
    return {name: value.detach() - before[name] for name, value in model.named_parameters()}


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


# --- margin heads ------------------------------------------------------------------------------


EVERY_HEAD = [name for name in heads.__all__ if name != "Head"]
MarginBert = margin_classifier(transformers.BertForSequenceClassification)


def margin_bert(head, **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, **NO_DROPOUT, num_labels=C)
    return MarginBert(config, head=head, **options)


def batch(count=8):
    rows = sentences("sequence", count)
    return {name: torch.stack([row[name] for row in rows]) for name in rows[0]}


@pytest.mark.parametrize("head", EVERY_HEAD)
def test_from_pretrained_through_the_meta_device(head, tmp_path):
    model = margin_bert(head, loss_options={"beta": 5.0}).eval()
    model.criterion.beta = 3.25
    for name in model.margin_head.settings:
        setattr(model.margin_head, name, 0.35)
    inputs = batch()
    model.save_pretrained(tmp_path / "own")
    again = MarginBert.from_pretrained(tmp_path / "own")
    assert torch.equal(again(**inputs).logits, model(**inputs).logits)
    assert again.criterion.beta == 3.25
    half = MarginBert.from_pretrained(tmp_path / "own", dtype=torch.bfloat16)
    for name in model.margin_head.settings:
        assert getattr(again.margin_head, name) == 0.35
        torch.testing.assert_close(getattr(half.margin_head, name).item(), 0.35)
    bert().save_pretrained(tmp_path / "plain")
    fresh = MarginBert.from_pretrained(
        tmp_path / "plain", head=head, loss="focal", loss_options={"gamma": 3.0}
    )
    assert fresh.criterion.gamma == 3
    made = type(fresh.margin_head)(16, C)
    for name in made.settings:
        assert getattr(fresh.margin_head, name) == getattr(made, name)
    assert fresh(**inputs).loss.isfinite()
    assert torch.equal(fresh.bert.pooler.dense.weight, bert().bert.pooler.dense.weight)


@pytest.mark.parametrize("head", EVERY_HEAD)
def test_the_loss_is_that_of_head_and_criterion(head):
    model = margin_bert(head, loss_options={"beta": 5.0})
    model.train()
    inputs = batch()
    reference, other = copy.deepcopy(model), copy.deepcopy(model)
    outputs = model(**inputs)
    labels = inputs.pop("labels")
    features = reference.bert(**inputs).pooler_output
    logits = reference.margin_head(features, labels)
    torch.testing.assert_close(outputs.loss, reference.criterion(logits, labels))
    torch.testing.assert_close(outputs.logits, reference.margin_head.inference_logits(features))
    soft = nn.functional.one_hot(labels, C).float()
    as_tuple = other(**inputs, labels=soft, return_dict=False)
    torch.testing.assert_close(as_tuple[0], outputs.loss)
    torch.testing.assert_close(as_tuple[1], outputs.logits)


def test_a_model_that_picks_a_token_gets_margins_too():
    Model = margin_classifier(transformers.GPT2ForSequenceClassification)
    config = gpt2("ForSequenceClassification").config
    inputs, losses = batch(), []
    for margin in (0.0, 0.3):
        torch.manual_seed(0)
        model = Model(config, head="ArcFace", head_options={"scale": 8.0, "margin": margin})
        model.train()
        outputs = model(**inputs)
        assert outputs.logits.shape == (8, C)
        losses.append(outputs.loss.item())
        model.eval()
        assert model(**inputs).loss.item() == pytest.approx(losses[0])
    assert losses[1] > losses[0] + 0.5


@pytest.mark.parametrize("likelihood", [0.0, 0.1])
def test_accumulated_gradients_with_a_margin_head(likelihood, tmp_path):
    found = []
    for size, parts in ((8, 1), (2, 4)):
        options = {"per_device_train_batch_size": size, "gradient_accumulation_steps": parts}
        model = margin_bert("Gaussian", head_options={"likelihood": likelihood})
        found.append(trained(model, sentences("sequence", 8), tmp_path, arguments=options))
    for name, change in found[0].items():
        torch.testing.assert_close(found[1][name], change, rtol=1e-4, atol=1e-7)


@pytest.mark.slow
def test_a_margin_classifier_trains_in_a_trainer(tmp_path):
    model = margin_bert("ArcFace", head_options={"scale": 8.0, "margin": 0.1})
    rows = sentences("sequence", 64)
    trainer = transformers.Trainer(
        model,
        arguments(tmp_path, num_train_epochs=30, learning_rate=5e-3),
        train_dataset=rows,
        eval_dataset=rows,
        compute_metrics=EvaluationMetrics(),
    )
    before = trainer.evaluate()["eval_accuracy"]
    trainer.train()
    assert trainer.evaluate()["eval_accuracy"] > max(0.6, before)


def test_a_margin_classifier_can_be_copied_and_pickled():
    model = margin_bert("SimplexHead").eval()
    inputs = batch()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        torch.testing.assert_close(other(**inputs).logits, model(**inputs).logits)
        assert type(other) is MarginBert


class OwnModel(transformers.PreTrainedModel):
    """A model of a user's own, who knows nothing of settings."""

    config_class = transformers.BertConfig

    def __init__(self, config):
        super().__init__(config)
        self.layer = nn.Linear(4, 8)
        self.head = heads.SimplexHead(8, C, scale=2.5)
        self.arc = heads.ArcFaceHead(8, C, margin=0.2)
        self.post_init()


def test_heads_load_in_a_model_of_ones_own(tmp_path):
    model = OwnModel(transformers.BertConfig(**SMALL)).eval()
    model.arc.margin = 0.35
    model.save_pretrained(tmp_path)
    again = OwnModel.from_pretrained(tmp_path)
    x = torch.randn(3, 8)
    assert torch.equal(again.head(x), model.head(x))
    assert torch.equal(again.arc(x), model.arc(x))
    assert again.arc.margin == 0.35


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
