"""Tables of the results pages, from the raw scores that are kept here: every chain's, on every set of rows.

python3 results/tables.py: writes each table that follows a line `<!-- results/tables.py: NAME -->` in results/README.md and docs/src/results.md again.
python3 results/tables.py --check: changes nothing and fails where a table is not what the files say; summary.csv of each folder must follow from its
scores.csv, and the cells of beside_the_paper.md from the summaries.
"""

import csv
import math
import re
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).parent
PAGES = [HERE / "README.md", HERE.parent / "docs/src/results.md"]
REPETITIONS = 5
SWEEPS = ["concrete", "energy", "naval", "mnist", "cifar10", "cifar10-da", "stripes", "mnist-small"]


def lines_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


class Sweep:
    """The scores of a sweep, chain by chain: its folder's, or those of its repetitions once each has been run alone."""

    def __init__(self, name, alone=False):
        pieces = sorted(HERE.glob(f"{name}/repetition-*/scores.csv"))
        whole = pieces if len(pieces) == REPETITIONS and not alone else [HERE / name / "scores.csv"]
        self.lines = [line for path in whole for line in lines_of(path)]
        self.point = "accuracy_sm" if "accuracy_sm" in self.lines[0] else "mse"
        self.seconds = [float(line["seconds"]) for line in lines_of(HERE / name / "wall_clock.csv")]

    def column(self, method, column, rows="test", beta=None):
        """One number for each repetition; `rows` "all" is the mean over validation and test rows, which are as many."""
        if rows == "all":
            halves = zip(self.column(method, column, "validation", beta), self.column(method, column, "test", beta))
            return [(first + second) / 2 for first, second in halves]
        own = [line for line in self.lines if line["method"] == method and line["set"] == rows]
        return [float(line[column]) for line in own if beta is None or float(line["beta"]) == beta]

    def at_one(self, column, rows="test"):
        return self.column("grid", column, rows, 1.0) or self.column("bayes", column, rows, 1.0)

    def choice(self, column):
        """The β of the grid with the best validation score, for each repetition; of equals the largest, as kelvin has it."""
        sign = -1 if column == "mse" else 1
        best = {}
        for line in self.lines:
            if (line["set"], line["method"]) == ("validation", "grid"):
                candidate = (sign * float(line[column]), float(line["beta"]))
                best[line["repetition"]] = max(candidate, best.get(line["repetition"], candidate))
        return {repetition: beta for repetition, (_, beta) in best.items()}

    def grid(self, column, rows="test"):
        chosen = self.choice(column)
        halves = ["validation", "test"] if rows == "all" else [rows]

        def score(repetition, half):
            own = [line for line in self.lines if (line["repetition"], line["set"], line["method"]) == (repetition, half, "grid")]
            return next(float(line[column]) for line in own if float(line["beta"]) == chosen[repetition])

        return [statistics.mean(score(repetition, half) for half in halves) for repetition in chosen]

    def betas(self):
        return sorted(self.column("sgd", "beta"))

    def of_method(self, method, score):
        """A score as tables show it, by the names of summary.csv."""
        column = self.point if score == "point_metric" else score
        values = {"sgd": lambda: self.column("sgd", column), "beta_1": lambda: self.at_one(column),
                  "beta_chosen": lambda: self.column("chosen", column), "grid": lambda: self.grid(column)}[method]()
        if score != "point_metric":
            return values
        return thousandths(values) if self.point == "mse" else percent(values)

    def measured(self, beta):
        return self.column("grid", "measured_beta_cycle_ends", beta=beta)[0]


def number(value, decimals):
    return f"{value:.{decimals}f}".replace("-", "−")


def spread(values, decimals):
    """Mean ± SD; of one value that value alone."""
    shown = number(statistics.mean(values), decimals)
    return f"{shown} ± {number(statistics.stdev(values), decimals)}" if len(values) > 1 else shown


def ranges(betas, decimals):
    """Clusters of β: "3.1, 28.7 – 29.5"."""
    clusters = []
    for beta in sorted(betas):
        if clusters and beta < 1.5 * clusters[-1][-1]:
            clusters[-1].append(beta)
        else:
            clusters.append([beta])
    ends = [sorted({number(own[0], decimals), number(own[-1], decimals)}, key=float) for own in clusters]
    return ", ".join(" – ".join(own) for own in ends)


def percent(values):
    return [100 * value for value in values]


def thousandths(values):
    return [1000 * value for value in values]


def tables():
    """Each table by its name: a header, then rows."""
    sweep = {name: Sweep(name) for name in SWEEPS}
    uci = [sweep["concrete"], sweep["energy"], sweep["naval"]]

    def beside(label, values, decimals, paper):
        own = [spread(values(of), places) for of, places in zip(uci, decimals)]
        return [label, *(cell for pair in zip(own, paper) for cell in pair)]

    def seconds(of, places):
        both, grid = of.seconds[2], of.seconds[3]
        return f"{number(both, places[0])} / {number(grid, places[1])}"

    papers = [["0.08 – 0.17", "4.1 – 7.9", "27 – 48"], ["22 / 106 (TPU core)", "22 / 104", "131 / 758"]]
    betas = [ranges(of.betas(), places) for of, places in zip(uci, [2, 1, 0])]
    times = [seconds(of, places) for of, places in zip(uci, [(1, 1), (1, 1), (1, 0)])]
    found = {
        "uci": [
            ["", "Concrete", "paper", "Energy", "paper", "Naval", "paper"],
            ["β̂\\* of the five", *(cell for pair in zip(betas, papers[0]) for cell in pair)],
            beside("LPD SM, SGD", lambda of: of.column("sgd", "lpd_sm"), [2, 3, 3], ["−3.90 ± 1.00", "1.299 ± 0.011", "1.376 ± 0.003"]),
            beside("LPD SM, β = 1", lambda of: of.at_one("lpd_sm"), [2, 3, 4], ["−0.51 ± 0.26", "1.221 ± 0.005", "1.376 ± 0.000"]),
            beside("LPD SM, β̂\\*", lambda of: of.column("chosen", "lpd_sm"), [2, 3, 4], ["−0.19 ± 0.05", "1.287 ± 0.009", "1.382 ± 0.000"]),
            beside("LPD TM, SGD", lambda of: of.column("sgd", "lpd_tm"), [2, 2, 2], ["−0.32 ± 0.08", "1.75 ± 0.05", "2.95 ± 0.16"]),
            beside("LPD TM, β̂\\*", lambda of: of.column("chosen", "lpd_tm"), [2, 2, 2], ["−0.13 ± 0.07", "1.78 ± 0.06", "3.16 ± 0.11"]),
            beside("LPD TM, grid's choice", lambda of: of.grid("lpd_tm"), [2, 2, 2], ["0.02 ± 0.04", "1.85 ± 0.02", "3.71 ± 0.19"]),
            beside("MSE ×10³, β = 1", lambda of: thousandths(of.at_one("mse")), [0, 2, 3], ["75 ± 7", "2.1 ± 0.1", "0.045 ± 0.005"]),
            beside("MSE ×10³, β̂\\*", lambda of: thousandths(of.column("chosen", "mse")), [0, 2, 3], ["82 ± 4", "1.6 ± 0.1", "0.032 ± 0.009"]),
            ["seconds, search + chain / grid, one thread", *(cell for pair in zip(times, papers[1]) for cell in pair)],
        ]
    }

    def in_short(of, rows, last, places, paper):
        decimals = [2, 4, 4] if len(of.at_one("lpd_sm")) > 1 else [1, 3, 3]
        header = ["", "β̂\\* of the five", "accuracy %, β = 1", "β̂\\*", "LPD SM, β = 1", "β̂\\*", last[0], "minutes, search / chain / grid"]
        times = [number(value / 60, decimal) for value, decimal in zip([of.seconds[0], of.seconds[1], of.seconds[3]], places)]
        own = [
            ranges(of.betas(), 1),
            spread(percent(of.at_one("accuracy_sm", rows)), decimals[0]),
            spread(percent(of.column("chosen", "accuracy_sm", rows)), decimals[0]),
            spread(of.at_one("lpd_sm", rows), decimals[1]),
            spread(of.column("chosen", "lpd_sm", rows), decimals[2]),
            last[1],
            " / ".join(times),
        ]
        return [header, ["kelvin", *own], ["paper", *paper]]

    mnist, cifar, augmented = sweep["mnist"], sweep["cifar10"], sweep["cifar10-da"]
    at_chosen = spread(mnist.column("chosen", "lpd_tm", "all"), 4)
    found["mnist-short"] = in_short(mnist, "all", ["LPD TM, β̂\\*", at_chosen], [3, 2, 1],
        ["2.0 – 4.1", "99.28 ± 0.04", "99.38 ± 0.03", "−0.021", "−0.018", "−0.017", "1.9 / 18.8 / 170 (TPU core)"])
    at_chosen = spread(cifar.column("chosen", "lpd_tm"), 2)
    found["cifar10-short"] = in_short(cifar, "test", ["LPD TM, β̂\\*", at_chosen], [2, 1, 0],
        ["3.4 – 3.5, 20 – 21", "89.1 ± 0.3", "89.9 ± 0.2", "−0.333 ± 0.001", "−0.317 ± 0.006", "−0.72 ± 0.44", "28 / 261 / 2344 (TPU core)"])
    of_grid = f"{spread(augmented.grid('lpd_tm'), 3)} (β = {grid_betas(augmented, 'lpd_tm')})"
    found["cifar10-da-short"] = in_short(augmented, "test", ["LPD TM, grid's choice", of_grid], [2, 1, 0],
        ["7.3, 14", "88.4 ± 0.2", "92.8 ± 0.2", "−0.343 ± 0.002", "−0.232 ± 0.007", "−0.279 ± 0.007", "35 / 327 / 2944 (TPU core)"])

    def on_all(label, of, tm_decimals, sm_decimals, paper):
        return [label, spread(percent(of("accuracy_sm")), 2), spread(of("lpd_sm"), sm_decimals), spread(of("lpd_tm"), tm_decimals), paper]

    found["mnist"] = [
        ["all 10,000 images", "accuracy %", "LPD SM", "LPD TM", "the paper's test half: accuracy %, SM, TM"],
        on_all("SGD", lambda column: mnist.column("sgd", column, "all"), 4, 3, "99.05 ± 0.11, −0.076 ± 0.032, −0.030 ± 0.003"),
        on_all("β = 1", lambda column: mnist.at_one(column, "all"), 4, 4, "99.28 ± 0.04, −0.021, −0.021"),
        on_all("β̂\\*", lambda column: mnist.column("chosen", column, "all"), 4, 4, "99.38 ± 0.03, −0.018, −0.017"),
        on_all("β = 3", lambda column: mnist.column("grid", column, "all", 3.0), 4, 4, "grid: 99.32 ± 0.05, −0.018, −0.017"),
    ]
    found["cifar10"] = of_one_repetition(cifar, {
        "β̂*": "3.4, 3.5, 3.5, 20, 21 (check of the recipe: 28.9)",
        "accuracy": ["84.9 ± 3.4", "89.1 ± 0.3", "89.9 ± 0.2", "89.9 ± 0.2"],
        "sm": ["−1.14 ± 0.31 (check: −1.61)", "−0.333 ± 0.001", "−0.317 ± 0.006", "−0.319 ± 0.003"],
        "tm": ["−0.55 ± 0.04 (check: −0.63)", "−0.72 ± 0.44", "−0.333 ± 0.001"],
        "measured": "9.96, 98.2, 856",
    })
    found["cifar10-da"] = of_one_repetition(augmented, {
        "β̂*": "7.3, 14, 14, 14, 14 (check of the recipe: 8.1)",
        "accuracy": ["91.9 ± 0.3 (check: 89.8)", "88.4 ± 0.2", "92.8 ± 0.2", "92.8 ± 0.4"],
        "sm": ["−1.234 ± 0.176 (check: −1.06)", "−0.343 ± 0.002", "−0.232 ± 0.007", "−0.229 ± 0.004"],
        "tm": ["−0.284 ± 0.004 (check: −0.33)", "−0.81 ± 0.22", "−0.279 ± 0.007"],
        "measured": "9.93, 96.8, 807",
    })
    found["ten-splits"] = ten_splits()
    found["schedules"] = schedules()
    found["refine"] = refine()
    return found


def grid_betas(of, column):
    return ", ".join(f"{beta:g}" for beta in sorted(set(of.choice(column).values())))


def of_one_repetition(of, paper):
    """CIFAR10's table: five searches, chains of the repetitions that were sampled."""
    rows = [["", "kelvin, test half", "all 10,000 images", "paper, test half"]]
    rows.append(["β̂\\* of the five", ", ".join(number(beta, 1) for beta in of.betas()), "", paper["β̂*"]])
    chosen = ", ".join(number(beta, 1) for beta in of.column("chosen", "beta"))

    def lines(name, column, show, paper, methods):
        for (label, values), of_paper in zip(methods, paper):
            prefix = f"{name}, " if label == "SGD" else ""
            rows.append([prefix + label, show(values("test"), label), show(values("all"), label), of_paper])

    def methods(column):
        return [
            ("SGD", lambda rows: of.column("sgd", column, rows)),
            ("β = 1", lambda rows: of.at_one(column, rows)),
            (f"β̂\\* = {chosen}", lambda rows: of.column("chosen", column, rows)),
            (f"grid (β = {grid_betas(of, column)})", lambda rows: of.grid(column, rows)),
        ]

    lines("accuracy %", "accuracy_sm", lambda values, _: spread(percent(values), 1), paper["accuracy"], methods("accuracy_sm"))
    lines("LPD SM", "lpd_sm", lambda values, label: spread(values, 2 if label == "SGD" else 3), paper["sm"], methods("lpd_sm"))
    tempered = [one for one in methods("lpd_tm") if one[0] != "β = 1"]
    show = lambda values, label: spread(values, 2 if label.startswith("β̂") else 3)
    lines("LPD TM", "lpd_tm", show, paper["tm"], tempered)
    measured = ", ".join(number(of.measured(beta), places) for beta, places in [(10.0, 2), (100.0, 1), (1000.0, 0)])
    rows.append(["measured β at 10, 100, 1000", measured, "", paper["measured"]])
    return rows


def ten_splits():
    lines = lines_of(HERE / "energy/ten_splits.csv")
    rows = [["", "mean ± SD over splits", "range", "the check's split"]]
    for label, column, check in [
        ("LPD SM, SGD", "sgd_sm", "1.253"), ("LPD TM, SGD", "sgd_tm", "1.523"), ("LPD SM, β = 1", "sm_beta1", "1.213"),
        ("LPD SM, β̂\\*", "sm_chosen", "1.288"), ("LPD TM, β̂\\*", "tm_chosen", "1.78"), ("LPD TM, β = 10", "tm_10", "1.915"),
    ]:
        values = [float(line[column]) for line in lines]
        rows.append([label, spread(values, 3), f"{number(min(values), 3)} – {number(max(values), 3)}", check])
    return rows


def schedules():
    lines = lines_of(HERE / "schedules/schedules.csv")
    kinds, heads = ["cosine", "constant"], ["β̂\\* of the five", "LPD TM, SGD", "LPD TM, β̂\\*"]
    rows = [["", *(cell for head in heads for cell in (f"{head}: cosine", "constant", "paper"))]]
    for name, places, paper in [
        ("naval", 0, ["27 – 48", "2.95 ± 0.16", "3.16 ± 0.11"]),
        ("energy", 1, ["4.1 – 7.9", "1.75 ± 0.05", "1.78 ± 0.06"]),
        ("concrete", 2, ["0.08 – 0.17", "−0.32 ± 0.08", "−0.13 ± 0.07"]),
    ]:
        def column(kind, name_of_column):
            return [float(line[name_of_column]) for line in lines if (line["data"], line["schedule"]) == (name, kind)]

        def range_of(kind):
            betas = column(kind, "beta_star")
            return f"{number(min(betas), places)} – {number(max(betas), places)}"

        cells = [range_of(kind) for kind in kinds] + [paper[0]]
        for at, score in enumerate(["sgd_lpd_tm", "chosen_lpd_tm"], 1):
            cells += [spread(column(kind, score), 2) for kind in kinds] + [paper[at]]
        rows.append([name.capitalize(), *cells])
    return rows


def refine():
    """How much of the gap between β̂* and the grid is closed, mean and standard error over splits."""
    lines = lines_of(HERE / "refine/refine.csv")
    rows = [["", "gap, validation", "closed", "gap, test", "closed", "cost of β̂\\*, refine, grid"]]
    for name, model in [("concrete", "tm"), ("energy", "sm"), ("naval", "tm"), ("concrete", "sm"), ("energy", "tm"), ("naval", "sm")]:
        def column(method, column_name):
            return [float(line[column_name]) for line in lines if (line["data"], line["method"]) == (name, method)]

        methods = ["joint", f"refine-{model}", f"grid-lpd-{model}"]
        cells = []
        for half in ["validation", "test"]:
            start, refined, grid = (column(method, f"{half}_lpd_{model}") for method in methods)
            gaps, gains = [b - a for a, b in zip(start, grid)], [b - a for a, b in zip(start, refined)]
            gap, error = statistics.mean(gaps), statistics.stdev(gaps) / math.sqrt(len(gaps))
            decimals = 4 if abs(gap) < 0.001 else 3
            share = f"{number(100 * statistics.mean(gains) / gap, 0)} %" if gap > max(error, 0.001) else "no gap"
            cells += [f"{number(gap, decimals)} ± {number(error, decimals)}", share]
        costs = [statistics.mean(column(method, "cost_chains")) for method in methods]
        rows.append([f"{name.capitalize()} {model.upper()}", *cells, ", ".join(f"{cost:.3g}" for cost in costs)])
    return rows


def markdown(rows):
    header, *lines = rows
    text = [f"| {' | '.join(header)} |".replace("|  |", "| |"), "|" + "---|" * len(header)]
    return "\n".join([*text, *(f"| {' | '.join(line)} |".replace("|  |", "| |") for line in lines)])


def replaced(text, found):
    """The page with its tables as the files say, and which of them were named."""
    named = []

    def table(match):
        named.append(match[1])
        if match[1] not in found:
            raise SystemExit(f"there is no table `{match[1]}`\n  tables: {', '.join(found)}")
        return f"{match[0].splitlines()[0]}\n{markdown(found[match[1]])}\n"

    return re.sub(r"<!-- results/tables\.py: ([\w-]+) -->\n(?:\|.*\n)*", table, text), named


def as_kelvin_shows(values):
    """Mean ± SD with two digits of the spread; of one value four digits."""
    mean, sd = statistics.mean(values), statistics.stdev(values) if len(values) > 1 else 0
    scale, digits = (sd, 1) if sd > 0 else (max(abs(mean), 1e-3), 3)
    return spread(values, min(max(digits - math.floor(math.log10(scale)), 0), 6))


def summary_differences(name):
    """summary.csv beside mean, SD and SE of scores.csv."""
    of = Sweep(name, alone=True)
    for line in lines_of(HERE / name / "summary.csv"):
        values = of.of_method(line["method"], line["score"])
        sd = statistics.stdev(values) if len(values) > 1 else None
        wanted = {"mean": statistics.mean(values), "sd": sd, "se": sd and sd / math.sqrt(len(values)), "repetitions": len(values)}
        for key, value in wanted.items():
            stored = float(line[key]) if line[key] else None
            if (stored is None) != (value is None) or value is not None and not math.isclose(stored, value, rel_tol=1e-9, abs_tol=1e-12):
                yield f"{name}/summary.csv: {key} of {line['method']} {line['score']} is {stored}, and scores.csv gives {value}"


def beside_the_paper(text):
    """The page with kelvin's cells of scores as the files say."""
    folders = {"Concrete": "concrete", "Energy": "energy", "Naval": "naval", "MNIST": "mnist", "CIFAR10": "cifar10", "CIFAR10 (DA)": "cifar10-da"}
    methods = {"SGD": "sgd", "β = 1": "beta_1", "β = β̂\\*": "beta_chosen", "grid": "grid"}
    sweeps = {data: Sweep(name) for data, name in folders.items()}
    lines, header, num_cells = [], [], 0
    for line in text.splitlines():
        cells = line.strip("|").split("|")
        bare = [cell.strip().replace("**", "") for cell in cells]
        if not line.startswith("|"):
            header = []
        elif not header:
            header = bare
        elif "method" in header and bare[header.index("method")] in methods:
            method = methods[bare[header.index("method")]]
            score = {"SM-PD": "lpd_sm", "TM-PD": "lpd_tm"}.get(bare[0], "point_metric")
            for at, name in enumerate(header):
                data, *metric = name.split(", ")
                if data in folders and bool(metric) == (score == "point_metric"):
                    wanted = as_kelvin_shows(sweeps[data].of_method(method, score))
                    num_cells += 1
                    if bare[at] != wanted:
                        shown = f"**{wanted}**" if "**" in cells[at] else wanted
                        cells[at] = f" {shown} ".rjust(len(cells[at]))
            line = f"|{'|'.join(cells)}|"
        lines.append(line)
    if num_cells < 36:
        raise SystemExit(f"beside_the_paper.md: only {num_cells} cells of scores were recognised: has its layout changed?")
    return "\n".join(lines) + "\n"


def main(check):
    found, named, differences = tables(), [], []
    for page in [*PAGES, HERE / "beside_the_paper.md"]:
        text = page.read_text(encoding="utf-8")
        if page in PAGES:
            now, names = replaced(text, found)
            named += names
        else:
            now = beside_the_paper(text)
        if not check:
            page.write_text(now, encoding="utf-8")
        for old, new in zip(text.splitlines(), now.splitlines()):
            if old != new:
                differences.append(f"{page.name}: {old}\n    the files say: {new}")
        if text.count("\n") != now.count("\n"):
            differences.append(f"{page.name}: a table has another number of lines")
    differences += [f"no page has the table `{name}`" for name in found if name not in named]
    for name in SWEEPS:
        differences += summary_differences(name)
    if check and differences:
        raise SystemExit("tables and files differ:\n  " + "\n  ".join(differences))
    print(f"{len(named)} tables, {len(SWEEPS)} summaries and beside_the_paper.md " + ("agree with the files" if check else "were looked at"))
    for difference in differences:
        print("  " + difference)


main("--check" in sys.argv[1:])
