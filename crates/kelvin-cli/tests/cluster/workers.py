"""A sweep on Ray's local cluster, and by submitit, through the Python package: a worker is killed in the middle, and the files are those of one process.

    python3 workers.py PROGRAM     0: passed. 77: Ray or submitit cannot be had here, with the reason.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[3] / "kelvin-py" / "python"
SETTINGS = {
    "run.grid": [0.3, 1.0],
    "run.checkpoint_seconds": 0.2,
    "selection.epochs": 2000,
    "sampler.ramp_start": 50,
    "sampler.ramp_end": 100,
    "sampler.burn_in": 1000,
    "sampler.cycle": 2000,
    "sampler.epochs": 61000,
}


def package() -> types.ModuleType:
    """The package without its compiled part, which nothing here needs."""
    kelvin = types.ModuleType("kelvin")
    kelvin.__path__ = [str(PYTHON / "kelvin")]
    sys.modules["kelvin"] = kelvin
    import kelvin.distributed

    return kelvin.distributed


def files(folder: Path) -> dict:
    """The files of a run without times."""
    found = {}
    for name in ("metrics.csv", "split.json", "warnings.json", "experiment.toml", "results.json"):
        found[name] = (folder / name).read_bytes()
    for inner in ("draws", "predictions"):
        found.update({f"{inner}/{path.name}": path.read_bytes() for path in (folder / inner).iterdir()})
    results = found["results.json"].decode()
    found["results.json"] = re.sub(r'"(seconds|device)": [^\n]*', "", results)
    return found


def processes_of(folder: Path) -> dict:
    """Processes that carry out shards of a run, with the process that started each."""
    found = {}
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode().split("\0")
            if str(folder) in words and "--shard" in words:
                found[int(entry.name)] = int(re.search(r"PPid:\s*(\d+)", (entry / "status").read_text()).group(1))
        except (OSError, ValueError):
            pass
    return found


def kill_a_worker(folder: Path, killed: list) -> None:
    """Ends the worker of a shard that has stored something, as a machine that is lost does."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if list(folder.glob("shards/*/checkpoints/sampling.checkpoint")):
            for worker in processes_of(folder).values():
                os.kill(worker, 9)
                killed.append(worker)
                return
        time.sleep(0.05)


def main() -> int:
    program = str(Path(sys.argv[1]).resolve())
    try:
        import ray
        import submitit  # noqa: F401
    except ImportError as error:
        print(f"SKIPPED: {error}; `pip install ray submitit`")
        return 77
    distributed = package()
    begun = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - begun:4.0f} s  {text}", flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        sets = [f"--set={name}={json.dumps(value)}" for name, value in SETTINGS.items()]
        one = [program, "sweep", "concrete", "--quick", "--seed=3", "--repetitions=2", "--quiet", "--device=cpu", "--out", str(here / "one"), *sets]
        subprocess.run(one, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        expected = files(here / "one")
        say("one process is done")
        asked = dict(shards=3, quick=True, seed=3, repetitions=2, settings=SETTINGS, device="cpu", n_jobs=1, program=program)
        # Workers find the package as this process does.
        os.environ["PYTHONPATH"] = f"{here}:{os.environ.get('PYTHONPATH', '')}"
        (here / "kelvin").mkdir()
        (here / "kelvin" / "__init__.py").write_text(f"__path__ = [{str(PYTHON / 'kelvin')!r}]\n")
        os.environ.setdefault("RAY_AUTH_MODE", "disabled")
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        say("Ray is up")
        for executor, resources in (("ray", {"num_cpus": 1}), ("submitit", {"cluster": "local", "timeout_min": 5}), ("local", {"workers": 2})):
            folder, killed = here / executor, []
            killer = threading.Thread(target=kill_a_worker, args=(folder, killed))
            if executor == "ray":
                killer.start()
            moments = []
            told = (lambda *moment: moments.append(moment[:3])) if executor == "local" else False
            done = distributed.sweep("concrete", executor=executor, folder=folder, resources=resources, progress=told, **asked)
            if executor == "ray":
                killer.join()
                assert killed, "no worker was killed: the shards are too short"
            found = files(done.folder)
            assert found.keys() == expected.keys(), found.keys() ^ expected.keys()
            differing = [name for name in expected if found[name] != expected[name]]
            assert not differing, f"{executor}: {differing} differ"
            sampled = [done for stage, done, steps in moments if stage == "sampling" and 0 < done <= steps]
            assert executor != "local" or (sampled and sampled == sorted(sampled)), f"progress: {moments}"
            say(f"{executor}: the same files" + (", though a worker was killed" if killed else ""))
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
