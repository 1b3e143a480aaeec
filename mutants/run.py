#!/usr/bin/env python3
"""Runs the tests against every mutant of the library and says which survive.

    mutants/run.py                            builds what is missing, then runs, and goes on where it was cut
    mutants/run.py --jobs 15 --minutes 8      begins nothing after so long
    mutants/run.py --again                    shows survivors the tests written since (of one that was changed, delete the line in measured.jsonl)
    mutants/run.py --pack FOLDER              a folder with a run.sh, for a machine without Rust

`kelvin-mutants` (src/) plants all mutants into one copy of the source, each behind a switch that the variable KELVIN_MUTANT sets, so that they are compiled
once and together. What the compiler refuses is taken out and does not count. Then each test runs alone, and the switches it passes are written down with its
seconds: a mutant meets only the tests that pass its switch, the quickest first, until one fails or hangs. First all mutants meet the tests that take less
than a second, in an order drawn with --seed; then those that are left meet the slower ones. Outcomes are appended to target/mutants/outcomes.jsonl.
Golden files are looked for in KELVIN_GOLDEN, or in $KELVIN_SHARED/golden, or in ../shared/golden.
"""

import argparse
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
# Rounds: all mutants meet the tests below the first of these seconds, those that pass them the tests below the next, and so on.
ROUNDS = [1.0, 5.0, math.inf]
# A batch is a process: tests of about the same seconds, so that a mutant is not shown slow ones before quick ones.
BANDS = [0.02, 0.1, 0.4, ROUNDS[0]]
MEMORY = 8 << 30


def limited():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class Tests:
    """All programs of tests, and what each test passes in how many seconds."""

    def __init__(self, place):
        self.place = place
        self.programs = {program["name"] + " of " + program["folder"]: program for program in json.loads((place / "tests.json").read_text())}
        self.golden = os.environ.get("KELVIN_SHARED", str(HERE.parent.parent / "shared"))
        self.measured = {}

    def run(self, program, tests, seconds, **variables):
        """What a process of these tests comes to, and its seconds."""
        about = self.programs[program]
        executable = self.place / about["program"]
        with tempfile.TemporaryDirectory(prefix="kelvin-mutant-", ignore_cleanup_errors=True) as folder:
            environment = {**os.environ, "KELVIN_SHARED": self.golden, "RAYON_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "TMPDIR": folder, **variables}
            begun = time.monotonic()
            child = subprocess.Popen(
                [executable, "--exact", "--test-threads=1", "--quiet", *tests], cwd=self.place / "tree" / about["folder"], env=environment,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=limited,
            )
            try:
                fate = "passed" if child.wait(seconds) == 0 else "killed"
            except subprocess.TimeoutExpired:
                fate = "hangs"
            try:
                os.killpg(child.pid, 9)
            except ProcessLookupError:
                pass
            child.wait()
            return fate, time.monotonic() - begun

    def measure(self, pool, book, ends):
        """Runs each test that is not measured yet alone, on unchanged code."""
        if book.exists():
            self.measured = {(line["program"], line["test"]): line for line in map(json.loads, book.read_text().splitlines())}
        wanted = [(program, test) for program, about in self.programs.items() for test in about["tests"]]
        missing = [pair for pair in wanted if pair not in self.measured]
        writing = threading.Lock()

        def one(pair):
            program, test = pair
            if time.monotonic() > ends:
                return
            with tempfile.TemporaryDirectory(prefix="kelvin-mutant-") as folder:
                seen = Path(folder) / "seen"
                fate, seconds = self.run(program, [test], 600, KELVIN_MUTANT_SEEN=str(seen))
                if fate == "killed":
                    # What counts allocations sees those of writing switches down.
                    fate, seconds = self.run(program, [test], 600)
                passed = sorted({int(line) for line in seen.read_text().split()}) if seen.exists() else []
            line = {"program": program, "test": test, "fate": fate, "seconds": round(seconds, 3), "switches": passed}
            with writing, book.open("a") as lines:
                lines.write(json.dumps(line) + "\n")
                self.measured[pair] = line

        list(pool.map(one, missing))
        if any(pair not in self.measured for pair in wanted):
            sys.exit("not all tests are measured yet")
        self.order = {pair: place for place, pair in enumerate(self.measured)}
        self.measured = {pair: self.measured[pair] for pair in wanted}
        failing = [pair for pair, line in self.measured.items() if line["fate"] != "passed"]
        for program, test in failing:
            print(f"left out, since it fails on unchanged code: {test} ({program})")
        self.of_switch = defaultdict(list)
        for pair, line in self.measured.items():
            if line["fate"] == "passed":
                for switch in line["switches"]:
                    self.of_switch[switch].append((line["seconds"], *pair))

    def batches(self, switch, least, most, met):
        """Processes to run for a switch in a round, the quickest first: program, tests, seconds they took; without the first `met` tests that were measured."""
        bands = defaultdict(list)
        for seconds, program, test in sorted(self.of_switch[switch]):
            if least <= seconds < most and self.order[program, test] >= met:
                band = next((band for band, below in enumerate(BANDS) if seconds < below), None)
                bands[(band, program) if band is not None else (len(BANDS), seconds, test, program)].append((seconds, test))
        for key in sorted(bands):
            tests = bands[key]
            size = int(1.0 / BANDS[key[0]]) if key[0] < len(BANDS) else 1
            for first in range(0, len(tests), size):
                some = tests[first:first + size]
                yield key[-1], [test for _, test in some], sum(seconds for seconds, _ in some)


def passes(most):
    """The fate of a mutant after a round that is not the last."""
    return f"passes tests below {most:g} s"


def try_mutant(tests, mutant, least, most, met=0):
    """What becomes of a mutant, and by which tests."""
    switch, alternative = mutant["switch"]
    if not tests.of_switch[switch]:
        return "unreached", [], 0.0
    begun = time.monotonic()
    for program, some, seconds in tests.batches(switch, least, most, met):
        fate, _ = tests.run(program, some, 5 * seconds + 3, KELVIN_MUTANT=f"{switch}:{alternative}")
        if fate != "passed":
            return fate, some[:3], time.monotonic() - begun
    has_more = any(seconds >= most for seconds, _, _ in tests.of_switch[switch])
    return passes(most) if has_more else "survives", [], time.monotonic() - begun


def room(file):
    parts = file.split("/")
    return f"{parts[1]}: {parts[3].removesuffix('.rs')}"


def report(listed, dropped, equivalent, fates):
    """The table of rooms, and what survives."""
    rows = defaultdict(Counter)
    for number, mutant in enumerate(listed["mutants"]):
        fate = "not viable" if number in dropped else "equivalent" if named(mutant) in equivalent else fates.get(number, {}).get("fate", "not tried")
        rows[room(mutant["file"])][fate] += 1
        rows["all"][fate] += 1
    print(f"{'room':<28}{'mutants':>8}{'viable':>8}{'killed':>8}{'hang':>6}{'survive':>9}{'open':>6}   share killed; those that are open have not met all their tests")
    for name, row in sorted(rows.items()):
        killed, alive = row["killed"] + row["hangs"], row["survives"] + row["unreached"]
        viable = sum(row.values()) - row["not viable"] - row["equivalent"]
        least, most = killed / max(viable, 1), 1 - alive / max(viable, 1)
        share = f"{least:.1%}" if least == most else f"{least:.1%} to {most:.1%}"
        print(f"{name:<28}{sum(row.values()):>8}{viable:>8}{row['killed']:>8}{row['hangs']:>6}{alive:>9}{viable - killed - alive:>6}   {share}")
    print(f"not expressible as a switch: {listed['inexpressible']}")
    for name in sorted(equivalent - {named(mutant) for mutant in listed["mutants"]}):
        print(f"equivalent.txt names what is no mutant any more: {name}")


def named(mutant):
    return f"{mutant['file']}:{mutant['line']}:{mutant['column']}: {mutant['name']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--place", type=Path, default=HERE.parent / "target" / "mutants", help="where the copy, its programs and the outcomes lie")
    parser.add_argument("--outcomes", type=Path, help="where measurements and outcomes are written, if not there")
    parser.add_argument("--seed", type=int, default=1, help="of the order of the mutants")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin nothing after so long")
    parser.add_argument("--again", action="store_true", help="show survivors the tests that they have not met")
    parser.add_argument("--pack", type=Path, metavar="FOLDER", help="write a folder for a machine without Rust, and run nothing")
    parser.add_argument("--as-built", action="store_true", help="do not look whether the source has changed")
    asked = parser.parse_args()
    ends = time.monotonic() + 60 * asked.minutes
    place = asked.place.resolve()
    outcomes = asked.outcomes or place
    if not asked.as_built:
        import build
        build.build(HERE.parent, place)
    if asked.pack:
        import build
        return build.pack(place, asked.pack)
    listed = json.loads((place / "list.json").read_text())
    dropped = {int(line) for line in (place / "dropped.txt").read_text().split()}
    equivalent = {line.split("  #")[0].strip() for line in (HERE / "equivalent.txt").read_text().splitlines() if line and not line.startswith("#")}
    tests = Tests(place)
    with ThreadPoolExecutor(asked.jobs) as pool:
        tests.measure(pool, outcomes / "measured.jsonl", ends)
        print(f"{len(tests.measured)} tests measured, {sum(line['seconds'] for line in tests.measured.values()):.0f} s in all", flush=True)
        book = outcomes / "outcomes.jsonl"
        fates = {}
        if book.exists():
            fates = {line["mutant"]: line for line in map(json.loads, book.read_text().splitlines())}
        order = [number for number, mutant in enumerate(listed["mutants"]) if number not in dropped and named(mutant) not in equivalent]
        random.Random(asked.seed).shuffle(order)
        writing = threading.Lock()
        rounds = [(least, most, passes(least) if least else None) for least, most in zip([0.0, *ROUNDS], ROUNDS)]
        if asked.again:
            alive = [number for number in order if fates.get(number, {"fate": "killed"})["fate"] not in ("killed", "hangs")]
            rounds = [(0.0, math.inf, alive)]
        for least, most, wanted in rounds:
            if not asked.again:
                wanted = [number for number in order if fates.get(number, {}).get("fate") == wanted]
            begun, done = time.monotonic(), 0

            def one(number):
                nonlocal done
                if time.monotonic() > ends:
                    return
                mutant, before = listed["mutants"][number], fates.get(number, {})
                fate, by, seconds = try_mutant(tests, mutant, least, most, before.get("met", 0) if asked.again else 0)
                if asked.again and fate == "survives" and before["fate"].startswith("passes"):
                    fate = before["fate"]
                line = {"mutant": number, "name": named(mutant), "fate": fate, "by": by, "seconds": round(seconds, 2), "met": len(tests.order)}
                with writing, book.open("a") as lines:
                    lines.write(json.dumps(line) + "\n")
                    fates[number] = line
                    done += 1
                    if done % 100 == 0:
                        print(f"{done} of {len(wanted)} in {time.monotonic() - begun:.0f} s", flush=True)

            print(f"{len(wanted)} mutants meet the tests of {least:g} to {most:g} s", flush=True)
            list(pool.map(one, wanted))
    report(listed, dropped, equivalent, fates)
    with (outcomes / "survivors.txt").open("w") as lines:
        for number in sorted(fates):
            if fates[number]["fate"] in ("survives", "unreached") and fates[number]["name"] not in equivalent:
                lines.write(f"{fates[number]['fate']:<10} {fates[number]['name']}\n")
    print(f"survivors are listed in {outcomes / 'survivors.txt'}")


if __name__ == "__main__":
    main()
