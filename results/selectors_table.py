"""How far each selector's β is from the best of a fine grid of converged chains, over several splits of each data set.

python3 results/selectors_table.py FOLDER RUNS: reads RUNS/NAME-SPLIT/results.json (`kelvin run --grid`) and RUNS/NAME-SPLIT.json (`kelvin select --json`),
writes FOLDER/README.md, FOLDER/selectors.csv (a line for each method and split) and FOLDER/grid.csv (a line for each β).

The test LPD of a selector is read off the grid's curve, linearly in log β: all selectors of a split share its chains, so that what they differ by is β and not luck.
"""

import csv
import json
import math
import re
import sys
from bisect import bisect_left
from pathlib import Path

MODELS = {"sm": "standard", "tm": "tempered"}
# Methods that need no chains of their own; those on the grid are read off its curves.
METHODS = ["joint", "map", "map-per-datum", "guo", "evidence", "syring-martin", "wu-martin-sm", "wu-martin-tm", "lyddon-holmes-walker", "holmes-walker", "safe-bayes"]


def scores(row, rows):
    kind = "regression" if "regression" in row[rows] else "classification"
    return {short: row[rows][kind][model]["lpd"] for short, model in MODELS.items()}


def on_curve(curve, beta):
    """Linear in log β between the two neighbours of the grid; at its ends the end."""
    betas = [at for at, _ in curve]
    if beta <= betas[0] or beta >= betas[-1]:
        return curve[0][1] if beta <= betas[0] else curve[-1][1]
    upper = bisect_left(betas, beta)
    (low, at_low), (high, at_high) = curve[upper - 1], curve[upper]
    share = math.log(beta / low) / math.log(high / low)
    return at_low + share * (at_high - at_low)


def read(runs):
    """{data: {split: (curves by rows and model, {method: (β, gradients of rows)}, β̂* as sampled)}}"""
    found = {}
    for path in sorted(Path(runs).glob("*.json")):
        name, split = re.fullmatch(r"(.+)-(\d+)", path.stem).groups()
        folder = Path(runs) / path.stem / "results.json"
        if not folder.exists():
            continue
        run, selected = json.loads(folder.read_text()), json.loads(path.read_text())
        grid = sorted((row for row in run["rows"] if row["method"] == "grid"), key=lambda row: row["beta"])
        curves = {
            rows: {model: [(row["beta"], scores(row, rows)[model]) for row in grid] for model in MODELS} for rows in ("validation", "test")
        }
        chosen = {one["method"]: (one["inverse_temperature"], one["cost"]["row_gradients"]) for one in selected["methods"] if one["method"] in METHODS}
        price = sum(chain["steps"] for chain in run["chains"] if chain["method"] == "grid") * run["problem"]["training_rows"]
        for model in MODELS:
            best = max(curves["validation"][model], key=lambda point: point[1])
            chosen[f"grid-lpd-{model}"] = (best[0], price)
        chosen["β = 1"] = (1.0, 0)
        direct = next(row for row in run["rows"] if row["method"] == "chosen")
        found.setdefault(name, {})[int(split)] = (curves, chosen, direct, grid)
    return found


def mean_and_error(values):
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values)) if len(values) > 1 else math.nan


def shown(values):
    mean, error = mean_and_error(values)
    return f"{mean:+.3f} ± {error:.3f}".replace("-", "−").replace("+0.000", "0.000")


def lost_by(split, method, model):
    """Best test LPD of the grid minus that at the method's β."""
    curves, chosen, *_ = split
    curve = curves["test"][model]
    return max(lpd for _, lpd in curve) - on_curve(curve, chosen[method][0])


def table(splits):
    rows = []
    for method in dict.fromkeys(method for _, chosen, *_ in splits for method in chosen):
        # A method may refuse a split.
        own = [split for split in splits if method in split[1]]
        lost = {model: [lost_by(split, method, model) for split in own] for model in MODELS}
        gain = {model: [lost_by(split, "joint", model) - lost_by(split, method, model) for split in own] for model in MODELS}
        cost = sum(split[1][method][1] / split[1]["joint"][1] for split in own) / len(own)
        cells = [method if method == "β = 1" else f"`{method}`", " ".join(f"{float(f'{beta:.2g}'):g}" for beta in sorted(split[1][method][0] for split in own))]
        cells += [shown(lost[model]) for model in MODELS] + [shown(gain[model]) if method != "joint" else "–" for model in MODELS] + [f"{cost:.2g}"]
        rows.append((mean_and_error(lost["tm"])[0], cells))
    return [cells for _, cells in sorted(rows, key=lambda row: row[0])]


def main(folder, runs):
    found = read(runs)
    text = """# Selectors of β on converged chains

`results/reproduce.sh selectors`. Each split has its own training, validation and test rows; `kelvin run --grid` samples every β of a grid by adaptive BAOAB from random starts,
and `kelvin select` says which β each method chooses. *Lost* is the best test LPD of the grid minus that at the method's β (mean ± standard error over splits, nats a row; the best is taken on the test rows, so
nothing reaches 0). *Better than joint* is what the method gains over joint maximum likelihood on the same split. Cost is in gradients, of the search of `joint`, without the chains at the β that
was chosen; the grid's is its chains. What it shows is said in [../README.md](../README.md#selectors-on-converged-chains).
"""
    header = ["method", "β of the splits", "lost, SM", "lost, TM", "better than joint, SM", "TM", "cost"]
    for name, splits in found.items():
        text += f"\n## {name}: {len(splits)} splits\n\n| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
        text += "".join("| " + " | ".join(cells) + " |\n" for cells in table(list(splits.values())))
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(text)
    with open(folder / "selectors.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["data", "split", "method", "beta", "row_gradients", "test_lpd_sm", "test_lpd_tm", "lost_sm", "lost_tm"])
        for name, splits in found.items():
            for split, one in splits.items():
                for method, (beta, cost) in one[1].items():
                    at = [on_curve(one[0]["test"][model], beta) for model in MODELS]
                    lost = [lost_by(one, method, model) for model in MODELS]
                    out.writerow([name, split, method, f"{beta:.5g}", f"{cost:.0f}"] + [f"{value:.4f}" for value in at + lost])
    with open(folder / "grid.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        known = ["effective_median", "effective_low", "worst_rhat"]
        header = ["data", "split", "beta"] + [f"{rows}_lpd_{model}" for rows in ("validation", "test") for model in MODELS]
        out.writerow(header + [f"monte_carlo_error_{model}" for model in MODELS] + known + ["step_ratio"])
        for name, splits in found.items():
            for split, (_, _, direct, grid) in splits.items():
                for row in grid + [direct]:
                    measured = row["measured"]
                    known_of = measured["convergence"]
                    numbers = [scores(row, rows)[model] for rows in ("validation", "test") for model in MODELS]
                    numbers += [known_of["lpd_error"][model] for model in MODELS.values()] + [known_of[key] for key in known] + [measured.get("step_ratio")]
                    out.writerow([name, split, f"{row['beta']:.5g}"] + ["" if number is None else f"{number:.4g}" for number in numbers])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
