#!/usr/bin/env python3
"""Kills a sweep with SIGKILL at random moments, resumes it each time, and compares every file with an uninterrupted run.

    cargo build --release
    python3 soak/kill_and_resume.py --kills 100

Exits with 1 and names the files where anything but times differs. Where a sweep is finished before all kills are done, another is
begun. Every process is killed between 0.02 and `--longest` seconds after its start, so that kills hit reading, searching, sampling,
checkpoints and the writing of results alike. What is compared: every draw bit by bit (safetensors), tables, summaries, figures, settings,
warnings, predictions; of scores.csv and results.json all but the seconds. Left out, since they hold times or circumstances: provenance.json, hashes.json,
report.html, status.json, tables of wall-clock, PDF (whose writer orders its objects at random), and the folder of checkpoints.
"""
import argparse
import csv
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

LEFT_OUT = {"provenance.json", "hashes.json", "report.html", "status.json"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kelvin", default="target/release/kelvin")
    parser.add_argument("--preset", default="concrete")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--longest", type=float, default=2.0, help="seconds before a kill, at most")
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--set", action="append", default=[], help="passed on to kelvin")
    return parser.parse_args()


def settings(asked):
    pairs = ["run.checkpoint_seconds=0.2", *asked.set]
    return [word for pair in pairs for word in ("--set", pair)]


def contents(path):
    """What must be the same: all but the seconds."""
    if path.name == "results.json":
        results = json.loads(path.read_text())
        for entry in [*results["searches"], *results["rows"], *results["chains"]]:
            del entry["seconds"]
        return results
    if path.name != "scores.csv":
        return path.read_bytes()
    rows = list(csv.reader(path.read_text().splitlines()))
    times = {number for number, name in enumerate(rows[0]) if "second" in name}
    return [[cell for number, cell in enumerate(row) if number not in times] for row in rows]


def differences(folder, whole):
    names = lambda root: {
        path.relative_to(root)
        for path in root.rglob("*")
        if path.is_file() and path.name not in LEFT_OUT and "wall_clock" not in path.name and path.relative_to(root).parts[0] != "checkpoints"
    }
    mine, wanted = names(folder), names(whole)
    found = [f"{name}: only in one" for name in sorted(mine ^ wanted)]
    return found + [str(name) for name in sorted(mine & wanted) if contents(folder / name) != contents(whole / name)]


def main():
    asked = arguments()
    moments = random.Random(asked.seed)
    kelvin = str(pathlib.Path(asked.kelvin).resolve())
    room = pathlib.Path(tempfile.mkdtemp(prefix="kelvin-soak-"))
    whole = room / "whole"
    begin = [kelvin, "sweep", asked.preset, "--device", "cpu", "--quiet", *settings(asked), "--out"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    started = time.monotonic()
    subprocess.run([*begin, str(whole)], check=True, **quiet)
    print(f"uninterrupted: {time.monotonic() - started:.1f} s", flush=True)

    kills, sweeps, bad = 0, 0, []
    while kills < asked.kills:
        sweeps += 1
        folder = room / f"killed-{sweeps}"
        command = [*begin, str(folder)]
        while True:
            process = subprocess.Popen(command, **quiet)
            last = kills >= asked.kills
            try:
                _, said = process.communicate(timeout=None if last else moments.uniform(0.02, asked.longest))
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
                # Before the folder was begun there is nothing to resume.
                if (folder / "checkpoints" / "run.json").exists():
                    command = [kelvin, "resume", str(folder), "--device", "cpu", "--quiet"]
                continue
            if process.returncode != 0:
                sys.exit(f"after {kills} kills kelvin ended with {process.returncode}:\n{said}")
            break
        found = differences(folder, whole)
        bad += [f"sweep {sweeps}: {name}" for name in found]
        print(f"sweep {sweeps}: finished after {kills} kills in all, {len(found)} files differ", flush=True)
        shutil.rmtree(folder)
    shutil.rmtree(room)
    print("\n".join(bad) or f"{kills} kills, {sweeps} sweeps: every file is that of an uninterrupted run")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
