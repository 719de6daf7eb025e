"""A fitted table model as a folder: JSON and arrays with checksums, no pickle.

- ``model.json``: columns, categories, medians, classes, settings, and the checksums of the others;
- ``weights.npz``: weights of the network, mean and scale of its inputs;
- ``temperature.json``: the calibrator, as ``TemperatureScaling.save`` writes it.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from softmargin import __version__
from softmargin._files import DamagedFileError, read_json, write_json
from softmargin.calibration.scaling import TemperatureScaling
from softmargin.estimators.classifier import MarginClassifier
from softmargin.estimators.preparation import Preparation
from softmargin.estimators.search import MarginClassifierCV
from softmargin.models import FCNN, Classifier
from softmargin.training.arrays import read_arrays, write_arrays
from softmargin.training.parts import make_head

if TYPE_CHECKING:
    from softmargin.estimators.tables import TableModel

FORMAT = "softmargin table model"
VERSION = 1
MODEL, WEIGHTS, TEMPERATURE = "model.json", "weights.npz", "temperature.json"
REMEDY = "fit the model again"
SHARED = ("loss", "head")  # what may also be a class, which has no place in JSON


def save(model: TableModel, folder: Path) -> None:
    """Write a fitted model; ``model.json`` comes last, so that a folder with it is whole."""
    search, chosen = model.search, model.search.best_estimator_
    for name in SHARED:
        if not isinstance(value := getattr(chosen, name), str):
            raise TypeError(f"{name} must be given by name for a model to be saved, got {value!r}.")
    folder.mkdir(parents=True, exist_ok=True)
    state = {f"module.{name}": v.numpy() for name, v in _tensors(chosen.module_).items()}
    arrays = {"mean": chosen.mean_, "scale": chosen.scale_, **state}
    write_arrays(folder / WEIGHTS, arrays)
    scaler = TemperatureScaling()
    scaler.temperature = torch.tensor(search.temperature_, dtype=torch.float64)
    scaler.num_classes = len(search.classes_)
    scaler.class_names = tuple(str(each) for each in search.classes_.tolist())
    scaler.fitted_on = "logits"
    scaler.save(folder / TEMPERATURE)
    settings = {k: v for k, v in chosen.get_params().items() if k != "random_state"}
    content = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": f"softmargin {__version__}",
        "classes": search.classes_.tolist(),
        "preparation": model.preparation.as_dict(),
        "settings": {**settings, "hidden_sizes": list(chosen.hidden_sizes)},
        "best_params": search.best_params_,
        "scoring": search.scoring,
        "best_score": search.best_score_,
        "files": {name: _digest(folder / name) for name in (WEIGHTS, TEMPERATURE)},
    }
    write_json(folder / MODEL, content)


def load(folder: Path) -> tuple[MarginClassifierCV, Preparation]:
    """Read a model, refusing what is none, of another version, damaged, or mixed up."""
    content = _content(folder)
    for name, expected in content["files"].items():
        path = folder / name
        if not path.is_file():
            raise DamagedFileError(folder, f"it has no {name}", REMEDY)
        if _digest(path) != expected:
            raise DamagedFileError(path, f"it is not the one that {MODEL} belongs to", REMEDY)
    try:
        arrays = read_arrays(folder / WEIGHTS, REMEDY)
        preparation = Preparation.from_dict(content["preparation"])
        chosen = _classifier(content, arrays)
        temperature = TemperatureScaling.load(folder / TEMPERATURE).temperature.item()
    except (KeyError, TypeError, IndexError, RuntimeError, zipfile.BadZipFile) as error:
        reason = f"it does not hold what it should ({type(error).__name__})"
        raise DamagedFileError(folder / MODEL, reason, REMEDY) from None
    search = MarginClassifierCV(scoring=content["scoring"])
    search.classes_, search.n_features_in_ = chosen.classes_, chosen.n_features_in_
    search.best_estimator_, search.temperature_ = chosen, temperature
    search.best_params_, search.best_score_ = content["best_params"], content["best_score"]
    return search, preparation


def _content(folder: Path) -> dict[str, Any]:
    path = folder / MODEL
    if not path.is_file():
        raise ValueError(
            f"MODEL must be a folder that softmargin fit has written, but {str(folder)!r} has no "
            f"{MODEL}."
        )
    content = read_json(path, REMEDY)
    if content.get("format") != FORMAT:
        raise ValueError(
            f"MODEL must be a folder that softmargin fit has written, but {str(path)!r} is "
            "something else."
        )
    if content.get("version") != VERSION:
        raise ValueError(
            f"MODEL must be of version {VERSION}, which this softmargin reads, but {str(path)!r} "
            f"is of version {content.get('version')!r}, written by "
            f"{content.get('written_by', 'another softmargin')}; fit it again."
        )
    return content


def _classifier(content: dict[str, Any], arrays: dict[str, Any]) -> MarginClassifier:
    """Return the chosen classifier as it was after its fit."""
    chosen = MarginClassifier(**content["settings"])
    chosen.classes_ = np.array(content["classes"])
    chosen.mean_, chosen.scale_ = arrays["mean"], arrays["scale"]
    chosen.n_features_in_ = len(chosen.mean_)
    network = FCNN(chosen.n_features_in_, chosen.hidden_sizes)
    head = make_head(
        chosen.head, network.out_features, len(chosen.classes_), dict(chosen.head_options or {})
    )
    module = Classifier(network, head).double()
    state = {
        name.removeprefix("module."): torch.from_numpy(value)
        for name, value in arrays.items()
        if name.startswith("module.")
    }
    known = module.state_dict()
    module.load_state_dict({**known, **state})
    chosen.module_ = module.eval()
    chosen.n_iter_ = chosen.epochs
    return chosen


def _tensors(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    state = module.state_dict()
    return {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
