"""Tiny transformers with random weights, and real Trainers of them."""

from __future__ import annotations

import pytest
import torch

transformers = pytest.importorskip("transformers")

from softmargin.integrations.transformers import margin_classifier  # noqa: E402

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


MarginBert = margin_classifier(transformers.BertForSequenceClassification)


def margin_bert(head, **options):
    torch.manual_seed(0)
    config = transformers.BertConfig(**SMALL, **NO_DROPOUT, num_labels=C)
    return MarginBert(config, head=head, **options)
