"""A block of small networks as one batched network, trained step by step.

The K = M·S models of M variants and S streams lie variant by variant: tensors are (K, ...), those
of a kind's heads and losses (its own models, ...). Only the weights of the first layer are (S,
inputs, M, outputs), so that the samples that M models share are multiplied once.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from softmargin.calibration.binning import bin_edges
from softmargin.diagnostics import ConfidenceRecorder
from softmargin.functional import _fused
from softmargin.functional.margins import log_odds_of, softplus
from softmargin.training.batches import order_of_epoch
from softmargin.training.ensemble import fused
from softmargin.training.ensemble.kinds import Kind, kinds_of
from softmargin.training.ensemble.members import Block, build_network
from softmargin.training.ensemble.optimizer import Factor, Rule, uniform
from softmargin.training.ensemble.stacked import Tensors
from softmargin.training.ensemble.steering import Steering
from softmargin.training.rates import learning_rate

FIRST = "linear1.weight"
EVALUATED = 4_000_000  # activations at a time when models are tested
BINS = 10


class Part:
    """The models of a block with all that training keeps, trained epoch by epoch."""

    def __init__(
        self,
        block: Block,
        x: Tensor,
        shape: Sequence[int],
        classes: int,
        *,
        record: bool = False,
        weight: Tensor | None = None,
    ) -> None:
        """Build all models from their seeds; ``x`` is (folds, samples, inputs), normalised."""
        config = self.config = block.variants[0]
        self.x, self.classes, self.streams = x, classes, block.streams
        network = build_network(config, shape)
        self.kinds, order = kinds_of(block.variants, network.out_features, classes)
        self.variants = [block.variants[m] for m in order]
        self.numbers = [number for m in order for number in block.numbers[m]]
        self.m, self.s = len(self.variants), len(self.streams)
        self.sizes = [len(kind) * self.s for kind in self.kinds]
        ends = [*itertools.accumulate(self.sizes, initial=0)]
        self.places = [range(*pair) for pair in itertools.pairwise(ends)]
        self.layers = [n for n, layer in network.named_children() if isinstance(layer, nn.Linear)]
        self.active = {n for n, layer in network.named_children() if isinstance(layer, nn.ReLU)}
        self.y = torch.stack([stream.y for stream in self.streams])
        self.rows = torch.stack([stream.train for stream in self.streams])
        self.tested = torch.stack([stream.test for stream in self.streams])
        self.held = torch.stack([stream.held for stream in self.streams])
        self.base = torch.tensor([stream.fold for stream in self.streams])[:, None] * x.shape[1]
        self.weight = None  # of the samples (S, N), 1 on average over those to train on
        if weight is not None:
            for kind in self.kinds:
                kind.keep_samples_apart()
            means = weight[self.rows].mean(1, keepdim=True)
            self.weight = (weight / means).to(x.dtype)
        self.steps = -(-self.rows.shape[1] // config.batch)  # of an epoch
        total = config.epochs * self.steps
        self._draw(network)
        self.moving = [each for kind in self.kinds for each in kind.schedules(total)]
        held = self.held.shape[1]
        self.steering = Steering(self.kinds, self.s, (held, held + self.rows.shape[1]))
        self.rule = Rule(config.optimizer, config.momentum)
        self.slots = {
            name: [torch.zeros_like(p) for _ in range(self.rule.slots)]
            for name, p in self.params.items()
        }
        self.rates = [learning_rate(config.lr_schedule, v.lr, total) for v in self.variants]
        self.same_rate = len({variant.lr for variant in self.variants}) == 1
        self.decay = uniform(self.by_model([v.weight_decay for v in self.variants]))
        clips = [torch.inf if v.clip is None else v.clip for v in self.variants]
        self.clip = None if min(clips) == torch.inf else self.by_model(clips)
        self.epoch = 0
        self.history: dict[str, list[Tensor]] = {}
        self.recorder = ConfidenceRecorder(x.shape[1], models=len(self.numbers)) if record else None
        self._probe()
        self.is_small = fused.fits(self)  # so that the kernel can take its steps, if there is one

    def by_model(self, values: Sequence[float], dtype: torch.dtype | None = None) -> Tensor:
        """Return one number per variant for all models, (K,)."""
        return torch.tensor(values, dtype=dtype or self.x.dtype).repeat_interleave(self.s)

    def _draw(self, network: nn.Module) -> None:
        """Draw all tensors as the trainer does: network, head and loss, from the stream's seed."""
        drawn: dict[str, list[Tensor]] = defaultdict(list)
        with torch.random.fork_rng(devices=[]):
            for stream in self.streams:
                # what torch.manual_seed does on the CPU, without a look at all other devices
                torch.default_generator.manual_seed(stream.seed)
                for layer in self.layers:
                    network.get_submodule(layer).reset_parameters()  # type: ignore[operator]
                for name, p in network.named_parameters():
                    drawn[name].append(p.detach().clone())
                after = torch.get_rng_state()
                for kind in self.kinds:
                    torch.set_rng_state(after)
                    for stack in kind.stacks.values():
                        stack.draw()
        self.params: Tensors = {}
        for name, tensors in drawn.items():
            whole = torch.stack(tensors).to(self.x.dtype)
            whole = whole.mT if whole.ndim == 3 else whole.unsqueeze(1)  # weights as they multiply
            whole = whole.expand(self.m, *whole.shape)
            whole = whole.permute(1, 2, 0, 3) if name == FIRST else whole.flatten(0, 1)
            self.params[name] = whole.contiguous().clone().requires_grad_()
        self.models = dict.fromkeys(self.params, slice(None))  # which of the K have a parameter
        for number, (kind, places) in enumerate(zip(self.kinds, self.places, strict=True)):
            for owner, stack in kind.stacks.items():
                # the trainer leaves losses as they are
                stack.lay_out(len(kind), self.s, None if owner == "loss" else self.x.dtype)
                for name in stack.learned:
                    self.params[f"{number}.{owner}.{name}"] = stack.tensors[name]
                    self.models[f"{number}.{owner}.{name}"] = slice(places.start, places.stop)
            kind.head.module.to(self.x.dtype)  # as the trainer's, whose simplex is then precise

    @torch.no_grad()
    def _probe(self) -> None:
        """Find out on a first batch how every head and loss can be called."""
        rows = self.rows[:, : self.config.batch]
        features = self.forward(self._samples(rows))
        for kind, h in zip(self.kinds, torch.split(features, self.sizes), strict=True):
            kind.probe(h, self.y.gather(1, rows).repeat(len(kind), 1))

    # --- training

    def train_epoch(self) -> Iterator[Tensor]:
        """Take the steps of the next epoch; yield the losses (K,) of each."""
        size = self.rows.shape[1]
        orders = [order_of_epoch(stream.seed, self.epoch, size) for stream in self.streams]
        rows = self.rows.gather(1, torch.stack(orders))
        for number, chosen in enumerate(torch.split(rows, self.config.batch, 1)):
            step = self.epoch * self.steps + number
            yield self._step(chosen, step)
            if self.steering.is_due(step + 1, self.steps):
                self.steering.update(*self.predictions(self.held), step + 1, self.steps)
        self.epoch += 1
        if self.recorder is not None:
            self.recorder.end_epoch()

    def _step(self, rows: Tensor, step: int) -> Tensor:
        """Take one step of all models on rows (S, B); return their losses."""
        for stack, name, variant, value_at in self.moving:
            stack.tensors[name].view(-1, self.s)[variant] = value_at(step)
        if self.is_small and _fused.kernel is not None:
            with torch.no_grad():
                taken = fused.Step(self, rows, step)
                losses = taken.run()
                if self.recorder is not None:
                    self._record(rows, taken.y, torch.cat(taken.logits), losses)
            return losses
        y = self.y.gather(1, rows)
        weight = None if self.weight is None else self.weight.gather(1, rows).repeat(self.m, 1)
        losses, logits = self._losses(self._samples(rows), y.repeat(self.m, 1), weight)
        found = torch.autograd.grad(losses.sum(), list(self.params.values()), allow_unused=True)
        pairs = zip(self.params, found, strict=True)
        grads = {name: grad.contiguous() for name, grad in pairs if grad is not None}
        with torch.no_grad():
            if self.clip is not None:
                self._clip(grads, self.clip)
            self.update(grads, step)
            if self.recorder is not None:
                self._record(rows, y, torch.cat(logits), losses)
        return losses.detach()

    def _samples(self, rows: Tensor) -> Tensor:
        """Return samples (S, B, inputs) of rows (S, B) of the pool."""
        return self.x.flatten(0, 1)[self.base + rows]

    def forward(self, x: Tensor) -> Tensor:
        """Return the features (K, B, D) of samples (S, B, inputs)."""
        if not self.layers:
            return x.repeat(self.m, 1, 1)
        bias = self.params["linear1.bias"].view(self.m, self.s, 1, -1)
        # in place before it is laid out by model: afterwards autograd would copy all of it
        h = torch.bmm(x, self.params[FIRST].flatten(2))
        h = h.add_(bias.permute(1, 2, 0, 3).flatten(2))
        if "relu1" in self.active:
            h = h.relu_()
        h = h.view(*x.shape[:2], self.m, -1).permute(2, 0, 1, 3).flatten(0, 1)
        for number, name in enumerate(self.layers[1:], 2):
            h = torch.baddbmm(self.params[f"{name}.bias"], h, self.params[f"{name}.weight"])
            if f"relu{number}" in self.active:
                h = h.relu_()
        return h

    def _losses(self, x: Tensor, y: Tensor, weight: Tensor | None) -> tuple[Tensor, list[Tensor]]:
        """Return every model's loss and, if they are recorded, the logits of inference."""
        features = torch.split(self.forward(x), self.sizes)
        targets = torch.split(y, self.sizes)
        weights = [None] * len(targets) if weight is None else torch.split(weight, self.sizes)
        values, recorded = [], []
        for kind, h, target, own in zip(self.kinds, features, targets, weights, strict=True):
            loss, logits = self.loss_of(kind, h, target, own)
            values.append(loss)
            if logits is not None:
                recorded.append(logits)
        return torch.cat(values), recorded

    def loss_of(
        self, kind: Kind, h: Tensor, target: Tensor, weight: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return the losses of a kind's models and, if they are recorded, logits of inference."""
        loss, z = kind.losses_of(h, target, weight)
        if self.recorder is None:
            return loss, None
        with_margin = kind.head.module.needs_target
        return loss, kind.logits(h, training=True) if with_margin else z.detach()

    def update(self, grads: Tensors, step: int) -> None:
        """Move every model's parameters."""
        rate, taken = self.rates[0](step), step + 1.0
        if self.same_rate and not isinstance(self.decay, Tensor):
            params = [self.params[name] for name in grads]
            slots = [self.slots[name] for name in grads]
            self.rule.fused(params, list(grads.values()), slots, rate, self.decay, taken)
            return
        factors: list[Factor] = [rate, self.decay, taken]
        if not self.same_rate:
            rates = self.by_model([each(step) for each in self.rates], torch.float64)
            factors = [rates, self.decay, rates.new_tensor(taken).expand_as(rates)]
        for name, grad in grads.items():
            own = [self._spread(name, value) for value in factors]
            self.rule.update(self.params[name], grad, self.slots[name], *own)

    def _spread(self, name: str, value: Factor) -> Factor:
        """Return numbers (K,) so that they broadcast over a parameter."""
        if not isinstance(value, Tensor):
            return value
        p = self.params[name]
        if name == FIRST:
            spread = value.view(self.m, self.s).t()[:, None, :, None]
        else:
            spread = value[self.models[name]].view(-1, *(1,) * (p.ndim - 1))
        return spread.to(p.dtype)

    def _clip(self, grads: Tensors, clip: Tensor) -> None:
        """Scale every model's gradient down to its largest norm; the loss's own is left out."""
        clipped = {name: grad for name, grad in grads.items() if ".loss." not in name}
        squares = torch.zeros_like(clip)
        for name, grad in clipped.items():
            if name == FIRST:  # rows by themselves: over both dimensions it takes ten times as long
                norms = torch.linalg.vector_norm(grad, dim=3)
                squares += norms.square().sum(1).t().flatten()
            else:
                squares[self.models[name]] += torch.linalg.vector_norm(grad.flatten(1), dim=1) ** 2
        factor = (clip / (squares.sqrt() + 1e-6)).clamp(max=1.0)
        for name, grad in clipped.items():
            grad.mul_(self._spread(name, factor))

    def _record(self, rows: Tensor, y: Tensor, logits: Tensor, losses: Tensor) -> None:
        assert self.recorder is not None
        sound = bool(losses.isfinite().all())
        if sound and self.s == 1:
            self.recorder.update(rows[0], logits, y[0])
            return
        index = rows.repeat(self.m, 1)
        if not sound:  # a model that diverged has no confidence
            index = index.masked_fill(~logits.isfinite().all(-1), -1)
            logits = logits.nan_to_num(0.0, 0.0, 0.0)
        self.recorder.update(index, logits, y.repeat(self.m, 1))

    # --- testing

    def test(self) -> tuple[Tensor, Tensor]:
        """Return the logits of inference (K, T, C) and the classes (K, T) of the test rows."""
        return self.predictions(self.tested)

    @torch.no_grad()
    def predictions(self, chosen: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of inference (K, N, C) and the classes (K, N) of rows (S, N)."""
        widest = max(max((p.shape[-1] for p in self.params.values() if p.ndim), default=1), 1)
        size = max(1, EVALUATED // (len(self.numbers) * widest))
        found = []
        for rows in torch.split(chosen, size, 1):
            features = torch.split(self.forward(self._samples(rows)), self.sizes)
            pairs = zip(self.kinds, features, strict=True)
            found.append(torch.cat([kind.logits(h) for kind, h in pairs]))
        return torch.cat(found, 1), self.y.gather(1, chosen).repeat(self.m, 1)

    def evaluate(self) -> Tensors:
        """Return accuracy, NLL in nats and ECE (10 right-closed bins) of every model.

        Where rows are held out, their NLL is ``held_out_nll``.
        """
        logits, y = self.test()
        models, size = y.shape
        right = (logits.argmax(-1) == y).double()
        losses = softplus(log_odds_of(logits, y.unsqueeze(-1), 2)).double()
        confidence = logits.softmax(-1).amax(-1).double()
        bins = torch.searchsorted(bin_edges(BINS)[1:-1], confidence, right=False)
        gaps = right.new_zeros(models, BINS).scatter_add_(1, bins, right - confidence)
        found = {
            "accuracy": right.sum(1) / size,
            "nll": losses.sum(1) / size,
            "ece": gaps.abs().sum(1) / size,
        }
        if self.held.shape[1]:
            logits, y = self.predictions(self.held)
            held = softplus(log_odds_of(logits, y.unsqueeze(-1), 2)).double()
            found["held_out_nll"] = held.mean(1)
        return found

    # --- keeping

    def _kind_of(self, place: int) -> tuple[Kind, int]:
        """Return the kind that a model is of, and its place there."""
        return next(
            (kind, place - models.start)
            for kind, models in zip(self.kinds, self.places, strict=True)
            if place in models
        )

    def state_of(self, place: int) -> tuple[Tensors, Tensors]:
        """Return one model's tensors, by the names they have in the network and the head."""
        body = {}
        for layer in self.layers:
            weight = self.params[f"{layer}.weight"]
            if f"{layer}.weight" == FIRST:
                weight = weight.permute(2, 0, 1, 3).flatten(0, 1)
            body[f"{layer}.weight"] = weight[place].detach().t().clone()
            body[f"{layer}.bias"] = self.params[f"{layer}.bias"][place, 0].detach().clone()
        kind, own = self._kind_of(place)
        return body, {n: t[own].detach().clone() for n, t in kind.head.tensors.items()}

    @torch.no_grad()
    def start_from(self, place: int, body: Tensors, head: Tensors) -> None:
        """Give one model the tensors that :meth:`state_of` would return."""
        for name, value in body.items():
            if name == FIRST:
                m, s = divmod(place, self.s)
                self.params[name][s, :, m] = value.t()
            elif name.endswith("weight"):
                self.params[name][place] = value.t()
            else:
                self.params[name][place, 0] = value
        kind, own = self._kind_of(place)
        for name, tensor in kind.head.tensors.items():
            tensor[own] = head[name]

    def _state(self) -> Iterator[tuple[str, Tensors, str]]:
        """Yield what is not learned, settings, centers and buffers: name, and where it is."""
        for number, kind in enumerate(self.kinds):
            for owner, stack in kind.stacks.items():
                for name, tensor in stack.tensors.items():
                    if not tensor.requires_grad:
                        yield f"{number}.{owner}.{name}", stack.tensors, name

    def state_dict(self) -> dict[str, Any]:
        """Return all that is needed to go on after an epoch."""
        return {
            "epoch": self.epoch,
            "params": {name: p.detach() for name, p in self.params.items()},
            "slots": self.slots,
            "state": {full: tensors[name] for full, tensors, name in self._state()},
            "steering": self.steering.state_dict(),
            "history": self.history,
            "recorder": None if self.recorder is None else self.recorder.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there."""
        self.epoch, self.history, self.slots = state["epoch"], state["history"], state["slots"]
        for full, tensors, name in self._state():
            tensors[name] = state["state"][full].view_as(tensors[name])
        self.steering.load_state_dict(state.get("steering", []))
        with torch.no_grad():
            for name, p in self.params.items():
                p.copy_(state["params"][name])
        if self.recorder is not None:
            self.recorder.load_state_dict(state["recorder"])
