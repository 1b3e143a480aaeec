#!/usr/bin/env python3
"""Kills kelvin with SIGKILL at random moments, starts it again each time, and compares every file with those of an uninterrupted kelvin.

    cargo build --release
    python3 soak/kill_and_resume.py --kills 1000

A round is a run of a table of one's own (whose step size a pilot finds), a sweep of it, a report and the exports of the run, and a
comparison of selectors: one command after the other, each killed several times before it may end. Moments are uniform over what is left of the
command's own uninterrupted time, so that kills hit reading, searching, sampling, checkpoints and the writing of results alike. Runs
and sweeps are resumed; all else is asked for again. Rounds follow each other until all kills are done.

What is compared at the end of a round: every file, byte by byte, but those that hold times or circumstances: provenance.json, report.html, status.json,
checkpoints but their run.json, the lock, tables of wall-clock, TensorBoard's events; of scores.csv, results.json and selection.json all but the seconds, of hashes.json the hashes of files that are compared.
Whatever a kill left half written (`.part`) must be gone. Exits with 1 and names the files where anything else differs.
"""
import argparse
import csv
import json
import math
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

HOLD_TIMES = {"provenance.json", "report.html", "status.json", "lock"}
EXPORTS = ["csv", "npz", "arviz", "tensorboard"]
SMALL = {
    "selection.epochs": 1000,
    "sampler.ramp_start": 100,
    "sampler.ramp_end": 200,
    "sampler.burn_in": 500,
    "sampler.cycle": 100,
    "sampler.epochs": 1500,
    "model.hidden": "[16]",
    "run.grid": "[0.3, 1.0, 3.0]",
    "run.chains": 2,
    "run.repetitions": 2,
    "run.checkpoint_seconds": 0.02,
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kelvin", default="target/release/kelvin")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--each", type=int, default=8, help="kills of one command, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--set", action="append", default=[], help="passed on to kelvin")
    return parser.parse_args()


def begin(folder):
    folder.mkdir()
    lines = ["a,b,y"]
    for i in range(120):
        a, b = i * 7 % 13, i * i % 17
        lines.append(f"{a},{b},{a * 1.5 - b * 0.25 + i % 5 * 0.1:.2f}")
    (folder / "t.csv").write_text("\n".join(lines) + "\n")


def commands(asked):
    """Of a round, in order: name, the command, and what goes on after a kill (the same unless given)."""
    pairs = [f"{key}={value}" for key, value in SMALL.items()] + asked.set
    settings = [word for pair in pairs for word in ("--set", pair)]
    table = ["--data", "t.csv", "--target", "y", "--device", "cpu", "--quiet", *settings]
    yield "run", ["run", *table, "--out", "run"], ["resume", "run", "--device", "cpu", "--quiet"]
    yield "sweep", ["sweep", *table, "--out", "sweep"], ["resume", "sweep", "--device", "cpu", "--quiet"]
    yield "report", ["report", "run"], None
    for form in EXPORTS:
        yield f"export {form}", ["export", "run", "--format", form, "--device", "cpu"], None
    yield "select", ["select", *table, "--method", "joint", "--method", "grid-lpd-sm", "--starts", "2", "--out", "chosen"], None


def without_seconds(value):
    if isinstance(value, dict):
        return {key: without_seconds(inner) for key, inner in value.items() if "second" not in key}
    return [without_seconds(inner) for inner in value] if isinstance(value, list) else value


def holds_times(path, root):
    name = path.relative_to(root)
    in_checkpoints = "checkpoints" in name.parts and name.name != "run.json"
    return path.name in HOLD_TIMES or in_checkpoints or any(word in path.name for word in ("wall_clock", "tfevents"))


def contents(path, compared):
    """What must be the same: all but the seconds."""
    if path.name in ("results.json", "selection.json"):
        return without_seconds(json.loads(path.read_text()))
    if path.name == "hashes.json":
        run = path.parent.name
        times = {"results.json", "scores.csv", "hashes.json"}
        hashes = json.loads(path.read_text())["files"]
        return {name: sha for name, sha in hashes.items() if f"{run}/{name}" in compared and name not in times}
    if path.name in ("scores.csv", "selection.csv"):
        rows = list(csv.reader(path.read_text().splitlines()))
        times = {number for number, name in enumerate(rows[0]) if "second" in name}
        return [[cell for number, cell in enumerate(row) if number not in times] for row in rows]
    return path.read_bytes()


def differences(folder, whole):
    def names(root):
        return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file() and not holds_times(path, root)}

    mine, wanted = names(folder), names(whole)
    both = mine & wanted
    found = [f"{name}: only in one" for name in sorted(mine ^ wanted)]
    return len(both), found + [name for name in sorted(both) if contents(folder / name, both) != contents(whole / name, both)]


class Kelvin:
    """The program in a folder, killed where a moment is given."""

    def __init__(self, program, moments):
        self.program, self.moments = program, moments

    def run(self, folder, command, most_seconds=None):
        """Seconds it took, or None where it was killed."""
        began = time.monotonic()
        process = subprocess.Popen([self.program, *command], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        try:
            _, said = process.communicate(timeout=most_seconds and self.moments.uniform(0.002, most_seconds))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return None
        if process.returncode != 0:
            sys.exit(f"kelvin {' '.join(command)} in {folder} ended with {process.returncode}:\n{said}")
        return time.monotonic() - began


def main():
    asked = arguments()
    kelvin = Kelvin(str(pathlib.Path(asked.kelvin).resolve()), random.Random(asked.seed))
    room = pathlib.Path(tempfile.mkdtemp(prefix="kelvin-soak-"))
    # All rounds are in the same place, whose path a run folder records.
    whole, folder, seconds = room / "whole", room / "here", {}
    begin(folder)
    for name, command, _ in commands(asked):
        seconds[name] = kelvin.run(folder, command)
    folder.rename(whole)
    print("uninterrupted: " + ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items()), flush=True)

    killed, rounds, num_files, bad = dict.fromkeys(seconds, 0), 0, math.inf, []
    while sum(killed.values()) < asked.kills:
        rounds += 1
        begin(folder)
        for name, command, resume in commands(asked):
            for _ in range(min(asked.each, asked.kills - sum(killed.values()))):
                if kelvin.run(folder, command, 1.1 * seconds[name]) is not None:
                    break
                killed[name] += 1
                # Before the folder was begun there is nothing to resume.
                if resume and (folder / resume[1] / "checkpoints" / "run.json").exists():
                    command = resume
                # A selection is there whole or not at all, and is not written over.
                if name == "select" and (folder / "chosen" / "selection.json").exists():
                    break
            else:
                kelvin.run(folder, command)
        compared, found = differences(folder, whole)
        num_files = min(num_files, compared)
        bad += [f"round {rounds}: {name}" for name in found]
        print(f"round {rounds}: {sum(killed.values())} kills so far, {compared} files compared, {len(found)} differ", flush=True)
        if found:
            folder.rename(room / f"round-{rounds}")
        else:
            shutil.rmtree(folder)
    print(", ".join(f"{name} {count}" for name, count in killed.items()))
    print("\n".join(bad) or f"{sum(killed.values())} kills, {rounds} rounds: all {num_files} files are those of an uninterrupted kelvin")
    if bad:
        sys.exit(f"the folders that differ are kept in {room}")
    shutil.rmtree(room)


if __name__ == "__main__":
    main()
