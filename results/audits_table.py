"""The run's chains beside Metropolis-corrected HMC, for runs with `--exact` on several splits of each data set.

python3 results/audits_table.py FOLDER RUN …: writes FOLDER/README.md (differences split by split, and whether they are within the bounds) and FOLDER/audits.csv.
"""

import csv
import json
import math
import sys
from pathlib import Path

MODELS = {"SM": "standard", "TM": "tempered"}
# Of ½dT, as the audit has it, since the zero of U is arbitrary; of an LPD in nats.
ENERGY_SHARE = 0.02
LPD_NATS = 0.02


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


def told(name, difference, error, bound):
    mark = "" if abs(difference) <= max(bound, 2 * error) else " ✗"
    number = f"{100 * difference:+.1f} ± {100 * error:.1f} %" if name == "U" else f"{difference:+.3f} ± {error:.3f}"
    return number.replace("-", "−") + mark


def main(folder, paths):
    rows = []
    for path in paths:
        run = json.loads((Path(path) / "results.json").read_text())
        for row in sorted(run["audit"], key=lambda row: row["inverse_temperature"]):
            rows.append((run["name"], run["sampling"]["seed"], row))
    rows.sort(key=lambda row: (row[0], row[2]["inverse_temperature"], row[1]))
    header = ["data", "β", "split", "U minus HMC, of ½dT", "SM minus HMC", "TM minus HMC", "worst R̂ of predictions", "of HMC", "acceptance"]
    text = """# Audits over several splits

`results/reproduce.sh audits`: the chains of `kelvin run` beside Metropolis-corrected HMC of two million gradients a temperature, on other training rows each. ± is the Monte-Carlo error
of both together; ✗ where a difference is beyond 2 % of ½dT (U) or 0.02 nats (SM, TM) and beyond two of its errors.

"""
    text += "| " + " | ".join(header) + " |\n|" + "---|" * len(header) + "\n"
    for name, seed, row in rows:
        mixing = [row[of]["predictions"]["worst_rhat"] for of in ("sampled", "exact")]
        cells = [name, f"{row['inverse_temperature']:g}", str(seed)]
        cells += [told(what, *found) for what, found in differences(row).items()]
        cells += [f"{rhat:.2f}" for rhat in mixing] + [f"{row['hmc']['acceptance']:.2f}"]
        text += "| " + " | ".join(cells) + " |\n"
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(text)
    with open(folder / "audits.csv", "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(["data", "split", "beta", "of", "u", "u_error", "half_dt", "sm", "sm_error", "tm", "tm_error", "worst_rhat", "hmc_gradients"])
        for name, seed, row in rows:
            for of in ("sampled", "exact"):
                one = row[of]
                numbers = [one["potential_energy"]["value"], one["potential_energy"]["error"], one["thermal_energy"]]
                numbers += [one["lpd"][model][part] for model in MODELS.values() for part in ("value", "error")]
                numbers += [one["predictions"]["worst_rhat"], row["hmc"]["num_gradients"]]
                out.writerow([name, seed, row["inverse_temperature"], of] + [f"{number:.6g}" for number in numbers])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
