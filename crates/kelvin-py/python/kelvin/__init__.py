"""Bayesian neural networks at a temperature chosen from the data.

>>> import kelvin
>>> kelvin.Regressor(hidden=64, beta="auto")
Regressor(hidden=64)
"""

from __future__ import annotations

import copyreg
import sys
from typing import TYPE_CHECKING, Any, Dict, Optional

from . import _kelvin
from .errors import InputError, KelvinError, KelvinWarning

if TYPE_CHECKING:
    from .estimators import Classifier, Regressor, Uncertainty, load
    from .experiments import Run, run
    from .sampling import Draws, sample
    from .tempering import Choice, select_beta

__all__ = [
    "Choice",
    "Classifier",
    "Draws",
    "InputError",
    "KelvinError",
    "KelvinWarning",
    "Regressor",
    "Run",
    "Uncertainty",
    "load",
    "run",
    "sample",
    "select_beta",
]

# Imported when they are first used: scikit-learn takes a second, and sampling one's own energy does not need it.
_HOMES = {
    "Classifier": "estimators",
    "Regressor": "estimators",
    "Uncertainty": "estimators",
    "load": "estimators",
    "Run": "experiments",
    "run": "experiments",
    "Draws": "sampling",
    "sample": "sampling",
    "Choice": "tempering",
    "select_beta": "tempering",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "distributed":
        return import_module(f".{name}", __name__)
    if name not in _HOMES:
        raise AttributeError(f"module 'kelvin' has no attribute {name!r}", name=name, obj=sys.modules[__name__])
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list:
    return sorted(__all__)


def _model_of_files(files: Dict[str, bytes], asked: Optional[str]) -> Any:
    return _kelvin.Model.from_files(files, asked)


copyreg.pickle(_kelvin.Model, lambda model: (_model_of_files, (model.files(), model.asked)))
