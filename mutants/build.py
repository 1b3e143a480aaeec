"""Plants the mutants into a copy of the repository, takes out those that do not compile, and compiles the tests once for all others."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOMS = [
    *(f"crates/kelvin/src/{room}/" for room in "likelihood sampler temperature selection predictive diagnostics random draws".split()),
    "crates/kelvin/src/potential.rs",
    *(f"crates/kelvin/src/data/{file}.rs" for file in "split standardise arrays examples augment".split()),
    "crates/kelvin-study/src/checkpoint/",
]
PACKAGES = ["-p", "kelvin", "-p", "kelvin-study"]
# Mutants do what the compiler warns of, and the switches are read without synchronisation.
LINTS = 'warnings = "allow"\nunsafe_code = "allow"\n' + "".join(
    f'{lint} = "allow"\n' for lint in ("arithmetic_overflow", "unconditional_panic", "overflowing_literals", "unconditional_recursion")
)


def tracked(root):
    """What belongs to the repository, without what is ignored."""
    said = subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, text=True).splitlines()
    return [name for name in said if (root / name).is_file()]


def copy(root, tree):
    """The repository, as it is now; what has not changed is left, so that it is not compiled again."""
    names = set(tracked(root))
    for name in names:
        target = tree / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != (root / name).read_bytes():
            shutil.copyfile(root / name, target)
    for old in [path for path in tree.rglob("*.rs") if str(path.relative_to(tree)) not in names]:
        old.unlink()
    head, tail = (root / "Cargo.toml").read_text().split("[workspace.lints.rust]\n")
    (tree / "Cargo.toml").write_text(head + "[workspace.lints.rust]\n" + LINTS + tail[tail.index("\n\n"):])


def mutated_files(root):
    files = sorted(name for name in tracked(root) if name.startswith(tuple(ROOMS)) and name.endswith(".rs"))
    for_tests = {
        str(folder / f"{module}.rs")
        for name in files
        for folder in (Path(name).parent, Path(name).with_suffix(""))
        for module in re.findall(r"#\[cfg\(test\)\]\s*mod (\w+);", (root / name).read_text())
    }
    return [name for name in files if name not in for_tests]


def cargo(tree, place, *arguments):
    """Messages of a compilation; what it prints for people is shown where it fails without any."""
    environment = {**os.environ, "CARGO_TARGET_DIR": str(place / "build")}
    done = subprocess.run(
        ["cargo", *arguments, "--release", *PACKAGES, "--message-format=json"], cwd=tree, env=environment, capture_output=True, text=True
    )
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return done.returncode, messages, done.stderr


def guilty(message, places):
    """The mutants in whose text the compiler found an error: of the shortest text around it."""
    children = [span for child in message["children"] for span in child["spans"]]
    primary = [span for span in message["spans"] if span["is_primary"]]
    for spans in (primary, message["spans"], children):
        for span in spans:
            around = [
                (end - begin, mutants)
                for begin, end, mutants in places.get(span["file_name"], [])
                if begin <= span["byte_start"] and span["byte_end"] <= end and mutants
            ]
            if around:
                return min(around)[1]
    return []


def build(root, place):
    """Writes `list.json` and `tests.json` (a program, its package and its tests' names) into `place`."""
    tree = place / "tree"
    tree.mkdir(parents=True, exist_ok=True)
    tool = place / "tool"
    subprocess.run(["cargo", "build", "--quiet", "--release"], cwd=root / "mutants", env={**os.environ, "CARGO_TARGET_DIR": str(tool)}, check=True)
    copy(root, tree)
    (place / "dropped.txt").touch()
    dropped = {int(line) for line in (place / "dropped.txt").read_text().split()}
    old = json.loads((place / "list.json").read_text())["mutants"] if (place / "list.json").exists() else None
    while True:
        (place / "dropped.txt").write_text("".join(f"{mutant}\n" for mutant in sorted(dropped)))
        subprocess.run(
            [tool / "release" / "kelvin-mutants", tree, place / "dropped.txt", place / "list.json", *mutated_files(root)], cwd=root, check=True
        )
        if old is not None and json.loads((place / "list.json").read_text())["mutants"] != old:
            # Other mutants: their numbers, and all that is known of them, are of another source.
            old, dropped = None, set()
            for name in ("errors.txt", "measured.jsonl", "outcomes.jsonl"):
                (place / name).unlink(missing_ok=True)
            continue
        code, messages, said = cargo(tree, place, "check", "--lib")
        if code == 0:
            break
        places = json.loads((place / "list.json").read_text())["places"]
        errors = [line["message"] for line in messages if line["reason"] == "compiler-message" and line["message"]["level"] == "error"]
        found = {mutant for error in errors for mutant in guilty(error, places)} - dropped
        print(f"{len(errors)} errors: {len(found)} mutants do not compile", flush=True)
        with (place / "errors.txt").open("a") as log:
            log.writelines(error["rendered"] for error in errors)
        if not found:
            sys.exit("errors that no mutant made:\n" + "".join(error["rendered"] for error in errors) + said)
        dropped |= found
    code, messages, said = cargo(tree, place, "test", "--no-run", "--lib", "--tests")
    if code != 0:
        sys.exit("".join(line["message"]["rendered"] for line in messages if line["reason"] == "compiler-message") + said)
    programs = []
    for line in messages:
        if line["reason"] == "compiler-artifact" and line.get("executable") and line["profile"]["test"]:
            said = subprocess.check_output([line["executable"], "--list", "--format", "terse"], text=True)
            tests = [name.removesuffix(": test") for name in said.splitlines() if name.endswith(": test")]
            folder = str(Path(line["manifest_path"]).parent.relative_to(tree))
            programs.append({"program": line["executable"], "folder": folder, "name": line["target"]["name"], "tests": tests})
    (place / "tests.json").write_text(json.dumps(programs))
    print(f"{sum(len(program['tests']) for program in programs)} tests in {len(programs)} programs", flush=True)


def pack(place, folder):
    """All that `run.py` needs where there is no Rust: programs, the files that tests read, golden files, and `run.sh`."""
    shared = Path(os.environ.get("KELVIN_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    shutil.rmtree(folder, ignore_errors=True)
    packed = folder / "place"
    packed.mkdir(parents=True)
    shutil.copytree(place / "tree", packed / "tree")
    shutil.copytree(shared / "golden", folder / "shared" / "golden")
    programs = json.loads((place / "tests.json").read_text())
    for program in programs:
        name = f"{Path(program['folder']).name}-{program['name']}"
        subprocess.run(["strip", "-o", packed / name, program["program"]], check=True)
        program["program"] = name
    (packed / "tests.json").write_text(json.dumps(programs))
    for name in ("list.json", "dropped.txt"):
        shutil.copyfile(place / name, packed / name)
    for name in ("run.py", "equivalent.txt"):
        shutil.copyfile(Path(__file__).parent / name, folder / name)
    # Tests look for their files where they were compiled.
    (folder / "run.sh").write_text(f"""#!/bin/sh
# Runs the mutants; results go to $OUT1. Results of an earlier call that lie in previous/ are gone on from.
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$OUT1" {place}
[ -e {place}/tree ] || ln -s "$here/place/tree" {place}/tree
cp "$here"/previous/*.jsonl "$OUT1"/ 2>/dev/null
export KELVIN_SHARED="$here/shared"
python3 "$here/run.py" --as-built --place "$here/place" --outcomes "$OUT1" --jobs "${{JOBS:-15}}" --minutes "${{MINUTES:-8.2}}" "$@" 2>&1 | tee -a "$OUT1/said.txt"
""")
    (folder / "run.sh").chmod(0o755)


if __name__ == "__main__":
    build(Path(__file__).resolve().parent.parent, Path(sys.argv[1]))
