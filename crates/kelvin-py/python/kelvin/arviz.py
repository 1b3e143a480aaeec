"""Draws in ArviZ's groups, in memory."""

from __future__ import annotations

import inspect
from typing import Any, Dict, Mapping

import numpy as np

Groups = Dict[str, Dict[str, np.ndarray]]


def draws_of(model: Any) -> Groups:
    """The draws of a fitted model by group and name."""
    weights, measured = model.draws()
    return {"posterior": dict(weights), "sample_stats": dict(measured)}


def to_arviz(groups: Mapping[str, Mapping[str, np.ndarray]]) -> Any:
    """What ArviZ makes of these arrays; the arrays themselves where it is not installed.

    >>> groups = to_arviz({"posterior": {"theta": np.zeros((2, 10, 3))}})
    >>> groups["posterior"]["theta"].shape
    (2, 10, 3)
    """
    try:
        import arviz
    except ImportError:
        return {name: dict(arrays) for name, arrays in groups.items()}
    kept = {name: dict(arrays) for name, arrays in groups.items() if arrays}
    # ArviZ 1 takes one dictionary, older ones a keyword for each group.
    parameters = inspect.signature(arviz.from_dict).parameters
    return arviz.from_dict(**kept) if "posterior" in parameters else arviz.from_dict(kept)
