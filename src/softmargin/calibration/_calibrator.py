"""The base class of calibrators: fit, transform, use as a module, and storage as JSON."""

from __future__ import annotations

import inspect
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, cast, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from softmargin._docs import document_arguments
from softmargin._files import DamagedFileError, read_json, write_json
from softmargin._plain_checks import check_choice
from softmargin._settings import ModuleWithSettings, describe
from softmargin.calibration._batch import Array, Batch, as_tensor, check_logits, fit_batch

FORMAT = "softmargin calibrator"
VERSION = 1
FIELDS = {"format", "version", "kind", "num_classes", "parameters", "notes"}
OPTIONAL = ("class_names", "fitted_on")
PREDICTIONS = ("logits", "probabilities")
FIT_ARGUMENTS = {
    "logits": """of shape (N, C), a tensor on any device or a NumPy array, in any floating-point
        dtype. If every row looks like probabilities, they are refused; give their logarithm
        instead.""",
    "target": "class indices of shape (N,).",
    "sample_weight": "how much each row counts, of shape (N,); by default all the same.",
    "ignore_index": "a target value whose rows do not count.",
}
REMEDY = "fit the calibrator again and save it, or copy the file again from where it is whole"


class CalibrationWarning(UserWarning):
    """The data does not determine the calibrator: it is at a bound, or a class is missing."""


class Calibrator(ModuleWithSettings):
    """Base of the calibrators, which turn logits into calibrated logits.

    They follow scikit-learn's contract without needing it: ``clone``, ``get_params``,
    ``predict_proba``, ``GridSearchCV`` and pipelines work, with logits as features.

    A subclass defines its ``kind`` (in files), its ``numbers`` (float64 buffers, empty until they
    are fitted), and how to fit and apply them.

    Attributes:
        num_classes: C of the logits it was fitted on, or None.
        notes: the warnings of the last fit, stored with the numbers.
        class_names: what the classes are called, in their order, or None where that is not known.
        fitted_on: ``"logits"``, ``"probabilities"`` (their logarithms), or None where it is not
            known. Both are kept with the numbers, for who applies them later.
    """

    kind: ClassVar[str]
    _estimator_type: ClassVar[str] = "classifier"  # for scikit-learn before 1.6
    numbers: ClassVar[tuple[str, ...]]
    num_classes: int | None
    notes: tuple[str, ...]
    class_names: tuple[str, ...] | None
    fitted_on: str | None

    def __init__(self) -> None:
        """Start unfitted."""
        super().__init__()
        for name in self.numbers:
            self.register_buffer(name, torch.empty(0, dtype=torch.float64))
        self.num_classes = None
        self.notes = ()
        self.class_names = None
        self.fitted_on = None

    def _fit(self, batch: Batch) -> list[str]:
        """Set the numbers; return the warnings."""
        raise NotImplementedError

    def _scaled(self, logits: Tensor) -> Tensor:
        """Return calibrated logits."""
        raise NotImplementedError

    @property
    def fitted(self) -> bool:
        """Return whether there are numbers to transform with."""
        return all(getattr(self, name).numel() for name in self.numbers)

    @document_arguments(FIT_ARGUMENTS)
    def fit(
        self,
        logits: Array,
        target: Array,
        *,
        sample_weight: Array | None = None,
        ignore_index: int | None = None,
    ) -> Self:
        """Find the numbers that minimise the NLL on these rows, and return the calibrator itself.

        Use rows that the model was not trained on. Metrics on the same rows are then in-sample:
        see :func:`softmargin.calibration.scaling.cross_validated`.

        Warns:
            CalibrationWarning: if the NLL has no minimum; ``notes`` keeps the messages.
        """
        # tensors created in inference mode could never be part of a graph again
        with torch.inference_mode(False), torch.no_grad():
            batch = fit_batch(logits, target, sample_weight, ignore_index)
            notes = self._fit(batch)
            self.to(batch.predictions.device)
        self.num_classes = batch.num_classes
        self.notes = tuple(notes)
        self.class_names = self.fitted_on = None
        for note in notes:
            message = f"{type(self).__name__}: {note}"
            warnings.warn(message, CalibrationWarning, stacklevel=2)
        return self

    @overload
    def transform(self, logits: Tensor) -> Tensor: ...

    @overload
    def transform(self, logits: NDArray[Any]) -> NDArray[Any]: ...

    def transform(self, logits: Array) -> Array:
        """Return calibrated logits: a tensor for a tensor, an array for a NumPy array.

        float16 and bfloat16 become float32, so that calibrated values can be told apart; float32
        and float64 stay. Gradients flow through. Values are not checked: NaN stays NaN.

        Args:
            logits: of shape (N, C) or (C,), with the C of the fit.
        """
        if isinstance(logits, Tensor):
            return self.forward(logits)
        tensor = as_tensor("logits", logits).to(getattr(self, self.numbers[0]).device)
        array: NDArray[Any] = self.forward(tensor).numpy(force=True)
        return array

    def forward(self, logits: Tensor) -> Tensor:
        """Return calibrated logits, see :meth:`transform`."""
        name = type(self).__name__
        if not self.fitted:
            raise RuntimeError(f"{name} must be fitted first: call fit(logits, target) or load.")
        check_logits(logits)
        if logits.ndim > 2 or self.num_classes not in (None, logits.shape[-1]):
            classes = "C" if self.num_classes is None else self.num_classes
            raise ValueError(
                f"logits must have shape (N, {classes}) or ({classes},) for this {name}, "
                f"but got {tuple(logits.shape)}."
            )
        if logits.dtype not in (torch.float32, torch.float64):
            logits = logits.float()
        return self._scaled(logits)

    @overload
    def predict_proba(self, logits: Tensor) -> Tensor: ...

    @overload
    def predict_proba(self, logits: NDArray[Any]) -> NDArray[Any]: ...

    def predict_proba(self, logits: Array) -> Array:
        """Return calibrated probabilities, the softmax of :meth:`transform`."""
        if isinstance(logits, Tensor):
            return self.forward(logits).softmax(-1)
        scaled: NDArray[Any] = torch.from_numpy(self.transform(logits)).softmax(-1).numpy()
        return scaled

    @overload
    def predict(self, logits: Tensor) -> Tensor: ...

    @overload
    def predict(self, logits: NDArray[Any]) -> NDArray[Any]: ...

    def predict(self, logits: Array) -> Array:
        """Return the most probable class of each row, the first of several."""
        if isinstance(logits, Tensor):
            return self.forward(logits).argmax(-1)
        found: NDArray[Any] = self.transform(logits).argmax(-1)
        return found

    def score(self, logits: Array, target: Array, sample_weight: Array | None = None) -> float:
        """Return minus the mean NLL of calibrated logits, which a search maximises."""
        rows = as_tensor("logits", logits)
        batch = fit_batch(rows, target, sample_weight, None)
        scaled = self.forward(rows).double().to(batch.target.device)
        picked = scaled if batch.rows is None else scaled[batch.rows]
        own = picked.log_softmax(1).gather(1, batch.target.unsqueeze(1)).squeeze(1)
        return float((own * batch.weight).sum())

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor, as scikit-learn asks for them."""
        return {name: float(getattr(self, name)) for name in self._arguments()}

    def set_params(self, **params: Any) -> Self:
        """Set arguments of the constructor, and return the calibrator itself."""
        known = self._arguments()
        for name, value in params.items():
            if name not in known:
                raise ValueError(
                    f"params must be of {type(self).__name__}, which has "
                    f"{', '.join(known) or 'none'}, but got {name!r}."
                )
            setattr(self, name, value)
        return self

    @classmethod
    def _arguments(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name in cls.settings]

    @property
    def classes_(self) -> NDArray[np.int64]:
        """Return the classes of a fitted calibrator, from 0."""
        if self.num_classes is None:
            raise AttributeError(f"{type(self).__name__} has no classes_ before it is fitted.")
        return np.arange(self.num_classes)

    def __sklearn_is_fitted__(self) -> bool:
        """Tell scikit-learn whether there are numbers to predict with."""
        return self.fitted

    def __sklearn_clone__(self) -> Self:
        """Return an unfitted calibrator with the same arguments."""
        return type(self)(**self.get_params())

    def __sklearn_tags__(self) -> Any:
        """Tell scikit-learn, from 1.6 on, that this classifies and transforms logits."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            transformer_tags=TransformerTags(preserves_dtype=["float64", "float32"]),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibrator as JSON, with every digit; an existing file is replaced at once."""
        if not self.fitted:
            raise RuntimeError(f"{type(self).__name__} must be fitted before it is saved.")
        content = {
            "format": FORMAT,
            "version": VERSION,
            "kind": self.kind,
            "num_classes": self.num_classes,
            "parameters": {name: getattr(self, name).tolist() for name in self.numbers},
            "notes": list(self.notes),
            **self._known(),
        }
        write_json(Path(path), content)

    def _known(self) -> dict[str, Any]:
        """Return what is known of the predictions that it was fitted on, ready for JSON."""
        names = None if self.class_names is None else list(self.class_names)
        found = {"class_names": names, "fitted_on": self.fitted_on}
        return {name: value for name, value in found.items() if value is not None}

    def _set_known(self, content: Mapping[str, Any]) -> None:
        names, kind = (content.get(name) for name in OPTIONAL)
        if names is not None and (not isinstance(names, list) or len(names) != self.num_classes):
            raise ValueError(f"class_names must hold {self.num_classes} names, but got {names!r}.")
        if kind is not None:
            check_choice("fitted_on", kind, PREDICTIONS)
        self.class_names = None if names is None else tuple(str(name) for name in names)
        self.fitted_on = kind

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a calibrator of this class from a JSON file made by :meth:`save`."""
        file = Path(path)
        content = read_calibrator(file)
        if content["kind"] != cls.kind:
            raise ValueError(
                f"path must be a file of kind {cls.kind!r} for {cls.__name__}, "
                f"but {path} is of kind {content['kind']!r}."
            )
        result = cls()
        try:
            result._set_numbers(content["parameters"], content["num_classes"])
            result.notes = tuple(str(note) for note in content.get("notes", ()))
            result._set_known(content)
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DamagedFileError(file, str(error), REMEDY) from None
        return result

    def _set_numbers(self, parameters: dict[str, Any], num_classes: int | None) -> None:
        for name in self.numbers:
            value = torch.tensor(parameters[name], dtype=torch.float64)
            if self.settings[name].per_class and value.shape != (num_classes,):
                raise ValueError(
                    f"{name} must hold {num_classes} numbers, but got {value.numel()}."
                )
            setattr(self, name, value)
        self.num_classes = None if num_classes is None else int(num_classes)

    def get_extra_state(self) -> Tensor:
        """Return what ``state_dict`` stores besides the numbers, as the bytes of JSON.

        A tensor, because safetensors takes nothing else.
        """
        content = {"num_classes": self.num_classes, "notes": list(self.notes), **self._known()}
        return torch.tensor(list(json.dumps(content).encode()), dtype=torch.uint8, device="cpu")

    def set_extra_state(self, state: Tensor | dict[str, Any]) -> None:
        """Restore what :meth:`get_extra_state` returned, or a dict, as it once was."""
        if isinstance(state, Tensor):
            state = cast(dict[str, Any], json.loads(bytes(state.tolist())))
        self.num_classes = state["num_classes"]
        self.notes = tuple(state["notes"])
        self._set_known(state)

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **options: Any
    ) -> None:
        """Resize the buffers first: their size is known only once they are fitted."""
        for name in self.numbers:
            new, old = state_dict.get(prefix + name), self._buffers.get(name)
            if new is not None and old is not None and new.shape != old.shape:
                self._buffers[name] = torch.empty_like(old).resize_(new.shape)
        super()._load_from_state_dict(state_dict, prefix, *args, **options)

    def extra_repr(self) -> str:
        """Show the numbers, or that they are not fitted."""
        if not self.fitted:
            return "not fitted"
        return ", ".join(f"{name}={describe(getattr(self, name))}" for name in self.numbers)


def read_calibrator(file: Path) -> dict[str, Any]:
    """Return the content of a calibrator file; raise a one-sentence error for any other file."""
    content = read_json(file, REMEDY)
    if content.get("format") != FORMAT:
        raise ValueError(
            f"path must be a file that a calibrator's save has written, but {str(file)!r} is not."
        )
    if content.get("version") != VERSION:
        raise ValueError(
            f"path must be a calibrator file of version {VERSION}, "
            f"but {str(file)!r} is of version {content.get('version')!r}."
        )
    if missing := {"kind", "num_classes", "parameters"} - set(content):
        raise DamagedFileError(file, f"it has no {' and no '.join(sorted(missing))}", REMEDY)
    if unknown := set(content) - FIELDS - {*OPTIONAL}:  # such as a checksum whose name is damaged
        raise DamagedFileError(file, f"it holds an unknown {min(unknown)!r}", REMEDY)
    return content
