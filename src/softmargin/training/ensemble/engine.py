"""Training of a block of models: steps, updates, records, and what is kept of them.

Streams whose batch has another size than the others', as the last of an epoch may, are computed
apart: nothing is padded, nothing dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from softmargin.diagnostics import ConfidenceRecorder
from softmargin.training.batches import order_of_epoch
from softmargin.training.ensemble.heads import STACKED_HEADS, added_loss, own_rows
from softmargin.training.ensemble.losses import stacked_loss
from softmargin.training.ensemble.members import Block, Kind
from softmargin.training.ensemble.optimizer import Factor, Rule, uniform
from softmargin.training.ensemble.stack import SHARED, Stack, Tensors, own_parameters
from softmargin.training.rates import Rate, learning_rate

RATE = 0.5  # how far running centers move, as in the original


class Part(Stack):
    """A block of models with all that training keeps, trained epoch by epoch."""

    def __init__(
        self, block: Block, x: Tensor, shape: Sequence[int], classes: int, *, record: bool = False
    ) -> None:
        """Build all models from their seeds; ``x`` is (folds, samples, inputs), normalised."""
        super().__init__(block, x, shape, classes)
        self.plan = self._plan()
        longest = max(len(stream.train) for stream in self.streams)
        padded = [F.pad(s.train, (0, longest - len(s.train))) for s in self.streams]
        self.rows = torch.stack(padded)
        self.rule = Rule(self.config.optimizer, self.config.momentum)
        self.slots = {
            name: [torch.zeros_like(p) for _ in range(self.rule.slots)]
            for name, p in self.params.items()
        }
        self.centers = {
            number: x.new_zeros(len(kind.variants), self.s, classes, kind.head.in_features)
            for number, kind in enumerate(self.kinds)
            if kind.center is not None
        }
        self.lrs = sorted({variant.lr for variant in self.variants})
        self.rates, self.decay, self.clip = self._factors()
        self.alike = len(self.lrs) == 1 and len(set(self.totals)) == 1
        self.epoch = 0
        self.history: dict[str, list[Tensor]] = {}
        self.recorder = ConfidenceRecorder(x.shape[1], models=self.m * self.s) if record else None

    def _factors(self) -> tuple[dict[Any, Rate], Factor, Tensor | None]:
        """Return learning rates, weight decay and clipping of every model."""
        rates = {
            (lr, total): learning_rate(self.config.lr_schedule, lr, total)
            for lr in self.lrs
            for total in set(self.totals)
        }
        decay = torch.tensor([[v.weight_decay] * self.s for v in self.variants], dtype=self.x.dtype)
        if all(variant.clip is None for variant in self.variants):
            return rates, _number(decay), None
        clips = [torch.inf if v.clip is None else v.clip for v in self.variants]
        return (
            rates,
            _number(decay),
            torch.tensor(clips, dtype=self.x.dtype)[:, None].expand(-1, self.s),
        )

    # --- training

    def _plan(self) -> list[list[tuple[Tensor | None, int]]]:
        """Return for every step of an epoch which streams take it, and with how many samples."""
        batch, plan = self.config.batch, []
        for number in range(max(self.steps)):
            sizes = [min(batch, len(stream.train) - number * batch) for stream in self.streams]
            parts: list[tuple[Tensor | None, int]] = []
            for size in sorted({size for size in sizes if size > 0}, reverse=True):
                chosen = [s for s, other in enumerate(sizes) if other == size]
                parts.append((None if len(chosen) == self.s else torch.tensor(chosen), size))
            plan.append(parts)
        return plan

    def _orders(self) -> Tensor:
        """Return the rows of the next epoch in their order, (S, samples of the longest stream)."""
        longest = self.rows.shape[1]
        orders = [order_of_epoch(s.seed, self.epoch, len(s.train)) for s in self.streams]
        padded = [F.pad(each, (0, longest - len(each))) for each in orders]
        return self.rows.gather(1, torch.stack(padded))

    def train_epoch(self) -> Iterator[Tensor]:
        """Take the steps of the next epoch; yield losses (M, S), NaN where a stream is done."""
        orders, batch = self._orders(), self.config.batch
        for number, parts in enumerate(self.plan):
            steps = [self.epoch * count + number for count in self.steps]
            self.settings.go_to(steps)
            rows = orders[:, number * batch : number * batch + parts[0][1]]
            if parts[0][0] is None:
                yield self._step(None, rows, steps)
                continue
            losses = torch.full((self.m, self.s), torch.nan, dtype=self.x.dtype)
            for part, size in parts:
                assert part is not None
                own = [steps[s] for s in part.tolist()]
                losses[:, part] = self._step(part, rows[part, :size], own)
            yield losses
        self.epoch += 1
        if self.recorder is not None:
            self.recorder.end_epoch()

    def _step(self, part: Tensor | None, rows: Tensor, steps: Sequence[int]) -> Tensor:
        """Take one step of the models of some streams; return their losses."""
        streams = slice(None) if part is None else part
        x = self.x.flatten(0, 1)[self.base[streams] + rows]
        y = self.y[streams].gather(1, rows)
        params = (
            self.params
            if part is None
            else {
                name: _of(p, name, part).detach().requires_grad_()
                for name, p in self.params.items()
            }
        )
        losses, logits = self._losses(params, part, x, y)
        grads = torch.autograd.grad(losses.sum(), list(params.values()))
        with torch.no_grad():
            self._update(params, dict(zip(params, grads, strict=True)), part, steps)
            if self.recorder is not None:
                sound = bool(losses.isfinite().all())
                self._record(part, rows, y, torch.cat(logits), sound)
        return losses.detach()

    def _losses(
        self, params: Tensors, part: Tensor | None, x: Tensor, y: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Return every model's loss (M, S) and, if they are recorded, the logits of inference."""
        features = self.forward(params, x)
        sizes = [len(kind.variants) for kind in self.kinds]
        values, recorded = [], []
        features_of = torch.split(features, sizes)
        targets = torch.split(y.expand(self.m, *y.shape).unsqueeze(-1).contiguous(), sizes)
        for number, (kind, some) in enumerate(zip(self.kinds, features_of, strict=True)):
            h, index = some.flatten(0, 1), targets[number].flatten(0, 1)
            own, of_head = (
                own_parameters(params, number),
                self.settings_of(self.settings.head[number], part, 2),
            )
            head = STACKED_HEADS[type(kind.head)]
            z = head(kind.head, h, own, of_head, index)
            if part is not None and "scale" in of_head:  # AdaCos has changed its copy
                scale = self.settings.head[number]["scale"]
                scale[:, part] = of_head["scale"].view(-1, len(part))
            of_loss = self.settings_of(self.settings.loss[number], part, 1)
            loss = stacked_loss(kind.loss, z, index, of_loss)
            added = added_loss(h, own, of_head, index)
            if added is not None:
                loss = loss + added
            if number in self.centers:
                loss = loss + self._pull(number, part, h, index) * (of_loss["center"] / 2)
            values.append(loss.mean(1).view(len(kind.variants), -1))
            if self.recorder is not None:
                recorded.append(self._recorded(kind, z, h, own, of_head))
        return torch.cat(values), recorded

    def _pull(self, number: int, part: Tensor | None, h: Tensor, index: Tensor) -> Tensor:
        """Return the squared distance of every sample to its center, and move the centers."""
        stored = self.centers[number]
        centers = (stored if part is None else stored[:, part]).flatten(0, 1)
        gaps = h - own_rows(centers, index)
        with torch.no_grad():
            ones = torch.ones_like(gaps[..., :1])
            sums = gaps.new_zeros(*centers.shape[:2], centers.shape[2] + 1)
            sums.scatter_add_(1, index.expand(-1, -1, sums.shape[2]), torch.cat([gaps, ones], 2))
            moved = (centers + RATE * sums[..., :-1] / (1 + sums[..., -1:])).view(
                stored.shape[0], -1, *stored.shape[2:]
            )
            if part is None:
                self.centers[number] = moved
            else:
                stored[:, part] = moved
        return gaps.square().sum(-1)

    def _update(
        self, params: Tensors, grads: Tensors, part: Tensor | None, steps: Sequence[int]
    ) -> None:
        """Clip every model's gradient and move its parameters."""
        if self.clip is not None:
            self._clip(grads, self.clip if part is None else self.clip[:, part])
        rate, decay, taken = self._now(part, steps)
        uniform = not any(isinstance(each, Tensor) for each in (rate, decay, taken))
        if part is None and uniform:
            dense = [grad.contiguous() for grad in grads.values()]  # as the fused update reads it
            slots = [self.slots[name] for name in params]
            factors = float(rate), float(decay), float(taken)
            self.rule.fused(list(params.values()), dense, slots, *factors)
            return
        for name, p in params.items():
            kept = self.slots[name]
            own = kept if part is None else [_of(slot, name, part) for slot in kept]
            spread = (self._spread(name, value, p) for value in (rate, decay, taken))
            self.rule.update(p, grads[name], own, *spread)
            if part is not None:
                for whole, new in zip([self.params[name], *kept], [p, *own], strict=True):
                    whole.index_copy_(0 if name == SHARED else 1, part, new)

    def _now(self, part: Tensor | None, steps: Sequence[int]) -> tuple[Factor, Factor, Factor]:
        """Return learning rate, weight decay and step of every model, numbers where uniform."""
        if self.alike:  # all streams take equally many steps, so they are at the same one
            own_decay = self.decay if part is None else _of_part(self.decay, part)
            return self.rates[self.lrs[0], self.totals[0]](steps[0]), own_decay, steps[0] + 1
        streams = range(self.s) if part is None else part.tolist()
        own = {(self.totals[s], step) for s, step in zip(streams, steps, strict=True)}
        decay = self.decay if part is None else _of_part(self.decay, part)
        if len(own) == 1 and len(self.lrs) == 1:
            ((total, step),) = own
            return self.rates[self.lrs[0], total](step), decay, step + 1
        values = {
            (lr, total, step): self.rates[lr, total](step) for lr in self.lrs for total, step in own
        }
        rate = [
            [values[v.lr, self.totals[s], step] for s, step in zip(streams, steps, strict=True)]
            for v in self.variants
        ]
        taken = torch.tensor([steps], dtype=torch.float64).expand(self.m, -1) + 1
        return torch.tensor(rate, dtype=torch.float64), decay, taken

    def _spread(self, name: str, value: Factor, p: Tensor) -> Factor:
        """Return per-model numbers in a shape that broadcasts over a parameter."""
        if not isinstance(value, Tensor):
            return value
        if name == SHARED:
            return value.t()[:, None, :, None].to(p.dtype)
        if name[0].isdigit():
            value = value[self.kinds[int(name.split(".")[0])].variants]
        return value.reshape(*value.shape, *(1,) * (p.ndim - 2)).to(p.dtype)

    def _clip(self, grads: Tensors, clip: Tensor) -> None:
        squares = clip.new_zeros(clip.shape, dtype=self.x.dtype)
        for name, grad in grads.items():
            if name == SHARED:
                squares += grad.square().sum((1, 3)).t()
            elif name[0].isdigit():
                squares[self.kinds[int(name.split(".")[0])].variants] += (
                    grad.square().flatten(2).sum(2)
                )
            else:
                squares += grad.square().flatten(2).sum(2)
        factor = (clip / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for name, grad in grads.items():
            grad.mul_(self._spread(name, factor, grad))

    # --- looking

    def _recorded(self, kind: Kind, z: Tensor, h: Tensor, own: Tensors, s: Tensors) -> Tensor:
        """Return the logits of inference, which are those of training where no margin is."""
        if not kind.head.needs_target:
            return z.detach()
        with torch.no_grad():
            return STACKED_HEADS[type(kind.head)](kind.head, h, own, s, None)

    def _record(
        self, part: Tensor | None, rows: Tensor, y: Tensor, logits: Tensor, sound: bool
    ) -> None:
        assert self.recorder is not None
        if sound and self.s == 1:
            self.recorder.update(rows[0], logits, y[0])
            return
        index, target = rows.repeat(self.m, 1), y.repeat(self.m, 1)
        if not sound:  # a model that diverged has no confidence
            index = index.masked_fill(~logits.isfinite().all(-1), -1)
            logits = logits.nan_to_num(0.0, 0.0, 0.0)
        if part is not None:  # the recorder takes all models, and -1 for those without a batch
            models = (torch.arange(self.m)[:, None] * self.s + part).flatten()
            size = self.m * self.s
            index = index.new_full((size, index.shape[1]), -1).index_copy_(0, models, index)
            target = target.new_zeros(size, target.shape[1]).index_copy_(0, models, target)
            logits = logits.new_zeros(size, *logits.shape[1:]).index_copy_(0, models, logits)
        self.recorder.update(index, logits, target)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on after an epoch."""
        return {
            "epoch": self.epoch,
            "params": {name: p.detach() for name, p in self.params.items()},
            "slots": self.slots,
            "centers": self.centers,
            "scales": [each.get("scale") for each in self.settings.head],
            "history": self.history,
            "recorder": None if self.recorder is None else self.recorder.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.history = state["epoch"], state["history"]
        self.slots, self.centers = state["slots"], state["centers"]
        with torch.no_grad():
            for name, p in self.params.items():
                p.copy_(state["params"][name])
            for settings, scale in zip(self.settings.head, state["scales"], strict=True):
                if scale is not None:
                    settings["scale"].copy_(scale)
        if self.recorder is not None:
            self.recorder.load_state_dict(state["recorder"])


def _of(tensor: Tensor, name: str, part: Tensor) -> Tensor:
    """Return a copy of the streams that take part."""
    return tensor.index_select(0 if name == SHARED else 1, part)


def _of_part(value: Factor, part: Tensor) -> Factor:
    return value[:, part] if isinstance(value, Tensor) else value


def _number(values: Tensor) -> Factor:
    one = uniform(values)
    return values if one is None else one
