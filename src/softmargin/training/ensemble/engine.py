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
from softmargin.training.ensemble.members import Block
from softmargin.training.ensemble.models import SHARED, Models
from softmargin.training.ensemble.optimizer import Factor, Rule, uniform
from softmargin.training.ensemble.vectorize import Tensors
from softmargin.training.rates import learning_rate

Slots = dict[str, list[Tensor]]


class Part(Models):
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
        self.slots: Slots = {
            name: [torch.zeros_like(p) for _ in range(self.rule.slots)]
            for name, p in self.params.items()
        }
        self.lrs = sorted({variant.lr for variant in self.variants})
        self.rates = {
            (lr, total): learning_rate(self.config.lr_schedule, lr, total)
            for lr in self.lrs
            for total in set(self.totals)
        }
        self.alike = len(self.rates) == 1
        self.decay = uniform(self._column([v.weight_decay for v in self.variants]))
        clips = [torch.inf if v.clip is None else v.clip for v in self.variants]
        self.clip = None if min(clips) == torch.inf else self._column(clips)
        self.epoch = 0
        self.history: dict[str, list[Tensor]] = {}
        self.recorder = ConfidenceRecorder(x.shape[1], models=self.m * self.s) if record else None
        self._probe()

    def _column(self, values: Sequence[float]) -> Tensor:
        """Return one number per variant as (M, 1)."""
        return torch.tensor(values, dtype=self.x.dtype)[:, None]

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

    def _probe(self) -> None:
        """Find out on a first batch how every head and loss can be called."""
        rows = self.rows[:, : self.plan[0][-1][1]]
        with torch.no_grad():
            features = self.forward(self.params, self.x.flatten(0, 1)[self.base + rows])
            for number, kind in enumerate(self.kinds):
                h = features[kind.variants.start : kind.variants.stop].flatten(0, 1)
                y = self.y.gather(1, rows).repeat(len(kind.variants), 1)
                kind.probe(self.own_tensors(number, self.params, self.state), h, y)

    # --- training

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
            self.go_to(steps)
            rows = orders[:, number * batch : number * batch + parts[0][1]]
            if parts[0][0] is None:
                yield self._step(rows, self.params, self.state, self.slots, steps)
                continue
            losses = torch.full((self.m, self.s), torch.nan, dtype=self.x.dtype)
            for streams, size in parts:
                assert streams is not None
                losses[:, streams] = self._step_of(streams, rows[streams, :size], steps)
            yield losses
        self.epoch += 1
        if self.recorder is not None:
            self.recorder.end_epoch()

    def _step_of(self, streams: Tensor, rows: Tensor, steps: Sequence[int]) -> Tensor:
        """Take one step of the models of some streams, on copies of what they have."""

        def copied(name: str, whole: Tensor) -> Tensor:
            return whole.detach().index_select(0 if name == SHARED else 1, streams)

        params = {n: copied(n, p).requires_grad_() for n, p in self.params.items()}
        state = {n: copied(n, value) for n, value in self.state.items()}
        slots = {n: [copied(n, slot) for slot in kept] for n, kept in self.slots.items()}
        losses = self._step(rows, params, state, slots, steps, streams)
        with torch.no_grad():
            for name, new in [*params.items(), *state.items()]:
                whole = self.params[name] if name in params else self.state[name]
                old, own = [whole, *self.slots.get(name, ())], [new, *slots.get(name, ())]
                for one, each in zip(old, own, strict=True):
                    one.index_copy_(0 if name == SHARED else 1, streams, each)
        return losses

    def _step(
        self,
        rows: Tensor,
        params: Tensors,
        state: Tensors,
        slots: Slots,
        steps: Sequence[int],
        streams: Tensor | None = None,
    ) -> Tensor:
        """Take one step of the models whose tensors are given, in place; return their losses."""
        those = slice(None) if streams is None else streams
        x = self.x.flatten(0, 1)[self.base[those] + rows]
        y = self.y[those].gather(1, rows)
        losses, logits = self._losses(params, state, x, y)
        found = torch.autograd.grad(losses.sum(), list(params.values()), allow_unused=True)
        pairs = zip(params, found, strict=True)
        grads = {name: grad.contiguous() for name, grad in pairs if grad is not None}
        with torch.no_grad():
            if self.clip is not None:
                self._clip(grads, self.clip.expand(-1, len(rows)))
            self._update(params, grads, slots, *self._now(steps, streams))
            if self.recorder is not None:
                sound = bool(losses.isfinite().all())
                self._record(streams, rows, y, torch.cat(logits), sound)
        return losses.detach()

    def _losses(
        self, params: Tensors, state: Tensors, x: Tensor, y: Tensor
    ) -> tuple[Tensor, list[Tensor]]:
        """Return every model's loss (M, S) and, if they are recorded, the logits of inference."""
        features = self.forward(params, x)
        sizes = [len(kind.variants) for kind in self.kinds]
        values, recorded = [], []
        targets = torch.split(y.expand(self.m, *y.shape).contiguous(), sizes)
        for number, (kind, some) in enumerate(
            zip(self.kinds, torch.split(features, sizes), strict=True)
        ):
            h = some.flatten(0, 1)
            own = self.own_tensors(number, params, state)
            loss, z = kind.losses_of(own, h, targets[number].flatten(0, 1))
            for name in kind.state:
                owner, local = name.split(".", 1)
                new, full = own[owner][local].detach(), f"{number}.{name}"
                state[full] = new.reshape(state[full].shape).contiguous()
            values.append(loss.view(len(kind.variants), -1))
            if self.recorder is not None:
                with_margin = kind.head.needs_target
                recorded.append(kind.logits(own, h, training=True) if with_margin else z.detach())
        return torch.cat(values), recorded

    def _now(self, steps: Sequence[int], streams: Tensor | None) -> tuple[Factor, Factor]:
        """Return learning rate and count of steps of every model, numbers where uniform."""
        if self.alike:  # all streams take equally many steps, so they are at the same one
            return self.rates[self.lrs[0], self.totals[0]](steps[0]), steps[0] + 1
        at = list(zip(self.totals, steps, strict=True))
        if streams is not None:
            at = [at[s] for s in streams.tolist()]
        if len(self.lrs) == 1 and at.count(at[0]) == len(at):
            total, step = at[0]
            return self.rates[self.lrs[0], total](step), step + 1
        values = {
            (lr, *each): self.rates[lr, each[0]](each[1]) for lr in self.lrs for each in {*at}
        }
        rate = [[values[v.lr, *each] for each in at] for v in self.variants]
        taken = torch.tensor([[step + 1.0 for _, step in at]], dtype=torch.float64)
        return torch.tensor(rate, dtype=torch.float64), taken.expand(self.m, -1)

    def _update(
        self, params: Tensors, grads: Tensors, slots: Slots, rate: Factor, taken: Factor
    ) -> None:
        """Move every model's parameters."""
        factors = rate, self.decay, taken
        if not any(isinstance(each, Tensor) for each in factors):
            own = [slots[name] for name in grads]
            numbers = (float(each) for each in factors)
            self.rule.fused([params[name] for name in grads], list(grads.values()), own, *numbers)
            return
        for name, grad in grads.items():
            spread = (self._spread(name, value, grad) for value in factors)
            self.rule.update(params[name], grad, slots[name], *spread)

    def _of_kind(self, name: str, values: Tensor) -> Tensor:
        """Return the numbers (M, S) of the models that have a parameter."""
        number = name.partition(".")[0]
        if not number.isdigit():
            return values
        variants = self.kinds[int(number)].variants
        return values[variants.start : variants.stop]

    def _spread(self, name: str, value: Factor, p: Tensor) -> Factor:
        """Return per-model numbers, (M, S) or (M, 1), so that they broadcast over a parameter."""
        if not isinstance(value, Tensor):
            return value
        if name == SHARED:
            spread = value.t()[:, None, :, None]
        else:
            own = self._of_kind(name, value)
            spread = own.reshape(*own.shape, *(1,) * (p.ndim - 2))
        return spread.to(p.dtype)

    def _clip(self, grads: Tensors, clip: Tensor) -> None:
        """Scale every model's gradient down to its largest norm; the loss's own is left out."""
        clipped = {name: grad for name, grad in grads.items() if ".loss." not in name}
        squares = torch.zeros_like(clip)
        for name, grad in clipped.items():
            if name == SHARED:
                squares += grad.square().sum((1, 3)).t()
            else:
                own = self._of_kind(name, squares)
                own += grad.square().reshape(*grad.shape[:2], -1).sum(2)
        factor = (clip / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for name, grad in clipped.items():
            grad.mul_(self._spread(name, factor, grad))

    def _record(
        self, streams: Tensor | None, rows: Tensor, y: Tensor, logits: Tensor, sound: bool
    ) -> None:
        assert self.recorder is not None
        if sound and self.s == 1:
            self.recorder.update(rows[0], logits, y[0])
            return
        index, target = rows.repeat(self.m, 1), y.repeat(self.m, 1)
        if not sound:  # a model that diverged has no confidence
            index = index.masked_fill(~logits.isfinite().all(-1), -1)
            logits = logits.nan_to_num(0.0, 0.0, 0.0)
        if streams is not None:  # the recorder takes all models, and -1 for those without a batch
            models = (torch.arange(self.m)[:, None] * self.s + streams).flatten()
            size = self.m * self.s
            index = index.new_full((size, index.shape[1]), -1).index_copy_(0, models, index)
            target = target.new_zeros(size, target.shape[1]).index_copy_(0, models, target)
            logits = logits.new_zeros(size, *logits.shape[1:]).index_copy_(0, models, logits)
        self.recorder.update(index, logits, target)

    # --- keeping

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on after an epoch."""
        return {
            "epoch": self.epoch,
            "params": {name: p.detach() for name, p in self.params.items()},
            "slots": self.slots,
            "state": self.state,
            "history": self.history,
            "recorder": None if self.recorder is None else self.recorder.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.history, self.slots = state["epoch"], state["history"], state["slots"]
        self.state = {name: state["state"][name].view_as(t) for name, t in self.state.items()}
        with torch.no_grad():
            for name, p in self.params.items():
                p.copy_(state["params"][name])
        if self.recorder is not None:
            self.recorder.load_state_dict(state["recorder"])
