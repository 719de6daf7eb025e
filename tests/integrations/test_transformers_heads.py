"""Hugging Face: margin heads in pretrained models."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

transformers = pytest.importorskip("transformers")

from tiny_transformers import (  # noqa: E402
    SMALL,
    C,
    MarginBert,
    arguments,
    bert,
    gpt2,
    margin_bert,
    sentences,
    trained,
)

from softmargin import heads  # noqa: E402
from softmargin.integrations.transformers import (  # noqa: E402
    EvaluationMetrics,
    margin_classifier,
)

EVERY_HEAD = [name for name in heads.__all__ if name != "Head"]


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
