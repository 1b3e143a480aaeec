"""Rows as people have them: arrays, lists, and frames of pandas or polars; numbers come out."""

from __future__ import annotations

from typing import Any, List

import numpy as np

from .errors import InputError


def refuse_text(X: Any) -> None:
    """Names the first column of a frame that holds no numbers."""
    columns = getattr(X, "columns", None)
    if columns is None or not hasattr(X, "dtypes"):
        return
    for name in columns:
        column = X[name]
        values = column.to_numpy()
        if values.dtype.kind in "biuf":
            continue
        try:
            np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            shown = next((value for value in values if not isinstance(value, (int, float))), values[0])
            raise InputError(
                f"column `{name}` holds {shown!r}, which is no number\n  write it as numbers (for example with "
                "sklearn.preprocessing.OneHotEncoder), or leave the column out"
            ) from None


def names(estimator: Any) -> List[str]:
    """The names of an estimator's columns: a frame's own, or x0, x1, …"""
    own = getattr(estimator, "feature_names_in_", None)
    if own is not None:
        return [str(name) for name in own]
    return [f"x{index}" for index in range(estimator.n_features_in_)]
