"""Rows as people have them: arrays, lists, and frames of pandas or polars; columns with names come out."""

from __future__ import annotations

from typing import Any, List, Optional, Tuple, Union

import numpy as np
from sklearn.utils.validation import validate_data

from .errors import InputError

#: A name, and numbers (NaN where one is missing) or words (None where one is missing).
Column = Tuple[str, Union[np.ndarray, List[Optional[str]]]]


def is_frame(X: Any) -> bool:
    """Whether it has columns with kinds of their own, as a frame of pandas or polars has."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def _is_missing(value: Any) -> bool:
    return value is None or value is np.ma.masked or (isinstance(value, float) and value != value) or type(value).__name__ in ("NaTType", "NAType")


def _word(value: Any) -> Optional[str]:
    """A cell as a file of CSV has it."""
    if _is_missing(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    return value if isinstance(value, str) else str(value)


def cells(name: Any, column: Any) -> Union[np.ndarray, List[Optional[str]]]:
    """The cells of a column of a frame: numbers as numbers, all else as a file of CSV would have it.

    >>> import pandas
    >>> cells("a", pandas.Series([1, 2, None])), cells("b", pandas.Series(["red", None]))
    (array([ 1.,  2., nan]), ['red', None])
    >>> cells("c", pandas.Series([True, False])), cells("d", pandas.to_datetime(pandas.Series(["2024-02-29"])))
    (['true', 'false'], ['2024-02-29'])
    """
    values = column.to_list() if hasattr(column, "to_list") else list(column)
    kind = getattr(getattr(column, "dtype", None), "kind", None)
    if kind in ("i", "u", "f") or all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) or _is_missing(value) for value in values):
        numbers = np.array([np.nan if _is_missing(value) else value for value in values], dtype=np.float64)
        if np.isinf(numbers).any():
            raise InputError(f"column `{name}` holds an infinite number\n  correct it or leave the row out")
        return numbers
    words = [_word(value) for value in values]
    midnight = " 00:00:00"
    if words and all(word is None or word.endswith(midnight) for word in words):
        return [None if word is None else word[: -len(midnight)] for word in words]
    return words


def columns_of(estimator: Any, X: Any, reset: bool) -> List[Column]:
    """The columns of rows, checked as scikit-learn checks them; `reset` where they are learned from."""
    if is_frame(X) and all(isinstance(name, str) for name in X.columns):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return [(name, cells(name, X[name])) for name in X.columns]
    rows = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
    return [(f"x{index}" if own is None else own, np.ascontiguousarray(rows[:, index])) for index, own in enumerate(_names(estimator))]


def _names(estimator: Any) -> List[Optional[str]]:
    own = getattr(estimator, "feature_names_in_", None)
    return [None] * estimator.n_features_in_ if own is None else [str(name) for name in own]
