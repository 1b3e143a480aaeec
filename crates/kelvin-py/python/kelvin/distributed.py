"""A sweep on many machines: its shards as tasks of Ray, jobs of submitit, or processes of this machine.

Each task runs the program ``kelvin`` in a folder that all machines see; files are all that tasks exchange, so the executor only says where and when they
run. What is done is not done again: a sweep that was stopped goes on when it is called with the same arguments.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

from .errors import InputError, KelvinError
from .progress import ProgressSetting, Silent, shown

#: How often the files are looked at, in seconds.
_LOOK = 1.0
#: What a task waits, in seconds, for one before it that was taken for lost and is still storing what it has.
_PATIENCE = 60.0
#: A wrong question has the same answer each time it is asked.
_WRONG_QUESTION = 2


class Sweep(NamedTuple):
    """A finished sweep."""

    #: Its folder, with report.html, figures, draws and metrics.
    folder: Path
    #: Everything that it found, as in results.json.
    results: Dict[str, Any]


class Ended(NamedTuple):
    """How a task ended."""

    #: The exit code of the program: 0 where all went well, 138 or 143 where it was told to stop and has stored what it had.
    code: int
    #: The end of what it said.
    said: str


def sweep(
    experiment: Union[str, Path],
    *,
    executor: str = "local",
    shards: int = 4,
    folder: Union[str, Path],
    repetitions: Optional[int] = None,
    seed: Optional[int] = None,
    quick: bool = False,
    settings: Optional[Mapping[str, Any]] = None,
    device: str = "auto",
    data_dir: Union[None, str, Path] = None,
    n_jobs: Optional[int] = None,
    resources: Optional[Mapping[str, Any]] = None,
    retries: int = 3,
    program: Union[None, str, Path] = None,
    progress: ProgressSetting = "auto",
) -> Sweep:
    """Runs ``kelvin sweep`` of a preset or a file of settings in shards, and puts them together to the bytes of one process.

    ``executor`` is ``"ray"``, ``"submitit"`` or ``"local"``. ``resources`` are what it asks for each task: of Ray the options of a task
    (``{"num_cpus": 4, "num_gpus": 1}``), of submitit the parameters of its executor (``{"slurm_partition": "gpu", "gpus_per_node": 1,
    "timeout_min": 60}``; ``{"cluster": "local"}`` for processes of this machine), of local ``{"workers": 2}``. ``folder`` must be one that all machines
    see. A task whose machine is lost, or that fails, is tried again up to ``retries`` times, and goes on from its last checkpoint. ``n_jobs`` is the number
    of threads of each task, and ``program`` the ``kelvin`` that tasks run, found on the PATH where it is not given.
    """
    kelvin = _program(program)
    if shards < 1:
        raise InputError(f"shards must be 1 or more, got {shards}")
    if executor not in _EXECUTORS:
        raise InputError(f"executor must be one of {', '.join(map(repr, _EXECUTORS))}, got {executor!r}")
    run = Path(folder).absolute()
    asked = [kelvin, "sweep", str(experiment), "--out", str(run), "--stage", "prepare", "--json"]
    asked += ["--quick"] if quick else []
    asked += [] if seed is None else [f"--seed={seed}"]
    asked += [] if repetitions is None else [f"--repetitions={repetitions}"]
    asked += [] if data_dir is None else [f"--data-dir={data_dir}"]
    asked += [f"--set={name}={_value(value)}" for name, value in (settings or {}).items()]
    prepared = carry_out(asked)
    if prepared.code == _WRONG_QUESTION:
        raise InputError(prepared.said)
    if prepared.code != 0:
        raise KelvinError(prepared.said)
    for number in range(1, shards + 1):
        (run / "shards" / f"{number}-of-{shards}").mkdir(parents=True, exist_ok=True)

    how = ["--quiet", "--device", device] + ([] if n_jobs is None or n_jobs < 1 else [f"--threads={n_jobs}"])
    bar, place = shown(progress), _EXECUTORS[executor](run, dict(resources or {}), retries)
    try:
        watch = _Watch(kelvin, run, bar)
        _all_of(place, {"the search": [kelvin, "resume", str(run), "--stage", "search", *how]}, retries, watch)
        parts = {
            f"shard {number}/{shards}": [kelvin, "resume", str(run), "--shard", f"{number}/{shards}", *how]
            for number in range(1, shards + 1)
            if not (run / "shards" / f"{number}-of-{shards}" / "hashes.json").exists()
        }
        _all_of(place, parts, retries, watch)
        _all_of(place, {"the merge": [kelvin, "merge", str(run), *how]}, retries, watch)
    finally:
        place.close()
        bar.close()
    return Sweep(run, json.loads((run / "results.json").read_text(encoding="utf-8")))


def carry_out(arguments: Sequence[str]) -> Ended:
    """Runs the program to its end, wherever this is called. It is told to stop when the process that called it is gone."""
    begun = time.monotonic()
    while True:
        done = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=_FIRST)
        ended = Ended(done.returncode, done.stderr[-4000:].strip())
        # A task before this one, whose worker was lost, may still be storing what it has.
        if "is being written by" not in ended.said or time.monotonic() - begun > _PATIENCE:
            return ended
        time.sleep(_LOOK)


def _end_with_parent() -> None:
    import ctypes
    import signal

    pr_set_pdeathsig = 1
    ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGTERM)


#: What a process of the program does first; elsewhere than on Linux it ends by itself.
_FIRST = _end_with_parent if sys.platform == "linux" else None


def _program(asked: Union[None, str, Path]) -> str:
    found = shutil.which(str(asked or os.environ.get("KELVIN_PROGRAM") or "kelvin"))
    if found is None:
        raise InputError(
            f"there is no program {str(asked or 'kelvin')!r}; install it with `cargo install --path crates/kelvin-cli`, or name it by program="
        )
    return str(Path(found).absolute())


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _all_of(place: Any, parts: Mapping[str, List[str]], retries: int, watch: Callable[[], None]) -> None:
    """Carries out parts side by side; those that fail are tried again."""
    waiting = {name: place.submit(arguments) for name, arguments in parts.items()}
    tried = dict.fromkeys(parts, 0)
    while waiting:
        for name, task in list(waiting.items()):
            ended = place.ended(task)
            if ended is None:
                continue
            del waiting[name]
            if ended.code == 0:
                continue
            tried[name] += 1
            if ended.code == _WRONG_QUESTION or tried[name] > retries:
                raise KelvinError(f"{name} failed with exit code {ended.code}, {tried[name]} times tried:\n{ended.said}")
            waiting[name] = place.submit(parts[name])
        if waiting:
            watch()
            time.sleep(_LOOK)


class _Watch:
    """Shows how far the parts are, from their files."""

    def __init__(self, kelvin: str, run: Path, bar: Any) -> None:
        self._command, self._bar, self._next = [kelvin, "status", str(run), "--json"], bar, 0.0

    def __call__(self) -> None:
        begun = time.monotonic()
        if type(self._bar) is Silent or begun < self._next:
            return
        self._look()
        # The files of many shards take a while to look at.
        self._next = time.monotonic() + 10 * (time.monotonic() - begun)

    def _look(self) -> None:
        told = subprocess.run(self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if told.returncode != 0:
            return
        parts = json.loads(told.stdout)
        stage, shown_parts = ("searching", [parts["search"]]) if parts["search"]["state"] != "done" else ("sampling", parts["shards"])
        statuses = [part["status"] for part in shown_parts if part.get("status")]
        done, steps = (sum(status[key] for status in statuses) for key in ("steps_done", "steps"))
        left = [status["seconds_left"] for status in statuses if status.get("seconds_left") is not None]
        # Shards that have not begun are as long as the others.
        steps = steps * len(shown_parts) // max(len(statuses), 1)
        self._bar(stage, done, max(steps, 1), None, max(left) if left else None, [])


class _Local:
    """Processes of this machine."""

    def __init__(self, run: Path, resources: Dict[str, Any], retries: int) -> None:
        self._pool = ThreadPoolExecutor(resources.pop("workers", 2))
        _refuse("local", resources)

    def submit(self, arguments: List[str]) -> Any:
        return self._pool.submit(carry_out, arguments)

    def ended(self, task: Any) -> Optional[Ended]:
        return task.result() if task.done() else None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class _Ray:
    """Tasks of Ray: of the cluster that is connected, of the one that RAY_ADDRESS names, or of this machine."""

    def __init__(self, run: Path, resources: Dict[str, Any], retries: int) -> None:
        try:
            import ray
        except ImportError as error:
            raise InputError("executor=\"ray\" needs Ray: `pip install ray`") from error
        self._ray = ray
        if not ray.is_initialized():
            ray.init(log_to_driver=False)
        # Ray itself tries a task again whose worker or machine is lost.
        self._task = ray.remote(carry_out).options(max_retries=retries, **resources)

    def submit(self, arguments: List[str]) -> Any:
        return self._task.remote(arguments)

    def ended(self, task: Any) -> Optional[Ended]:
        ready, _ = self._ray.wait([task], timeout=0)
        if not ready:
            return None
        try:
            return Ended(*self._ray.get(task))
        except self._ray.exceptions.RayError as error:
            return Ended(1, f"Ray lost the task: {error}")

    def close(self) -> None:
        """The cluster is whoever's it was."""


class _Submitit:
    """Jobs of submitit, which go through Slurm where it is there."""

    def __init__(self, run: Path, resources: Dict[str, Any], retries: int) -> None:
        try:
            import submitit
        except ImportError as error:
            raise InputError("executor=\"submitit\" needs submitit: `pip install submitit`") from error
        self._executor = submitit.AutoExecutor(folder=run / "cluster", cluster=resources.pop("cluster", None))
        self._executor.update_parameters(**resources)

    def submit(self, arguments: List[str]) -> Any:
        return self._executor.submit(Job(), arguments)

    def ended(self, task: Any) -> Optional[Ended]:
        if not task.done():
            return None
        try:
            return Ended(*task.result())
        # Whatever has become of the job, and it has many names for that.
        except Exception as error:  # noqa: BLE001
            return Ended(1, f"submitit lost the job: {error}")

    def close(self) -> None:
        """Jobs end by themselves."""


class Job:
    """A task as a job of submitit: where its time is over or its machine is taken away, it is queued again."""

    def __call__(self, arguments: List[str]) -> Ended:
        return carry_out(arguments)

    def checkpoint(self, arguments: List[str]) -> Any:
        """What to queue again; the program is told to stop when this process ends, and stores what it has."""
        import submitit

        return submitit.helpers.DelayedSubmission(self, arguments)


def _refuse(executor: str, resources: Mapping[str, Any]) -> None:
    if resources:
        raise InputError(f"executor={executor!r} knows no resource {', '.join(map(repr, resources))}; it has workers")


_EXECUTORS = {"local": _Local, "ray": _Ray, "submitit": _Submitit}
