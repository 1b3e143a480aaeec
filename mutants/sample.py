#!/usr/bin/env python3
"""Draws mutants of the library at random and says how many of them its tests kill.

    mutants/sample.py --seed 1 --number 100 [--minutes 60]

`cargo mutants` (cargo install cargo-mutants) lists what it could change in the rooms below: an operator, a body, an arm of a match. So many of all
these are drawn with the seed, and are tried in the order of the draw, so that a sample that is cut short by --minutes is a sample, too. Each is applied to a
checkout of HEAD in target/mutants, compiled there piece by piece, and first meets the unit tests of its crate; what survives them meets the other tests of
the two crates. A mutant that does not compile is not viable and does not count. Outcomes are appended to target/mutants/SEED.jsonl, and a second
call goes on from there. Golden files are looked for in KELVIN_GOLDEN, or in ../shared/golden.
"""

import argparse
import json
import math
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOMS = [
    *(f"crates/kelvin/src/{room}/" for room in "likelihood sampler temperature selection predictive diagnostics random draws".split()),
    "crates/kelvin/src/potential.rs",
    *(f"crates/kelvin/src/data/{file}.rs" for file in "split standardise arrays examples augment".split()),
    "crates/kelvin-study/src/checkpoint/",
]
ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / "target" / "mutants"
TREE = PLACE / "tree"
# Compiled in pieces, of which a mutant changes few, and not optimised for long.
SETTINGS = ["incremental=true", "package.kelvin.opt-level=1", "package.kelvin-study.opt-level=1"]
PROFILE = [word for setting in SETTINGS for word in ("--config", f"profile.release.{setting}")]
# Tests that hang are killed mutants; the slowest that does not takes a fifth of this on a busy machine.
LIMIT_SECONDS = {"compile": 1200, "unit": 300, "all": 2400}


def listed():
    """All mutants of the rooms, by their names."""
    said = subprocess.run(
        ["cargo", "mutants", "--list", "--json", "-p", "kelvin", "-p", "kelvin-study"],
        cwd=TREE, check=True, capture_output=True, text=True,
    ).stdout
    found = [mutant for mutant in json.loads(said) if mutant["file"].startswith(tuple(ROOMS))]
    return sorted(found, key=lambda mutant: mutant["name"])


def cargo(stage, *arguments):
    """Whether it succeeds; None where it takes too long."""
    environment = {
        **os.environ,
        "CARGO_TARGET_DIR": str(PLACE / "build"),
        "KELVIN_GOLDEN": os.environ.get("KELVIN_GOLDEN", str(ROOT.parent / "shared" / "golden")),
    }
    child = subprocess.Popen(
        ["cargo", "test", "--quiet", "--release", *PROFILE, *arguments],
        cwd=TREE, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )
    try:
        return child.wait(LIMIT_SECONDS[stage]) == 0
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, 9)
        child.wait()
        return None


def fate(mutant, all_tests):
    """What becomes of the mutant that the tree holds now."""
    package = ["-p", mutant["package"]]
    if cargo("compile", *package, "--lib", "--no-run") is not True:
        return "not viable"
    # Those of its own room first: most mutants die there in a second.
    room = mutant["file"].split("/src/")[1].split("/")[0].removesuffix(".rs")
    passed = cargo("unit", *package, "--lib", "--", f"{room}::") and cargo("unit", *package, "--lib")
    if not passed:
        return "killed by unit tests" if passed is False else "ran without end"
    if not all_tests:
        return "survives unit tests"
    passed = cargo("all", "-p", "kelvin", "-p", "kelvin-study", "--lib", "--tests")
    return "survives" if passed else "killed by other tests" if passed is False else "ran without end"


def interval(successes, number):
    """Wilson's 95 % interval of a share."""
    if number == 0:
        return (0.0, 1.0)
    z, share = 1.96, successes / number
    middle = (share + z * z / (2 * number)) / (1 + z * z / number)
    half = z / (1 + z * z / number) * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    return (middle - half, middle + half)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--number", type=int, required=True)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no mutant after so long")
    parser.add_argument("--unit-tests-only", action="store_true", help="do not show survivors to the other tests")
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    PLACE.mkdir(parents=True, exist_ok=True)
    if not TREE.exists():
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(TREE), "HEAD"], cwd=ROOT, check=True)
    subprocess.run(["git", "checkout", "--quiet", "--force", "--detach",
                    subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True).strip()], cwd=TREE, check=True)
    everything = listed()
    drawn = random.Random(asked.seed).sample(everything, min(asked.number, len(everything)))
    book = PLACE / f"{asked.seed}.jsonl"
    known = {}
    if book.exists():
        known = {line["name"]: line["fate"] for line in map(json.loads, book.read_text().splitlines())}
    for package in ("kelvin", "kelvin-study"):
        if not cargo("all", "-p", package, "--lib"):
            sys.exit(f"the unit tests of {package} fail before anything is changed")
    for number, mutant in enumerate(drawn, 1):
        if mutant["name"] in known:
            continue
        if time.monotonic() > ends:
            break
        begun = time.monotonic()
        subprocess.run(["patch", "--quiet", mutant["file"]], cwd=TREE, input=mutant["diff"], check=True, text=True)
        try:
            known[mutant["name"]] = fate(mutant, not asked.unit_tests_only)
        finally:
            subprocess.run(["git", "checkout", "--quiet", mutant["file"]], cwd=TREE, check=True)
        with book.open("a") as lines:
            lines.write(json.dumps({"name": mutant["name"], "fate": known[mutant["name"]]}) + "\n")
        print(f"{number:4} {time.monotonic() - begun:5.0f} s  {known[mutant['name']]:<22} {mutant['name']}", flush=True)
    outcomes = [known[mutant["name"]] for mutant in drawn if mutant["name"] in known]
    viable = [outcome for outcome in outcomes if outcome != "not viable"]
    killed = sum(not outcome.startswith("survives") for outcome in viable)
    low, high = interval(killed, len(viable))
    print(f"{len(everything)} mutants listed, {len(outcomes)} tried with seed {asked.seed}, {len(viable)} viable, {killed} killed: "
          f"{killed / max(len(viable), 1):.1%}, 95 % interval {low:.1%} to {high:.1%}")


if __name__ == "__main__":
    main()
