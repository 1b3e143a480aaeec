"""Tables of refine-sm and refine-tm beside β̂* and the grid, from the JSON of `kelvin select` on several splits.

python3 results/refine_table.py FOLDER runs/refine/*.json: writes FOLDER/README.md and FOLDER/refine.csv.
"""

import csv
import json
import math
import re
import sys
from pathlib import Path

MODELS = {"sm": "standard", "tm": "tempered"}


def read(paths):
    """[(data, split, {method: β, cost, {set: {model: LPD}}})]"""
    found = []
    for path in sorted(paths):
        split = int(re.fullmatch(r".*-(\d+)", Path(path).stem)[1])
        result = json.loads(Path(path).read_text())
        methods = {}
        for method in result["methods"]:
            lpd = {
                rows: {short: method[rows]["regression"][model]["lpd"] for short, model in MODELS.items()}
                for rows in ("validation", "test")
            }
            methods[method["method"]] = (method["inverse_temperature"], method["cost"]["chains"], lpd)
        found.append((result["name"], split, result["starts"], methods))
    return found


def mean_and_error(values):
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    return mean, math.sqrt(squares / (len(values) - 1) / len(values)) if len(values) > 1 else math.nan


def shown(values, decimals=3):
    mean, error = mean_and_error(values)
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}".replace("-", "−")


def betas(values):
    return " ".join(f"{float(f'{value:.2g}'):g}" for value in values)


def tables(found):
    lines, sizes = [], {}
    for data in dict.fromkeys(name for name, *_ in found):
        own = [entry for entry in found if entry[0] == data]
        sizes[data] = (len(own), own[0][2])
        for model in MODELS:
            at = [(m["joint"], m[f"refine-{model}"], m[f"grid-lpd-{model}"]) for *_, m in own]
            cells = [f"{data} {model.upper()}"]
            cells += [betas([entry[which][0] for entry in at]) for which in range(3)]
            for rows in ("validation", "test"):
                lpd = [[entry[which][2][rows][model] for entry in at] for which in range(3)]
                gain = [refined - start for start, refined, _ in zip(*lpd)]
                gap = [grid - start for start, _, grid in zip(*lpd)]
                (mean_gap, gap_error), (mean_gain, _) = mean_and_error(gap), mean_and_error(gain)
                decimals = 3 if abs(mean_gap) > 0.002 else 5
                is_gap = mean_gap > gap_error
                share = f"{100 * mean_gain / mean_gap:.0f} %".replace("-", "−") if is_gap else "no gap"
                cells += [shown(lpd[0], 3), shown(gain, decimals), shown(gap, decimals), share]
            cells += [f"{mean_and_error([entry[which][1] for entry in at])[0]:.3g}" for which in range(3)]
            lines.append(cells)
    return lines, sizes


def main(folder, paths):
    found = read(paths)
    lines, sizes = tables(found)
    of_rows = ["at β̂\\*", "refine − β̂\\*", "grid − β̂\\*", "closed"]
    choice = ["", "β̂\\*", "refine", "grid", "cost: β̂\\*", "refine", "grid"]

    def markdown(header, rows):
        out = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
        return out + "".join("| " + " | ".join(row) + " |\n" for row in rows)

    splits = ", ".join(f"{name} {count} from {starts} start{'s' * (starts > 1)}" for name, (count, starts) in sizes.items())
    text = f"""# Refining β̂\\* by validation LPD

`results/reproduce.sh refine`: `kelvin select` on several splits ({splits}).
± is the standard error over splits. LPD is that of chains which no method has chosen by; differences are taken split by split.
"Closed" is the mean gain of refining over the mean gap between β̂\\* and the grid, where that gap is more than its standard error. The
grid's β is interpolated between its points. What this shows is said in [../README.md](../README.md#refining-β).

## Chosen β, split by split, and cost in chains of full length
{markdown(choice, [row[:4] + row[12:] for row in lines])}
## Validation LPD
{markdown([""] + of_rows, [[row[0]] + row[4:8] for row in lines])}
## Test LPD
{markdown([""] + of_rows, [[row[0]] + row[8:12] for row in lines])}"""
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / "README.md").write_text(text)
    with open(Path(folder) / "refine.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["data", "seed", "starts", "method", "beta", "cost_chains"] + [f"{r}_lpd_{m}" for r in ("validation", "test") for m in MODELS])
        for data, split, starts, methods in found:
            for method, (beta, cost, lpd) in methods.items():
                out.writerow([data, split, starts, method, beta, cost] + [lpd[r][m] for r in ("validation", "test") for m in MODELS])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
