"""Tables of searches with the cosine and the constant rate beside the paper's numbers, from the run folders of sweeps.

python3 results/schedule_table.py FOLDER RUNS: reads RUNS/{concrete,energy,naval}-{cosine,constant}/results.json, writes
FOLDER/README.md and FOLDER/schedules.csv (a line for each repetition).
"""

import csv
import json
import statistics
import sys
from pathlib import Path

SCHEDULES = ("cosine", "constant")
# The paper's tables: β̂* of the five (kinetic), then mean ± SD as printed.
PAPER = {
    "concrete": (".16 .17 .11 .08 .10", "106 ± 20", "−3.904 ± 1.000", "−0.319 ± 0.076", "−0.186 ± 0.049", "−0.130 ± 0.069"),
    "energy": ("7.4 4.9 7.9 4.1 4.6", "1.7 ± 0.2", "1.299 ± 0.011", "1.75 ± 0.054", "1.287 ± 0.009", "1.78 ± 0.063"),
    "naval": ("48 44 33 43 27", "0.149 ± 0.063", "1.376 ± 0.003", "2.95 ± 0.162", "1.382 ± 0.000", "3.16 ± 0.106"),
}
COLUMNS = ["data", "schedule", "repetition", "beta_star", "best_step", "sgd_mse", "sgd_lpd_sm", "sgd_lpd_tm", "chosen_lpd_sm", "chosen_lpd_tm"]


def read(path, data, schedule):
    """A line for each repetition, as COLUMNS has it."""
    found = json.loads((path / "results.json").read_text())
    lines = []
    for search in found["searches"]:
        repetition, best = search["repetition"], search["path"][search["best"]]
        rows = {row["method"]: row["test"]["regression"] for row in found["rows"] if row["repetition"] == repetition}
        lpd = lambda method, model: rows[method][model]["lpd"] if method in rows else None
        lines.append([
            data, schedule, repetition + 1, best["beta"], best["step"], rows["sgd"]["standard"]["mse"],
            lpd("sgd", "standard"), lpd("sgd", "tempered"), lpd("chosen", "standard"), lpd("chosen", "tempered"),
        ])
    return lines


def shown(values, decimals):
    values = [value for value in values if value is not None]
    spread = f" ± {statistics.stdev(values):.{decimals}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{decimals}f}{spread}".replace("-", "−")


def main(folder, runs):
    lines = []
    text = ["# The rate of the search: cosine and constant\n"]
    text.append("`results/reproduce.sh schedules`; what is shown is said in [../README.md](../README.md#the-rate-of-the-search).\n")
    text.append("Mean ± SD over repetitions, test rows.\n")
    text.append("| | schedule | β̂\\* of each | MSE ×10³, SGD | LPD SM, SGD | LPD TM, SGD | LPD SM, β̂\\* | LPD TM, β̂\\* |")
    text.append("|---|---|---|---|---|---|---|---|")
    for data, paper in PAPER.items():
        for schedule in SCHEDULES:
            own = read(Path(runs) / f"{data}-{schedule}", data, schedule)
            lines += own
            column = lambda name: [line[COLUMNS.index(name)] for line in own]
            betas = " ".join(f"{beta:.2g}" for beta in column("beta_star"))
            decimals = 4 if data == "naval" else 3
            mse = shown([1e3 * value for value in column("sgd_mse")], {"concrete": 0, "energy": 2, "naval": 3}[data])
            scores = [shown(column(name), decimals if name.endswith("sm") else 3) for name in COLUMNS[6:]]
            text.append(f"| {data} | {schedule} | {betas} | {mse} | {' | '.join(scores)} |")
        text.append(f"| | *paper* | {' | '.join(paper)} |")
    Path(folder, "README.md").write_text("\n".join(text) + "\n")
    with open(Path(folder, "schedules.csv"), "w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *lines])


main(*sys.argv[1:])
