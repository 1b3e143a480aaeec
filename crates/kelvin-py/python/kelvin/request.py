"""From keyword arguments to what the extension module is asked."""

from __future__ import annotations

import json
import numbers
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import numpy as np

from .errors import InputError

Budget = Union[None, int, str]


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
    if not (np.isfinite(beta) and beta > 0):
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
) -> Dict[str, Any]:
    """What the extension module is asked for."""
    by_name = overrides(settings) + beta_override(beta)
    if chains is not None:
        by_name.append(f"run.chains={int(chains)}")
    if isinstance(hidden, str) and hidden != "auto":
        raise InputError(f'hidden must be a width, a sequence of widths, "auto" or None, got {hidden!r}')
    if hidden is not None and not isinstance(hidden, str):
        widths = [int(hidden)] if isinstance(hidden, numbers.Integral) else [int(width) for width in hidden]
        by_name.append(f"model.hidden={widths}")
    return {
        "seed": seed,
        "sampler": None if sampler == "auto" else sampler,
        "likelihood": None if likelihood == "auto" else likelihood,
        "choose_hidden": isinstance(hidden, str),
        "quick": bool(quick),
        "folds": None if folds is None else int(folds),
        "overrides": by_name,
        **budget_parts(budget),
    }
