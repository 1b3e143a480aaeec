"""A line for each run folder: what it says of β̂* and β = 1 over its folds, how well its chains know it, and which warnings it raised.

    for seed in 0 1 2 3 4 5 6 7; do kelvin run concrete --seed $seed --quiet --out runs/verdict-concrete-$seed; done
    python3 results/verdicts_table.py runs/verdict-concrete-* > table.md
"""

import json
import sys
from pathlib import Path


def best(models, kind):
    own = [model for model in models if model["what"]["kind"] == kind]
    return max(own, key=lambda model: model["lpd"])


def line(folder):
    found = json.loads((Path(folder) / "results.json").read_text())
    folds = found["cross_validation"]
    chosen = best(folds["models"], "chosen")
    difference = next(d for d in folds["differences"] if d["of"] == chosen["what"])
    cells = [found["name"], found["sampling"]["seed"], f"{found['beta_star']:.3g}", chosen["what"]["label"]]
    cells += [f"{difference['mean']:+.3f}", f"{difference['row_error']:.3f}", f"{difference['monte_carlo_error']:.3f}"]
    cells += [difference["told"].replace("_", " "), f"{best(folds['models'], 'ensemble')['rmse']:.3g}", f"{chosen['rmse']:.3g}"]
    cells += [f"{100 * chosen['coverage']:.1f} %"]
    for method in ["bayes", "chosen"]:
        measured = next(row for row in found["rows"] if row["method"] == method)["measured"]
        known = measured["convergence"]
        cells += [f"{known['effective_median'] or 0:.0f}", f"{known['worst_rhat'] or 0:.2f}", f"{measured['step_ratio']:.2f}"]
    kinds = sorted({warning["warning"].replace("_", " ") for warning in found["warnings"]})
    return cells + [", ".join(kinds) or "none"]


def main():
    header = ["data", "seed", "β̂*", "of", "minus β = 1", "± rows", "± draws", "told", "RMSE ensemble", "RMSE β̂*", "in 90 %"]
    for name in ["β = 1", "β̂*"]:
        header += [f"effective at {name}", "worst R̂", "h√λmax"]
    rows = [header + ["warnings"]] + [line(folder) for folder in sys.argv[1:]]
    for number, row in enumerate(rows):
        print("| " + " | ".join(str(cell) for cell in row) + " |")
        if number == 0:
            print("|" + "---|" * len(row))


main()
