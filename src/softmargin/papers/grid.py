"""What is trained: tasks (images, a network, a recipe) by methods, at every scale.

An experiment names tasks and the methods it wants of each; cells follow from that. Fully connected
networks of a task are trained together, all methods of a seed in one cell, so that experiments
which want different methods of it share the cell. Other networks are trained one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from softmargin.data.registry import entry_of
from softmargin.papers.core import Cell, Scope

ONE, TOGETHER, MNIST = "train", "together", "mnist"  # the kinds of work
CHEAPEST = 0.3  # seconds: what loading and measuring take anyway

TITLES = {
    "digits": "digits",
    "mnist": "MNIST",
    "svhn": "SVHN",
    "cifar10": "CIFAR-10",
    "cifar100": "CIFAR-100",
    "tiny_imagenet": "Tiny-ImageNet",
    "imagenet": "ImageNet",
    "places365": "Places-365",
    "fcnn": "fully connected",
    "small_resnet": "small residual",
    "resnet18": "ResNet18",
    "resnet34": "ResNet34",
    "resnet50": "ResNet50",
    "vgg16_bn": "VGG16",
    "vgg16_mod": "VGG-16-mod",
    "mobilenet_v1": "MobileNetV1",
    "convnet13": "13-layer network",
    "wide_resnet": "WideResNet-28-10",
    "resnext50": "ResNeXt-50",
}
"""How data sets and networks are called in tables and titles."""


@dataclass(frozen=True)
class Method:
    """How one column of a table is trained.

    Attributes:
        name: as in tables, legends and the configuration of cells.
        training: options of a :class:`TrainingConfig` in which it differs from plain softmax.
        beta: its β, which gives it a colour; of a warm-up the last one; or None.
        warm_up: the two ends of its β, or None if that is constant.
        base: the name without the condition that it is trained under, if there is one; of a
                scaled method the one that is scaled, by default the baseline.
        condition: such as ``"0.5 of the images"`` or ``"λ = 0.3"``, or nothing.
        amount: the number in it.
        scaling: for a method that is not trained, but another one scaled after training: how;
            ``"chosen"`` for the β with the lowest NLL on held-out images,
            ``"chosen, temperature"`` for the lowest after temperature scaling of each; or
            ``"stopped"`` for the epoch of the base with the lowest NLL on images it holds out.
    """

    name: str
    training: Mapping[str, Any] = field(default_factory=dict)
    beta: float | None = None
    warm_up: tuple[float, float] | None = None
    base: str = ""
    condition: str = ""
    amount: float = 1.0
    scaling: str = ""

    def __hash__(self) -> int:
        """Hash by name: no two methods of a table share one."""
        return hash(self.name)

    @property
    def cost(self) -> float:
        """The share of the images that it trains on, and so of the time it takes."""
        return float(self.training.get("fraction") or 1.0)

    @property
    def short_name(self) -> str:
        """β alone, or the two ends of the warm-up, as in the configuration of MNIST's cells."""
        return f"{self.beta:g}" if self.warm_up is None else "{:g}→{:g}".format(*self.warm_up)


@dataclass(frozen=True)
class Task:
    """Images, a network and a recipe.

    Attributes:
        name: as a row of tables.
        data: name of a data set.
        model: name of a network.
        training: options of a :class:`TrainingConfig` for all methods.
        part: which images: ``train``, ``test`` and ``held_out`` how many of them (all, and none
            held out, where not given), ``size`` to which height and width they are reduced.
        methods: all methods that are trained together, or none if they are trained one by one.
        measures: what is measured besides scores, see :mod:`softmargin.papers.measure`.
        most_seeds: how many seeds at most, or None.
        seconds: about how long one method takes with one seed.
        stands_for: the paper's network that it stands for, or is.
        row: the row of the paper's table, where that is not data set and network.
        serves: the task that this one only adds to: it is no row of its own, nothing is claimed
            of it.
        seeds_together: how many seeds of MNIST one cell trains at once.
    """

    name: str
    data: str
    model: str
    training: Mapping[str, Any]
    part: Mapping[str, int] = field(default_factory=dict)
    methods: tuple[Method, ...] = ()
    measures: tuple[str, ...] = ()
    most_seeds: int | None = None
    seconds: float = 60.0
    stands_for: str = ""
    row: str = ""
    serves: str = ""
    seeds_together: int = 1

    def __hash__(self) -> int:
        """Hash by name: no two tasks share one."""
        return hash(self.name)

    @property
    def network(self) -> str:
        """What is trained, in a few words."""
        return TITLES[self.model]

    @property
    def is_stand_in(self) -> bool:
        """Whether it stands for another network of the paper."""
        return self.stands_for not in ("", self.network)

    @property
    def paper_row(self) -> str:
        """The row of the paper's table that its numbers are set beside, or nothing."""
        return self.row or (f"{TITLES[self.data]}, {self.stands_for}" if self.stands_for else "")

    @property
    def setup(self) -> dict[str, str]:
        """How it is trained, in words."""
        training, part = self.training, self.part
        images = [f"{part[name]:,} {title}" for name, title in _PARTS.items() if name in part]
        if "size" in part:
            images.append(f"reduced to {part['size']}×{part['size']}")
        options = ", ".join(f"{k} {v}" for k, v in training.get("model_options", {}).items())
        told = (
            f"{self.data} ({', '.join(images) or 'all images'}), {self.model}"
            f"{f' ({options})' if options else ''}, {training['epochs']} epochs of "
            f"{training.get('optimizer', 'sgd')}, batch {training['batch']}, learning rate "
            f"{training['lr']:g} ({training.get('lr_schedule', 'constant')}), weight decay "
            f"{training['weight_decay']:g}, "
            f"{'augmented' if training.get('augment') else 'no augmentation'}"
        )
        return {self.name: told}

    def cells(self, methods: Sequence[Method], seeds: Sequence[int]) -> list[Cell]:
        """Return the cells that hold some methods for some seeds."""
        chosen = seeds[: self.most_seeds]
        if self.methods:
            return [self.cell(seed) for seed in chosen]
        return [self.cell(seed, method) for seed in chosen for method in methods]

    def cell(self, seed: int, method: Method | None = None) -> Cell:
        """Return the cell of one method, or of all that are trained together."""
        config: dict[str, Any] = {
            "task": self.name,
            "data": self.data,
            "model": self.model,
            "seed": seed,
            "training": dict(self.training),
            "part": dict(self.part),
            "measures": list(self.measures),
        }
        if method is None:
            config["methods"] = [{"name": each.name, **each.training} for each in self.methods]
            return self._cell(TOGETHER, config, self.methods)
        config["training"] |= method.training
        config["method"] = method.name
        if method.beta is not None:
            config["beta"] = method.beta
        return self._cell(ONE, config, [method])

    def variant(self, method: Method) -> str:
        """Return what a method is called in the results of cells."""
        return method.name

    def places(self, method: Method, seeds: Sequence[int]) -> list[tuple[Cell, str]]:
        """Return for every seed the cell that holds a method, and what it is called there."""
        return [(cell, self.variant(method)) for cell in self.cells([method], seeds)]

    def _cell(self, work: str, config: Mapping[str, Any], methods: Sequence[Method]) -> Cell:
        name = config.get("method", "")
        label = f"{self.name}{name and f', {name}'}, seed {config['seed']}"
        seconds = CHEAPEST + self.seconds * sum(each.cost for each in methods)
        return Cell(work, config, label, seconds, (self.data,))


_PARTS = {"train": "to train on", "test": "to test on", "held_out": "held out"}


class MnistTask(Task):
    """A task of MNIST, whose cells have a flat configuration that names methods by their β."""

    @property
    def setup(self) -> dict[str, str]:
        """How it is trained, in words."""
        if self.serves:
            return {}
        recipe = self.training
        told = {
            "data": self.data,
            "network": self.layers,
            "optimiser": f"SGD, momentum {recipe['momentum']:g}, learning rate {recipe['lr']:g}, "
            f"weight decay {recipe['weight_decay']:g}, batch {recipe['batch']}",
            "epochs": str(recipe["epochs"]),
            "variants": ", ".join(method.name for method in self.methods),
        }
        if "inputs" not in recipe:
            return told
        seeds = f", {self.most_seeds} seeds at most" if self.most_seeds else ""
        return {
            self.name: f"{told['network']}, inputs {recipe['inputs']}, {told['optimiser']}, "
            f"{told['epochs']} epochs{seeds}; {told['variants']}"
        }

    @property
    def layers(self) -> str:
        """The network, in words."""
        _, height, width = entry_of(self.data).shape
        layers = "-".join(str(each) for each in (height * width, *self.training["widths"], 10))
        end = "" if self.training["last_activation"] else ", no ReLU on the last features"
        return f"fully connected {layers}{end}"

    def cells(self, methods: Sequence[Method], seeds: Sequence[int]) -> list[Cell]:
        """Return the cells of some seeds, of which each may hold several."""
        chosen, size = seeds[: self.most_seeds], self.seeds_together
        if size == 1:
            return super().cells(methods, seeds)
        return [self.cell_of(chosen[at : at + size]) for at in range(0, len(chosen), size)]

    def cell(self, seed: int, method: Method | None = None) -> Cell:
        """Return the cell of all methods, which are trained together."""
        variants = [self.variant(each) for each in self.methods]
        config = {**self.training, "data": self.data, "variants": variants, "seed": seed}
        return self._cell(MNIST, config, self.methods)

    def cell_of(self, seeds: Sequence[int]) -> Cell:
        """Return the cell of all methods for several seeds, all trained together."""
        whole = self.cell(seeds[0])
        label = f"{self.name}, seeds {', '.join(map(str, seeds))}"
        config = {**whole.config, "seeds": list(seeds)}
        return replace(whole, config=config, label=label, seconds=whole.seconds * len(seeds))

    def variant(self, method: Method) -> str:
        """Return what a method is called in the results of cells."""
        return method.short_name

    def places(self, method: Method, seeds: Sequence[int]) -> list[tuple[Cell, str]]:
        """Return for every seed the cell that holds a method, and what it is called there."""
        if self.seeds_together == 1:
            return super().places(method, seeds)
        return [
            (cell, of_seed(self.variant(method), seed))
            for cell in self.cells([method], seeds)
            for seed in cell.config["seeds"]
        ]


def of_seed(variant: str, seed: int) -> str:
    """Return what a variant is called in a cell of several seeds.

    Example:
        >>> of_seed("0.1", 3)
        '0.1, seed 3'
    """
    return f"{variant}, seed {seed}"


Grid = Sequence[tuple[Task, Sequence[Method]]]
"""What an experiment wants at a scale: tasks, and of each some methods."""


@dataclass(frozen=True)
class Plan:
    """What an experiment trains at every scale.

    Attributes:
        desk: at desk scale.
        paper: at paper scale.
        smoke: at smoke scale; where it is None, desk on digits, in seconds.
        scalings: ways to scale the baseline after training, which stand beside methods.
    """

    desk: Grid
    paper: Grid
    smoke: Grid | None = None
    scalings: tuple[Method, ...] = ()

    def grid(self, scale: str) -> Grid:
        """Return the tasks and methods at a scale."""
        if scale == "smoke":
            if self.smoke is not None:
                return self.smoke
            return [(shrunk(task), methods) for task, methods in self.desk]
        return self.paper if scale == "paper" else self.desk

    def most_seeds(self, scale: str, count: int) -> int:
        """Return how many of so many seeds some task has: those of large networks have fewer."""
        return max(len(range(count)[: task.most_seeds]) for task, _ in self.grid(scale))

    def cells(self, scope: Scope) -> list[Cell]:
        """Return the cells of a scope, each once."""
        found = [
            cell
            for task, methods in self.grid(scope.scale)
            for cell in task.cells(methods, scope.seeds)
        ]
        return list({cell.key: cell for cell in found}.values())

    @property
    def stand_ins(self) -> str:
        """What desk scale trains in place of the paper's networks, in words; or nothing.

        Example:
            >>> task = Task("CIFAR-10", "cifar10", "fcnn", {}, stands_for="ResNet18")
            >>> Plan([(task, [])], []).stand_ins
            "fully connected networks for the paper's ResNet18"
        """
        tasks = [task for task, _ in self.desk if task.is_stand_in]
        trained, for_those = (
            _listed([getattr(task, name) for task in tasks]) for name in ("network", "stands_for")
        )
        return f"{trained} networks for the paper's {for_those}" if tasks else ""


def _listed(names: Sequence[str]) -> str:
    *first, last = dict.fromkeys(names) or [""]
    return f"{', '.join(first)} and {last}" if first else last


def each(tasks: Sequence[Task], methods: Sequence[Method]) -> Grid:
    """Return a grid in which all tasks have the same methods."""
    return [(task, methods) for task in tasks]


_SMALL: Mapping[str, Mapping[str, Any]] = {
    "fcnn": {"model_options": {"widths": [24, 16]}, "epochs": 3, "lr": 0.02},
    "small_resnet": {"model_options": {"width": 4}, "epochs": 2},
}


def shrunk(task: Task) -> Task:
    """Return a desk task on 8×8 digits with a tiny network: only proves that the path works."""
    small = dict(_SMALL[task.model])
    if task.training["epochs"] < 10:
        small["epochs"] = 1
    part = {"train": 400, **({"held_out": 200} if "held_out" in task.part else {})}
    return replace(
        task,
        name=f"digits for {task.name}",
        data="digits",
        training={**task.training, **small, "batch": 32},
        part=part,
        seconds=0.05 if task.methods else 0.4,
        most_seeds=None,
        stands_for="",
        row="",
    )
