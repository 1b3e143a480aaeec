"""Python and the program `kelvin` give the same bits for the same rows, settings and seed."""

import csv
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

import kelvin
from conftest import QUICK, skipped


def program() -> str:
    """The program, where `KELVIN_PROGRAM` says or where cargo puts it."""
    built = Path(__file__).resolve().parents[3] / "target" / "release" / "kelvin"
    found = os.environ.get("KELVIN_PROGRAM") or (str(built) if built.exists() else None)
    if found is None:
        skipped("program", "the program kelvin is not built (cargo build --release)")
    return found


def write(path, X, y):
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([f"x{index}" for index in range(X.shape[1])] + ["y"])
        writer.writerows([*map(repr, map(float, row)), answer] for row, answer in zip(X, y))


@pytest.mark.parametrize("kind", ["numbers", "classes", "numbers, what scored best"])
def test_the_program_gives_the_same_bits(kind, fitted, classified, table, tmp_path):
    X, y = table
    asked = ["--model", "beta-star"]
    if kind.startswith("numbers"):
        if kind != "numbers":
            fitted, asked = kelvin.Regressor(**{**QUICK, "model": "best"}).fit(X, y), []
        model, answers, task = fitted, [repr(float(value)) for value in y], "regression"
    else:
        model, answers, task = classified, np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle")), "classification"
    write(tmp_path / "table.csv", X, answers)
    flags = ["--task", task, "--folds", "0", "--budget", str(QUICK["budget"]), "--seed", "0"]
    overrides = ["--set", "model.hidden=[16]", "--set", "run.chains=2"]

    def run(*arguments):
        done = subprocess.run([program(), *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done

    run("run", "--data", "table.csv", "--target", "y", "--out", "run", "--quiet", *flags, *overrides)
    run("predict", "run", "--input", "table.csv", "--output", "predicted.csv", *asked)
    with open(tmp_path / "predicted.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    column = lambda name: np.array([float(row[name]) for row in rows])
    if kind.startswith("numbers"):
        mean, std = model.predict(X, return_std=True)
        np.testing.assert_array_equal(column("mean"), mean)
        np.testing.assert_array_equal(column("std"), std)
        for name, values in zip(["q05", "q50", "q95"], model.predict_quantiles(X, [0.05, 0.5, 0.95]).T):
            np.testing.assert_array_equal(column(name), values)
    else:
        for name, values in zip(model.classes_, model.predict_proba(X).T):
            np.testing.assert_array_equal(column(f"p({name})"), values)
        assert [row["class"] for row in rows] == list(model.predict(X))
    aleatoric, epistemic, _ = model.uncertainty(X)
    np.testing.assert_array_equal(column("aleatoric"), aleatoric)
    np.testing.assert_array_equal(column("epistemic"), epistemic)
    # And each reads the other's folder.
    loaded = kelvin.load(tmp_path / "run", model="beta-star" if asked else None)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    model.save(tmp_path / "saved")
    run("predict", "saved", "--input", "table.csv", "--output", "again.csv", *asked)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "predicted.csv").read_bytes()
    run("report", "saved")
