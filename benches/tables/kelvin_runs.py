"""kelvin on a split: the CSV as it came through `kelvin run`, scores of what `kelvin predict` says about the test rows."""
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy
import pandas

from .catalogue import Table
from .preparation import Split

LEVELS = (numpy.arange(99) + 1) / 100


@dataclass
class Program:
    """How kelvin is called."""

    binary: Path
    threads: int
    options: list[str]

    def call(self, *words: str, folder: Path) -> str:
        """Standard output of a command, or its error said plainly."""
        done = subprocess.run([self.binary.resolve(), *words], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(f"kelvin {words[0]} failed: {done.stderr.strip()[-600:]}")
        return done.stdout


def fit(program: Program, table: Table, split: Split, folder: Path) -> None:
    """`kelvin run` on the training rows, in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    split.train.to_csv(folder / "train.csv", index=False)
    split.test.to_csv(folder / "test.csv", index=False)
    task = ["--task", "classification" if table.task == "classes" else table.task]
    options = ["--out", "run", "--fresh", "--quiet", "--threads", str(program.threads), *program.options]
    said = program.call("run", "--data", "train.csv", "--target", table.target, *task, *options, folder=folder)
    (folder / "said.txt").write_text(said)


def judge(program: Program, table: Table, split: Split, folder: Path) -> dict[str, float]:
    """Scores of the test rows, from the columns that `kelvin predict` writes."""
    levels = [] if table.task == "classes" else ["--quantiles", ",".join(f"{level:.2f}" for level in LEVELS)]
    program.call("predict", "run", "--input", "test.csv", "--output", "predicted.csv", *levels, folder=folder)
    predicted = pandas.read_csv(folder / "predicted.csv", keep_default_na=False)
    log_density = predicted["log_density"].to_numpy(float)
    if table.task == "classes":
        return {"nll": -log_density.mean(), **class_columns(predicted, split)}
    return {"nll": -log_density.mean(), **number_columns(predicted, split.y_test)}


def number_columns(predicted: pandas.DataFrame, y: numpy.ndarray) -> dict[str, float]:
    """CRPS as the mean of twice the pinball loss over 99 quantiles, error, coverage and width of the 90 % interval."""
    quantiles = numpy.stack([predicted[f"q{round(level * 100):02d}"].to_numpy(float) for level in LEVELS], axis=1)
    beyond = y[:, None] - quantiles
    low, high = quantiles[:, 4], quantiles[:, 94]
    return {
        "crps": float(2 * numpy.maximum(LEVELS * beyond, (LEVELS - 1) * beyond).mean()),
        "error": float(numpy.sqrt(numpy.mean((predicted["mean"].to_numpy(float) - y) ** 2))),
        "coverage": float(numpy.mean((low <= y) & (y <= high))),
        "width": float(numpy.mean(high - low)),
    }


def class_columns(predicted: pandas.DataFrame, split: Split) -> dict[str, float]:
    """Brier score and share of wrong classes."""
    probabilities = numpy.stack([predicted[f"p({name})"].to_numpy(float) for name in split.classes], axis=1)
    own = probabilities[numpy.arange(len(probabilities)), split.y_test]
    brier = numpy.sum(probabilities**2, axis=1) - 2 * own + 1
    wrong = probabilities.argmax(axis=1) != split.y_test
    return {"crps": float(brier.mean()), "error": float(wrong.mean()), "coverage": float("nan"), "width": float("nan")}


def chosen_model(folder: Path) -> str:
    """What the run chose to predict with, in a few words."""
    model = json.loads((folder / "run" / "model.json").read_text())
    return str(model.get("predicts") or model.get("predictive_model") or "")
