"""Rows as people have them: arrays, lists, and frames of pandas or polars; columns with names come out."""

from __future__ import annotations

import numbers
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Tuple, Union

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from .errors import InputError

#: A name, and numbers (NaN where one is missing) or words (None where one is missing).
Column = Tuple[str, Union[np.ndarray, List[Optional[str]]]]

#: Weights are numbers of 32 bits to what learns from them.
MOST_WEIGHT = float(np.finfo(np.float32).max)


def is_frame(X: Any) -> bool:
    """Whether it has columns with kinds of their own, as a frame of pandas or polars has."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


def is_missing(value: Any) -> bool:
    """Whether a cell says nothing."""
    return value is None or value is np.ma.masked or (isinstance(value, float) and value != value) or type(value).__name__ in ("NaTType", "NAType")


def _word(value: Any) -> Optional[str]:
    """A cell as a file of CSV has it."""
    if is_missing(value):
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
    if kind in ("i", "u", "f") or all(isinstance(value, (int, float, np.number)) and not isinstance(value, bool) or is_missing(value) for value in values):
        numbers = np.array([np.nan if is_missing(value) else value for value in values], dtype=np.float64)
        if np.isinf(numbers).any():
            raise InputError(f"column `{name}` holds an infinite number\n  correct it or leave the row out")
        return numbers
    words = [_word(value) for value in values]
    midnight = " 00:00:00"
    if words and all(word is None or word.endswith(midnight) for word in words):
        return [None if word is None else word[: -len(midnight)] for word in words]
    return words


@contextmanager
def numbers_alone() -> Iterator[None]:
    """Says what to do where an array should hold numbers and holds words."""
    try:
        yield
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        message = f"an array of rows must hold numbers: {error}\n  columns of words are taken from a frame of pandas or polars"
        raise InputError(message) from None


def columns_of(estimator: Any, X: Any, reset: bool) -> List[Column]:
    """The columns of rows, checked as scikit-learn checks them; `reset` where they are learned from."""
    if is_frame(X) and all(isinstance(name, str) for name in X.columns):
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        return [(name, cells(name, X[name])) for name in X.columns]
    with numbers_alone():
        rows = validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_all_finite="allow-nan")
    return [(f"x{index}" if own is None else own, np.ascontiguousarray(rows[:, index])) for index, own in enumerate(_names(estimator))]


def row_weights(sample_weight: Any, num_rows: int) -> Optional[np.ndarray]:
    """What each row counts for; None where all count once.

    >>> row_weights([2, 0.5, 0], 3), row_weights(None, 3), row_weights([1, 1, 1], 3)
    (array([2. , 0.5, 0. ]), None, None)
    """
    if sample_weight is None:
        return None
    if isinstance(sample_weight, numbers.Number):
        sample_weight = np.full(num_rows, sample_weight)
    weights = check_array(sample_weight, ensure_2d=False, allow_nd=True, dtype=np.float64, input_name="sample_weight")
    if weights.ndim != 1:
        raise InputError(f"sample_weight must be one number or one for each row, got an array of shape {list(weights.shape)}")
    check_consistent_length(np.empty(num_rows), weights)
    for is_wrong, why in ((weights < 0, "is negative"), (weights > MOST_WEIGHT, "is larger than 32 bits hold")):
        if is_wrong.any():
            row = int(is_wrong.argmax())
            raise InputError(f"sample_weight {why} in row {row} (from 0): {weights[row]}\n  a row of weight w counts as w such rows")
    return None if (weights == 1).all() else weights


def these_rows(columns: List[Column], rows: np.ndarray) -> List[Column]:
    """Columns with some of their rows; `rows` says of each whether it stays."""
    return [
        (name, cells[rows] if isinstance(cells, np.ndarray) else [cell for cell, stays in zip(cells, rows) if stays])
        for name, cells in columns
    ]


def _names(estimator: Any) -> List[Optional[str]]:
    own = getattr(estimator, "feature_names_in_", None)
    return [None] * estimator.n_features_in_ if own is None else [str(name) for name in own]
