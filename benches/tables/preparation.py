"""Splits a table and prepares its columns for the peers; everything that is fitted is fitted on training rows."""
from dataclasses import dataclass

import numpy
import pandas
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from .catalogue import Table

TEST_SHARE = 0.2


@dataclass
class Split:
    """Training and test rows: as they came, and prepared; targets in their own units (classes as codes)."""

    train: pandas.DataFrame
    test: pandas.DataFrame
    x_train: numpy.ndarray
    x_test: numpy.ndarray
    y_train: numpy.ndarray
    y_test: numpy.ndarray
    classes: list[str]


def split_table(table: Table, frame: pandas.DataFrame, seed: int) -> Split:
    """Four fifths to learn from, one fifth to be judged on; classes keep their shares."""
    target = frame[table.target]
    strata = target if table.task == "classes" else None
    train, test = train_test_split(frame, test_size=TEST_SHARE, random_state=seed, stratify=strata)
    classes = sorted(target.astype(str).unique()) if table.task == "classes" else []
    codes = {name: code for code, name in enumerate(classes)}

    def numbers(rows: pandas.DataFrame) -> numpy.ndarray:
        column = rows[table.target]
        return column.astype(str).map(codes).to_numpy() if classes else column.to_numpy(float)

    x_train, x_test = prepared(table, train.drop(columns=table.target), test.drop(columns=table.target))
    return Split(train, test, x_train, x_test, numbers(train), numbers(test), classes)


def prepared(table: Table, train: pandas.DataFrame, test: pandas.DataFrame) -> tuple[numpy.ndarray, numpy.ndarray]:
    """One-hot text, mean and indicator for missing numbers, dates as numbers, all scaled."""
    train, test = (with_date_parts(rows, table.dates) for rows in (train, test))
    text = [name for name in train if not pandas.api.types.is_numeric_dtype(train[name])]
    number = [name for name in train if name not in text]
    train, test = (rows.assign(**{name: rows[name].astype(object).fillna("(missing)").astype(str) for name in text}) for rows in (train, test))
    encoder = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(add_indicator=True), StandardScaler()), number),
            ("text", make_pipeline(OneHotEncoder(handle_unknown="ignore", sparse_output=False), StandardScaler()), text),
        ]
    )
    return encoder.fit_transform(train), encoder.transform(test)


def with_date_parts(rows: pandas.DataFrame, dates: tuple[str, ...]) -> pandas.DataFrame:
    """Replaces a date by its day number, its place in the year as sine and cosine, and its weekday as text."""
    for name in dates:
        date = pandas.to_datetime(rows[name])
        angle = 2 * numpy.pi * date.dt.dayofyear / 365.25
        parts = {f"{name} day": date.map(pandas.Timestamp.toordinal), f"{name} sine": numpy.sin(angle), f"{name} cosine": numpy.cos(angle), f"{name} weekday": date.dt.day_name()}
        rows = rows.drop(columns=name).assign(**parts)
    return rows
