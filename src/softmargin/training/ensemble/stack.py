"""M variants times S streams of small networks as one batched network: weights and logits.

Tensors of a layer are (M, S, ...), those of the first layer (S, inputs, M, outputs), so that the
samples that M models share are multiplied once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from softmargin.models import FCNN
from softmargin.training.ensemble.heads import STACKED_HEADS
from softmargin.training.ensemble.members import Block, build_network, kinds_of
from softmargin.training.ensemble.scores import scores
from softmargin.training.ensemble.settings import Settings

Tensors = dict[str, Tensor]
SHARED = "linear1.weight"  # the first layer's, which lies by streams
EVALUATED = 4_000_000  # activations at a time when models are tested


class Stack:
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
        self.params = self._drawn(network)
        for kind in self.kinds:
            kind.head.to(x.dtype)  # as the trainer's, whose simplex is then precise
        self.settings = Settings(self.kinds, self.variants, self.totals, x.dtype)

    def _drawn(self, network: FCNN) -> Tensors:
        """Return parameters, drawn as the trainer draws them: network, then head, from a seed."""
        drawn: dict[str, dict[tuple[int, int], Tensor]] = {}
        with torch.random.fork_rng(devices=[]):
            for s, stream in enumerate(self.streams):
                # what torch.manual_seed does on the CPU, without a look at all other devices
                torch.default_generator.manual_seed(stream.seed)
                for layer in self.layers:
                    network.get_submodule(layer).reset_parameters()  # type: ignore[operator]
                after = torch.get_rng_state()
                for number, kind in enumerate(self.kinds):
                    for m in kind.variants:
                        torch.set_rng_state(after)
                        kind.head.reset_parameters()
                        for name, p in kind.head.named_parameters():
                            drawn.setdefault(f"{number}.{name}", {})[m, s] = p.detach().clone()
                for name, p in network.named_parameters():
                    own = p.detach().clone()
                    for m in range(self.m):
                        drawn.setdefault(name, {})[m, s] = own
        return {name: self._stacked(name, values) for name, values in drawn.items()}

    def _stacked(self, name: str, values: dict[tuple[int, int], Tensor]) -> Tensor:
        """Return one tensor of all models' values: weights of layers as (inputs, outputs)."""
        first = next(iter(values.values()))
        count = len(values) // self.s
        stacked = torch.stack(list(values.values()))
        stacked = stacked.view(self.s, count, *first.shape).transpose(0, 1)
        if name in {f"{layer}.weight" for layer in self.layers}:
            stacked = stacked.mT
        elif name in {f"{layer}.bias" for layer in self.layers}:
            stacked = stacked.unsqueeze(2)
        if name == SHARED:
            stacked = stacked.permute(1, 2, 0, 3)
        return stacked.to(self.x.dtype).contiguous().requires_grad_()

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

    def settings_of(self, settings: Tensors, part: Tensor | None, extra: int) -> Tensors:
        """Return settings as (K, 1, ...), of the streams of this step."""
        shape = (-1,) + (1,) * extra
        return {
            name: (value if part is None else value[:, part]).reshape(shape)
            for name, value in settings.items()
        }

    @torch.no_grad()
    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of inference (M, S, T, C) of rows (S, T) of the pool."""
        widest = max(max((p.shape[-1] for p in self.params.values()), default=1), 1)
        size = max(1, EVALUATED // (self.m * self.s * widest))
        parts = [self._inferred(some) for some in torch.split(rows, size, 1)]
        return torch.cat(parts, 2)

    def _inferred(self, rows: Tensor) -> Tensor:
        features = self.forward(self.params, self.x.flatten(0, 1)[self.base + rows])
        found = []
        for number, kind in enumerate(self.kinds):
            first = kind.variants[0]
            h = features[first : first + len(kind.variants)].flatten(0, 1)
            s = self.settings_of(self.settings.head[number], None, 2)
            z = STACKED_HEADS[type(kind.head)](
                kind.head, h, own_parameters(self.params, number), s, None
            )
            found.append(z.view(len(kind.variants), self.s, *z.shape[1:]))
        return torch.cat(found)

    @torch.no_grad()
    def features(self, rows: Tensor) -> Tensor:
        """Return the features (M, S, T, D) of rows (S, T) of the pool."""
        return self.forward(self.params, self.x.flatten(0, 1)[self.base + rows])

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
        """Return one model's parameters, by the names they have in the network and the head."""
        body = {}
        for layer in self.layers:
            weight = self.params[f"{layer}.weight"]
            one = weight[s, :, m] if f"{layer}.weight" == SHARED else weight[m, s]
            body[f"{layer}.weight"] = one.detach().t().clone()
            body[f"{layer}.bias"] = self.params[f"{layer}.bias"][m, s, 0].detach().clone()
        for number, kind in enumerate(self.kinds):
            if m in kind.variants:
                place = kind.variants.index(m)
                own = own_parameters(self.params, number, flat=False)
                head = {name: p[place, s].detach().clone() for name, p in own.items()}
                if "scale" in self.settings.head[number]:
                    head["scale"] = self.settings.head[number]["scale"][place, s].double()
        return body, head


def own_parameters(params: Tensors, number: int, *, flat: bool = True) -> Tensors:
    """Return the parameters of the heads of one kind, (K, ...) or (M, S, ...)."""
    prefix = f"{number}."
    return {
        name.removeprefix(prefix): p.flatten(0, 1) if flat else p
        for name, p in params.items()
        if name.startswith(prefix)
    }
