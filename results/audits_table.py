"""Chains as `kelvin run` samples them beside Metropolis-corrected HMC and beside the paper's chains, on several splits of each data set.

python3 results/audits_table.py FOLDER FILE …: reads the lines of JSON that the bench `audits` prints, writes FOLDER/README.md (what is within the bounds, then split by split) and
FOLDER/audits.csv.
"""

import csv
import json
import math
import statistics
import sys
from pathlib import Path

MODELS = {"SM": "standard", "TM": "tempered"}
# Of ½dT, as the audit has it, since the zero of U is arbitrary; of an LPD in nats.
ENERGY_SHARE = 0.02
LPD_NATS = 0.02
RHAT = 1.05


def differences(row):
    """{what: (difference, its error, bound)}"""
    ours, exact = row["sampled"], row["exact"]
    thermal = exact["thermal_energy"]

    def between(a, b, scale):
        return (a["value"] - b["value"]) / scale, math.hypot(a["error"], b["error"]) / scale

    found = {"U": (*between(ours["potential_energy"], exact["potential_energy"], thermal), ENERGY_SHARE)}
    for name, model in MODELS.items():
        found[name] = (*between(ours["lpd"][model], exact["lpd"][model], 1.0), LPD_NATS)
    return found


def is_within(difference, error, bound):
    return abs(difference) <= max(bound, 2 * error)


def told(name, difference, error, bound):
    mark = "" if is_within(difference, error, bound) else " ✗"
    number = f"{100 * difference:+.1f} ± {100 * error:.1f} %" if name == "U" else f"{difference:+.3f} ± {error:.3f}"
    return number.replace("-", "−") + mark


def effective(sampled, steps):
    """Effective predictions of the median row for 1000 of these steps."""
    mixing = sampled["estimates"]["predictions"]
    return 1000 * mixing["median_ess"] / sampled[steps] if mixing else math.nan


def gain(line, steps):
    return effective(line["run"], steps) / effective(line["paper"], steps)


def summary(lines):
    header = ["data", "β", "splits", "U within 2 %", "SM within", "TM within", "mean U minus HMC", "worst R̂: largest", "below 1.05", "effective predictions of the paper's: after burn-in", "of the whole run"]
    text = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    groups = {}
    for line in lines:
        groups.setdefault((line["data"], line["beta"]), []).append(line)
    for (data, beta), own in groups.items():
        found = [differences(line["audit"]) for line in own]
        inside = [f"{sum(is_within(*one[what]) for one in found)} of {len(own)}" for what in ("U", *MODELS)]
        bias = [100 * one["U"][0] for one in found]
        error = statistics.stdev(bias) / math.sqrt(len(bias)) if len(bias) > 1 else math.nan
        rhats = [line["audit"]["sampled"]["predictions"]["worst_rhat"] for line in own]
        gains = [statistics.median(gain(line, steps) for line in own) for steps in ("after_burn_in", "steps")]
        cells = [data, f"{beta:g}", str(len(own)), *inside, f"{statistics.mean(bias):+.1f} ± {error:.1f} %".replace("-", "−"), f"{max(rhats):.2f}"]
        cells += [f"{sum(rhat < RHAT for rhat in rhats)} of {len(own)}"] + [f"{number:.1f} ×" for number in gains]
        text += "| " + " | ".join(cells) + " |\n"
    return text


def by_split(lines):
    header = ["data", "β", "split", "U minus HMC, of ½dT", "SM minus HMC", "TM minus HMC", "worst R̂ of predictions", "of HMC", "acceptance", "1000 steps, all chains", "effective, 1000 steps", "of the paper's"]
    text = "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    for line in lines:
        row = line["audit"]
        mixing = [row[of]["predictions"]["worst_rhat"] for of in ("sampled", "exact")]
        cells = [line["data"], f"{line['beta']:g}", str(line["seed"])]
        cells += [told(what, *found) for what, found in differences(row).items()]
        cells += [f"{rhat:.2f}" for rhat in mixing] + [f"{row['hmc']['acceptance']:.2f}", f"{line['run']['steps'] / 1000:.0f}"]
        cells += [f"{effective(line[of], 'after_burn_in'):.2f}" for of in ("run", "paper")]
        text += "| " + " | ".join(cells) + " |\n"
    return text


def main(folder, paths):
    lines = [json.loads(line) for path in paths for line in Path(path).read_text().splitlines() if line.startswith("{")]
    lines = sorted((line for line in lines if "audit" in line), key=lambda line: (line["data"], line["beta"], line["seed"]))
    gradients = max(line["audit"]["hmc"]["num_gradients"] for line in lines)
    text = f"""# Audits over several splits

`results/reproduce.sh audits`: chains as `kelvin run` samples them, with its targets and its longest length, beside Metropolis-corrected HMC of about {gradients / 1e6:.1f} million gradients a temperature and beside
the chains of the preset (`--sampler paper`), on other training rows each. ± is the Monte-Carlo error of both together, in the summary the standard error over splits; ✗ where a difference is beyond 2 % of ½dT (U) or
0.02 nats (SM, TM) and beyond two of its errors. Effective predictions are those of the median test row, for as many steps, so that a step costs the same gradient; in the summary the median over splits of how many times the paper's they are. What it shows is said
in [../README.md](../README.md#audits).

"""
    text += summary(lines) + "\n## Split by split\n\n" + by_split(lines)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(text)
    with open(folder / "audits.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["data", "split", "beta", "of", "u", "u_error", "half_dt", "sm", "sm_error", "tm", "tm_error", "worst_rhat", "median_ess", "low_ess", "steps", "after_burn_in"])
        for line in lines:
            row = line["audit"]
            lengths = {"sampled": [line["run"]["steps"], line["run"]["after_burn_in"]], "exact": [row["hmc"]["num_gradients"]] * 2, "paper": [line["paper"]["steps"], line["paper"]["after_burn_in"]]}
            for of, one in (("sampled", row["sampled"]), ("exact", row["exact"]), ("paper", line["paper"]["estimates"])):
                numbers = [one["potential_energy"]["value"], one["potential_energy"]["error"], one["thermal_energy"]]
                numbers += [one["lpd"][model][part] for model in MODELS.values() for part in ("value", "error")]
                numbers += [one["predictions"][part] for part in ("worst_rhat", "median_ess", "low_ess")] + lengths[of]
                out.writerow([line["data"], line["seed"], line["beta"], of] + [f"{number:.6g}" for number in numbers])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
