"""Steps of a part by the compiled kernel: each model is trained while it is in cache.

The layers are the kernel's for all kinds of heads and losses. Where it knows head and loss too, it
takes the whole step; for others autograd goes from the features on. What it cannot take at all is
left to PyTorch's operations: large networks, and clipping with such a head.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from softmargin import heads, losses
from softmargin._kernel import library
from softmargin.functional import _fused
from softmargin.functional._fused_settings import TYPES
from softmargin.training.ensemble.kinds import Kind
from softmargin.training.ensemble.optimizer import BETA1, BETA2

if TYPE_CHECKING:
    from softmargin.training.ensemble.part import Part

HEADS: dict[type[Any], int] = {
    heads.LinearHead: 1,
    heads.CosineHead: 2,
    heads.AdaCosHead: 3,
    heads.CosFaceHead: 4,
    heads.ArcFaceHead: 5,
    heads.ArcGradHead: 6,
}
"""By class, ``enum Head`` in ``call.h``; 0 is none."""

BEYOND = {"monotone": 0, "easy": 1, "none": 2}
RULES = {"sgd": 0, "adam": 1, "adamw": 2}
SETTINGS: dict[type[Any], str] = {
    losses.GradientDecayLoss: "beta",
    losses.SoftMarginSoftmaxLoss: "margin",
    losses.ModifiedSoftmaxLoss: "rho",
    losses.FocalLoss: "gamma",
}
DECAY, SOFTPLUS, FOCAL = range(3)
LAYERS, WEIGHTS = 8, 100_000
"""The most layers, and the most weights of one layer for which this is the faster way."""


def fits(part: Part) -> bool:
    """Whether the kernel can take the steps of a part."""
    weights = [part.params[f"{name}.weight"] for name in part.layers]
    models = len(part.numbers)
    if len(weights) > LAYERS or any(w.numel() > WEIGHTS * models for w in weights):
        return False
    if not part.x.is_contiguous() or not _within(part.y, part.classes):
        return False
    if not _within(part.rows, part.x.shape[1]):
        return False
    return part.clip is None or all(knows(part, kind) for kind in part.kinds)


def _within(numbers: Tensor, end: int) -> bool:
    return numbers.numel() > 0 and int(numbers.min()) >= 0 and int(numbers.max()) < end


def knows(part: Part, kind: Kind) -> bool:
    """Whether the kernel computes head, loss and center loss of a kind."""
    head, loss = kind.head, kind.loss
    if not head.written_out or type(head.module) not in HEADS:
        return False
    if not loss.written_out or type(loss.module) not in SETTINGS:
        return False
    # what is recorded are logits without a margin
    return part.recorder is None or not head.module.needs_target


class Step:
    """One step of a part: its rows, and its factors by model."""

    def __init__(self, part: Part, rows: Tensor, step: int) -> None:
        """Prepare it; nothing is computed yet."""
        self.part, self.rows, self.number = part, rows, step
        self.y = part.y.gather(1, rows)
        models = len(part.numbers)
        self.losses = part.x.new_empty(models)
        if part.same_rate:
            self.rate = torch.full((models,), part.rates[0](step), dtype=torch.float64)
        else:
            self.rate = part.by_model([each(step) for each in part.rates], torch.float64)
        self.decay = torch.as_tensor(part.decay, dtype=torch.float64).expand(models).contiguous()
        self.clip = None if part.clip is None else part.clip.double()
        self.logits: list[Tensor] = []

    def run(self) -> Tensor:
        """Move all models; return their losses."""
        part = self.part
        first = 0
        for number, kind in enumerate(part.kinds):
            if knows(part, kind):
                self._whole(number, kind, first)
            else:
                self._from_features(number, kind, first)
            first += len(kind)
        return self.losses

    def _whole(self, number: int, kind: Kind, first: int) -> None:
        part, places = self.part, self.part.places[number]
        logits = None
        if part.recorder is not None:
            logits = part.x.new_empty(len(places), self.rows.shape[1], part.classes)
            self.logits.append(logits)
        self._call(number, kind, first, losses=self.losses[places.start :], logits=logits)

    def _from_features(self, number: int, kind: Kind, first: int) -> None:
        part, places = self.part, self.part.places[number]
        width = kind.head.module.in_features
        features = part.x.new_empty(len(places), self.rows.shape[1], width)
        self._call(number, kind, first, features=features)
        weight = None
        if part.weight is not None:
            weight = part.weight.gather(1, self.rows).repeat(len(kind), 1)
        h = features.requires_grad_()
        with torch.enable_grad():
            loss, logits = part.loss_of(kind, h, self.y.repeat(len(kind), 1), weight)
            total = loss.sum()
        prefix = f"{number}."
        learned = {name: p for name, p in part.params.items() if name.startswith(prefix)}
        found = torch.autograd.grad(total, [h, *learned.values()], allow_unused=True)
        pairs = zip(learned, found[1:], strict=True)
        grads = {name: grad.contiguous() for name, grad in pairs if grad is not None}
        if grads:
            part.update(grads, self.number)
        self.losses[places.start : places.stop] = loss.detach()
        if logits is not None:
            self.logits.append(logits)
        if part.layers and found[0] is not None:
            self._call(number, kind, first, grad=found[0].contiguous())

    def _call(
        self,
        number: int,
        kind: Kind,
        first: int,
        *,
        features: Tensor | None = None,
        grad: Tensor | None = None,
        losses: Tensor | None = None,
        logits: Tensor | None = None,
    ) -> None:
        """Call the kernel: for features, from their gradients on, or for everything."""
        part, head = self.part, 0 if losses is None else _head(kind.head.module)
        own = _settings(kind) if head else (0,) * 7
        weight = self._with_slots(f"{number}.head.weight") if head else (0, 0, 0)
        bias = self._with_slots(f"{number}.head.bias") if head else (0, 0, 0)
        packed = library.NETWORKS.pack(
            *_addresses(part.x, part.base, self.rows, part.y, part.weight),
            *_addresses(features, grad, losses, logits),
            *(*weight, *bias, *own),
            *_addresses(self.rate, self.decay, self.clip),
            *(part.s, first, len(kind), self.rows.shape[1], self.rows.stride(0)),
            *(part.x.shape[1], part.x.shape[2], part.classes, len(part.layers)),
            *(part.rule.momentum, 1 - BETA1 ** (self.number + 1)),
            (1 - BETA2 ** (self.number + 1)) ** 0.5,
            *(head, BEYOND.get(getattr(kind.head.module, "beyond", ""), 0)),
            *_form(kind.loss.module),
            *(RULES[part.rule.name], TYPES[part.x.dtype], _fused.instructions, 0),
        )
        assert _fused.kernel is not None
        if _fused.kernel.networks(packed + b"".join(map(self._layer, part.layers))):
            raise MemoryError("There is no memory for the activations of one network.")

    def _with_slots(self, name: str) -> tuple[int, int, int]:
        """Return where a parameter and its slots are, 0 for what is not there."""
        if name not in self.part.params:
            return 0, 0, 0
        slots = [slot.data_ptr() for slot in self.part.slots[name]]
        return (self.part.params[name].data_ptr(), *slots, 0, 0)[:3]  # type: ignore[return-value]

    def _layer(self, name: str) -> bytes:
        part, weight = self.part, self.part.params[f"{name}.weight"]
        if weight.ndim == 4:  # the first one, (S, inputs, M, outputs)
            inputs, outputs = weight.shape[1], weight.shape[3]
            by_stream, row, by_variant, _ = weight.stride()
        else:
            _, inputs, outputs = weight.shape
            by_stream, row, _ = weight.stride()
            by_variant = by_stream * part.s
        return library.LAYER.pack(
            *self._with_slots(f"{name}.weight"),
            *self._with_slots(f"{name}.bias"),
            *(inputs, outputs, by_variant, by_stream, row),
            name.replace("linear", "relu") in part.active,
        )


def _addresses(*tensors: Tensor | None) -> list[int]:
    return [0 if each is None else each.data_ptr() for each in tensors]


def _settings(kind: Kind) -> list[int]:
    """Return where settings and centers of head, loss and center loss are."""
    center = {} if kind.center is None else kind.center.tensors
    setting = SETTINGS[type(kind.loss.module)]
    of_head, of_loss = kind.head.tensors.get, kind.loss.tensors.get
    return _addresses(
        *(of_head("scale"), of_head("margin"), of_loss(setting), of_loss("tau")),
        *(center.get("lam"), center.get("rate"), center.get("centers")),
    )


def _head(head: Any) -> int:
    adapts = not isinstance(head, heads.AdaCosHead) or head.dynamic
    return HEADS[type(head) if adapts else heads.CosineHead]


def _form(loss: Any) -> tuple[int, bool]:
    """Return the form of a loss, as in ``call.h``, and whether its setting is a β."""
    if isinstance(loss, losses.GradientDecayLoss):
        return (SOFTPLUS if loss.floored else DECAY), True
    return (FOCAL if isinstance(loss, losses.FocalLoss) else SOFTPLUS), False
