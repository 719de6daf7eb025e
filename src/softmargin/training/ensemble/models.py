"""M variants times S streams of small networks as one batched network: weights and logits.

Tensors of a layer are (M, S, ...), those of the first layer (S, inputs, M, outputs), so that the
samples that M models share are multiplied once. Tensors of heads and losses are (M, S, ...) for
the M variants of their kind.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from softmargin.training.ensemble.kinds import Own, Parts, kinds_of
from softmargin.training.ensemble.members import Block, build_network
from softmargin.training.ensemble.scores import scores
from softmargin.training.ensemble.vectorize import Tensors

SHARED = "linear1.weight"  # the first layer's, which lies by streams
EVALUATED = 4_000_000  # activations at a time when models are tested


@dataclass(frozen=True)
class Moving:
    """A number that follows a schedule, for the streams that take equally many steps."""

    name: str
    variant: int
    streams: Tensor
    value_at: Callable[[float], float]


class Models:
    """The models of a block. Model (m, s) is variant m on stream s."""

    def __init__(self, block: Block, x: Tensor, shape: Sequence[int], classes: int) -> None:
        """Build all models from their seeds; ``x`` is (folds, samples, inputs), normalised."""
        config = self.config = block.variants[0]
        self.x, self.classes, self.streams = x, classes, block.streams
        network = build_network(config, shape)
        self.kinds, order = kinds_of(block.variants, network.out_features, classes)
        self.variants = [block.variants[m] for m in order]
        self.numbers = [block.numbers[m] for m in order]
        self.m, self.s = len(self.variants), len(self.streams)
        self.layers = [n for n, layer in network.named_children() if isinstance(layer, nn.Linear)]
        self.active = {n for n, layer in network.named_children() if isinstance(layer, nn.ReLU)}
        self.steps = [-(-len(stream.train) // config.batch) for stream in self.streams]
        self.totals = [config.epochs * steps for steps in self.steps]
        self.y = torch.stack([stream.y for stream in self.streams])
        self.base = torch.tensor([stream.fold for stream in self.streams])[:, None] * x.shape[1]
        self.params: Tensors = {}
        self.state: Tensors = {}  # what is not learned: settings, centers, buffers
        self._draw(network)
        self.moving = self._schedules()
        everything = *self.params, *self.state
        self.names = [
            {n: n.split(".", 2)[1:] for n in everything if n.startswith(f"{number}.")}
            for number in range(len(self.kinds))
        ]
        for kind in self.kinds:
            kind.head.to(x.dtype)  # as the trainer's, whose simplex is then precise

    def _draw(self, network: nn.Module) -> None:
        """Draw all tensors as the trainer does: network, head and loss, from the stream's seed."""
        drawn: dict[str, list[Tensor]] = defaultdict(list)
        learned: set[str] = set()

        def keep(name: str, tensor: Tensor) -> None:
            drawn[name].append(tensor.detach().clone())
            if tensor.requires_grad:
                learned.add(name)

        with torch.random.fork_rng(devices=[]):
            for stream in self.streams:
                # what torch.manual_seed does on the CPU, without a look at all other devices
                torch.default_generator.manual_seed(stream.seed)
                for layer in self.layers:
                    network.get_submodule(layer).reset_parameters()  # type: ignore[operator]
                for name, p in network.named_parameters():
                    keep(name, p)
                after = torch.get_rng_state()
                for number, kind in enumerate(self.kinds):
                    torch.set_rng_state(after)
                    for name, tensor in kind.draw():
                        keep(f"{number}.{name}", tensor)
        for name, tensors in drawn.items():
            whole = self._laid_out(name, torch.stack(tensors))
            kept = self.params if name in learned else self.state
            kept[name] = whole.requires_grad_(name in learned)
        for number, kind in enumerate(self.kinds):
            for name, values in kind.numbers.items():
                each = torch.stack(values).unsqueeze(1)
                self.state[f"{number}.{name}"] = each.repeat(1, self.s, *(1,) * (each.ndim - 2))

    def _laid_out(self, name: str, values: Tensor) -> Tensor:
        """Return the values of all streams for all variants: weights as (inputs, outputs)."""
        number, _, rest = name.partition(".")
        count = len(self.kinds[int(number)].variants) if number.isdigit() else self.m
        stacked = values.expand(count, *values.shape)
        if values.is_floating_point() and not rest.startswith("loss."):
            stacked = stacked.to(self.x.dtype)  # the trainer leaves losses as they are
        if name in {f"{layer}.weight" for layer in self.layers}:
            stacked = stacked.mT
        elif name in {f"{layer}.bias" for layer in self.layers}:
            stacked = stacked.unsqueeze(2)
        if name == SHARED:
            stacked = stacked.permute(1, 2, 0, 3)
        return stacked.clone(memory_format=torch.contiguous_format)

    def _schedules(self) -> list[Moving]:
        alike = defaultdict(list)
        for stream, total in enumerate(self.totals):
            alike[total].append(stream)
        return [
            Moving(f"{number}.{name}", place, torch.tensor(streams), value_at)
            for number, kind in enumerate(self.kinds)
            for place in range(len(kind.variants))
            for total, streams in alike.items()
            for name, value_at in kind.schedules(place, total)
        ]

    def go_to(self, steps: Sequence[int]) -> None:
        """Set what moves to its values at these steps, one per stream."""
        for each in self.moving:
            value = each.value_at(steps[int(each.streams[0])])
            self.state[each.name][each.variant, each.streams] = value

    def forward(self, params: Tensors, x: Tensor) -> Tensor:
        """Return the features (M, S, B, D) of samples (S, B, inputs)."""
        if not self.layers:
            return x.expand(self.m, *x.shape)
        h = torch.bmm(x, params[SHARED].flatten(2))
        h = h.view(*x.shape[:2], self.m, -1).permute(2, 0, 1, 3).contiguous()
        h = h.add_(params["linear1.bias"])
        for number, name in enumerate(self.layers, 1):
            if number > 1:
                weight, bias = params[f"{name}.weight"], params[f"{name}.bias"]
                product = torch.baddbmm(bias.flatten(0, 1), h.flatten(0, 1), weight.flatten(0, 1))
                h = product.view(*h.shape[:3], -1)
            if f"relu{number}" in self.active:
                h = h.relu_()
        return h

    def own_tensors(self, number: int, params: Tensors, state: Tensors) -> Own:
        """Return the tensors of one kind, (K, ...)."""
        own: Own = {owner: {} for owner in Parts._fields}
        for name, (owner, local) in self.names[number].items():
            own[owner][local] = (params[name] if name in params else state[name]).flatten(0, 1)
        return own

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of inference (M, S, T, C) of rows (S, T) of the pool."""
        widest = max(max((p.shape[-1] for p in self.params.values() if p.ndim), default=1), 1)
        size = max(1, EVALUATED // (self.m * self.s * widest))
        return torch.cat([self._inferred(some) for some in torch.split(rows, size, 1)], 2)

    def _inferred(self, rows: Tensor) -> Tensor:
        features = self.forward(self.params, self.x.flatten(0, 1)[self.base + rows])
        found = []
        for number, kind in enumerate(self.kinds):
            h = features[kind.variants.start : kind.variants.stop].flatten(0, 1)
            z = kind.logits(self.own_tensors(number, self.params, self.state), h)
            found.append(z.view(len(kind.variants), self.s, *z.shape[1:]))
        return torch.cat(found)

    def tested(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits (M, S, T, C), classes (S, T) and which of the T are there, (S, T)."""
        longest = max(len(stream.test) for stream in self.streams)
        rows = torch.zeros(self.s, longest, dtype=torch.int64)
        there = torch.zeros(self.s, longest, dtype=torch.bool)
        for s, stream in enumerate(self.streams):
            rows[s, : len(stream.test)] = stream.test
            there[s, : len(stream.test)] = True
        return self.logits(rows), self.y.gather(1, rows), there

    def evaluate(self) -> dict[str, Tensor]:
        """Return the scores (M, S) of every model on its test rows."""
        return scores(*self.tested())

    def state_of(self, m: int, s: int) -> tuple[Tensors, Tensors]:
        """Return one model's tensors, by the names they have in the network and the head."""
        body = {}
        for layer in self.layers:
            weight = self.params[f"{layer}.weight"]
            one = weight[s, :, m] if f"{layer}.weight" == SHARED else weight[m, s]
            body[f"{layer}.weight"] = one.detach().t().clone()
            body[f"{layer}.bias"] = self.params[f"{layer}.bias"][m, s, 0].detach().clone()
        number = next(n for n, kind in enumerate(self.kinds) if m in kind.variants)
        place = m - self.kinds[number].variants.start
        own = {**self.params, **self.state}
        head = {
            local: own[name][place, s].detach().clone()
            for name, (owner, local) in self.names[number].items()
            if owner == "head"
        }
        return body, head
