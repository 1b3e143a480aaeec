"""Table of CIFAR10 chains with one thing changed at a time, beside the paper's numbers, from the run folders of sweeps.

python3 results/differences_table.py FOLDER RUNS: reads RUNS/{as_specified,…}/{scores,agreement}.csv of those that are there, writes FOLDER/README.md,
and keeps the raw scores of every chain as FOLDER/{…}.csv.
"""

import csv
import shutil
import statistics
import sys
from pathlib import Path

# In the order of the table: what is changed, as `results/reproduce.sh differences` sets it.
VARIANTS = {
    "as_specified": "nothing",
    "norm_epsilon": "batch norm's ε = 1e-3",
    "free_norms": "no prior on norm scales and offsets",
    "training_masses": "masses estimated in training mode",
    "unit_masses": "unit masses",
    "f32": "f32 instead of bf16",
}
PAPER = ["*the paper, four times as long*", "89.1 ± 0.3", "−0.333 ± 0.001", "1.13", "853 – 860"]


def lines_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def number(value, decimals):
    return f"{value:.{decimals}f}".replace("-", "−")


def spread(values, decimals):
    shown = number(statistics.mean(values), decimals)
    return f"{shown} ± {number(statistics.stdev(values), decimals)}" if len(values) > 1 else shown


def cells(run):
    """Accuracy, LPD, split-R̂ at β = 1 and the range of measured β at 1000, of test rows and chains."""
    lines = [line for line in lines_of(run / "scores.csv") if (line["set"], line["method"]) == ("test", "grid")]

    def column(name, beta):
        return [float(line[name]) for line in lines if float(line["beta"]) == beta and line[name]]

    rhat = next((line["split-R̂"] for line in lines_of(run / "agreement.csv") if float(line["β"]) == 1), "–")
    cold = column("measured_beta_cycle_ends", 1000.0)
    measured = f"{number(min(cold), 0)} – {number(max(cold), 0)}" if cold else "–"
    accuracy = [100 * value for value in column("accuracy_sm", 1.0)]
    return [spread(accuracy, 2), spread(column("lpd_sm", 1.0), 4), rhat, measured]


def main(folder, runs):
    folder, runs = Path(folder), Path(runs)
    there = [name for name in VARIANTS if (runs / name / "scores.csv").exists()]
    text = [
        "# CIFAR10: one thing changed at a time\n",
        "`results/reproduce.sh differences`: four chains of a quarter of the epochs at each β, mean ± SD over them, test half. `NAME.csv` has the scores of every chain.\n",
        "| changed | accuracy %, β = 1 | LPD, β = 1 | split-R̂, β = 1 | measured β at 1000 |",
        "|---|---|---|---|---|",
    ]
    for name in there:
        text.append(f"| {' | '.join([VARIANTS[name], *cells(runs / name)])} |")
        shutil.copy(runs / name / "scores.csv", folder / f"{name}.csv")
    text.append(f"| {' | '.join(PAPER)} |")
    (folder / "README.md").write_text("\n".join(text) + "\n", encoding="utf-8")


main(*sys.argv[1:])
