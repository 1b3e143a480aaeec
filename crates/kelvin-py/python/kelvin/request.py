"""From keyword arguments to what the extension module is asked."""

from __future__ import annotations

import json
import numbers
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .errors import InputError

Budget = Union[None, int, str]
#: The most that the library takes.
MOST_WIDTH, MOST_CHAINS, MOST_FOLDS, MOST_SEED = 65536, 1024, 100, 2**64 - 1


def whole(name: str, found: Any, least: int, most: int) -> int:
    """A whole number that an argument must be.

    >>> whole("chains", 4, 1, 1024)
    4
    >>> whole("chains", 2.5, 1, 1024)
    Traceback (most recent call last):
    kelvin.errors.InputError: chains must be a whole number from 1 to 1024, got 2.5
    """
    is_whole = isinstance(found, numbers.Integral) and not isinstance(found, (bool, np.bool_))
    if not (is_whole and least <= found <= most):
        raise InputError(f"{name} must be a whole number from {least} to {most}, got {found!r}")
    return int(found)


def widths(hidden: Union[int, Sequence[int]]) -> List[int]:
    """Widths of hidden layers.

    >>> widths(64), widths((32, 16)), widths([])
    ([64], [32, 16], [])
    """
    given = [hidden] if isinstance(hidden, numbers.Number) else hidden
    if isinstance(given, (str, bytes)) or not hasattr(given, "__iter__"):
        raise InputError(f"hidden must be a width as 64, or a list of widths as [64, 32], got {hidden!r}")
    return [whole("a width of hidden", width, 1, MOST_WIDTH) for width in given]


def overrides(settings: Optional[Mapping[str, Any]]) -> List[str]:
    """Settings by name as `kelvin run --set` takes them.

    >>> overrides({"model.hidden": [32, 16], "model.noise_variance": 0.1, "sampler.integrator": "baoab"})
    ['model.hidden=[32, 16]', 'model.noise_variance=0.1', 'sampler.integrator=baoab']
    """

    def text(value: Any) -> str:
        if isinstance(value, (str, bool, np.bool_)):
            return value if isinstance(value, str) else str(bool(value)).lower()
        if isinstance(value, numbers.Number):
            return repr(float(value)) if isinstance(value, (float, np.floating)) else str(int(value))
        return json.dumps(np.asarray(value).tolist())

    if settings is not None and not isinstance(settings, Mapping):
        raise InputError(f'settings must be a dict as {{"model.noise_variance": 0.1}}, got {settings!r}')
    return [f"{name}={text(value)}" for name, value in (settings or {}).items()]


def budget_parts(budget: Budget) -> Dict[str, Any]:
    """Gradients or seconds.

    >>> budget_parts(20_000), budget_parts("90s"), budget_parts("2m")
    ({'gradients': 20000, 'seconds': None}, {'gradients': None, 'seconds': 90.0}, {'gradients': None, 'seconds': 120.0})
    """
    if budget is None:
        return {"gradients": None, "seconds": None}
    if isinstance(budget, numbers.Integral) and budget > 0:
        return {"gradients": int(budget), "seconds": None}
    units = {"s": 1.0, "m": 60.0, "h": 3600.0}
    if isinstance(budget, str) and budget[-1:] in units:
        try:
            seconds = float(budget[:-1]) * units[budget[-1]]
        except ValueError:
            seconds = 0.0
        if 0.0 < seconds < float("inf"):
            return {"gradients": None, "seconds": seconds}
    raise InputError(f"budget must be a number of gradients as 20000, or a time as \"30s\", \"10m\" or \"2h\", got {budget!r}")


def beta_override(beta: Union[str, float]) -> List[str]:
    """The setting that fixes β; nothing for "auto"."""
    if isinstance(beta, str):
        if beta != "auto":
            raise InputError(f"beta must be \"auto\" or a number > 0, got {beta!r}")
        return []
    is_number = isinstance(beta, numbers.Real) and not isinstance(beta, (bool, np.bool_))
    if not (is_number and np.isfinite(beta) and beta > 0):
        raise InputError(f"beta must be \"auto\" or a number > 0, got {beta!r}")
    return [f"selection.beta={float(beta)!r}"]


def request(
    *,
    seed: Optional[int],
    sampler: str = "auto",
    likelihood: str = "auto",
    quick: bool = False,
    folds: Optional[int] = None,
    budget: Budget = None,
    beta: Union[str, float] = "auto",
    chains: Optional[int] = None,
    hidden: Union[None, str, int, Sequence[int]] = None,
    settings: Optional[Mapping[str, Any]] = None,
    seed_name: str = "seed",
) -> Dict[str, Any]:
    """What the extension module is asked for."""
    by_name = overrides(settings) + beta_override(beta)
    choose_hidden = isinstance(hidden, str) and hidden == "auto"
    if chains is not None:
        by_name.append(f"run.chains={whole('chains', chains, 1, MOST_CHAINS)}")
    if hidden is not None and not choose_hidden:
        by_name.append(f"model.hidden={widths(hidden)}")
    if not isinstance(quick, (bool, np.bool_)):
        raise InputError(f"quick must be True or False, got {quick!r}")
    return {
        "seed": None if seed is None else whole(seed_name, seed, 0, MOST_SEED),
        "sampler": None if sampler == "auto" else sampler,
        "likelihood": None if likelihood == "auto" else likelihood,
        "choose_hidden": choose_hidden,
        "quick": bool(quick),
        "folds": None if folds is None else whole("folds", folds, 0, MOST_FOLDS),
        "overrides": by_name,
        **budget_parts(budget),
    }
