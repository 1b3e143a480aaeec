"""Progress of long work: a bar of tqdm where it is installed, else a line of text; nothing where nobody looks."""

from __future__ import annotations

import numbers
import sys
import warnings
from typing import Any, Callable, Optional, Union

from .errors import InputError, KelvinWarning

ProgressSetting = Union[bool, str, Callable[..., None]]


def in_notebook() -> bool:
    """Whether cells are shown in a notebook."""
    shell = sys.modules.get("IPython")
    if shell is None:
        return False
    instance = shell.get_ipython()
    return instance is not None and instance.__class__.__name__ == "ZMQInteractiveShell"


def seconds_text(seconds: float) -> str:
    """A duration as people say it.

    >>> seconds_text(42.4), seconds_text(150), seconds_text(7300)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds} s"
    if seconds < 3600:
        return f"{seconds // 60} min {seconds % 60} s"
    return f"{seconds // 3600} h {seconds % 3600 // 60} min"


class Silent:
    """Shows no bar; notes are still warned of."""

    def __call__(self, stage, done, steps, rate, left, notes) -> None:
        for note in notes:
            warnings.warn(note, KelvinWarning, stacklevel=2)

    def close(self) -> None:
        """Nothing is left to be tidied up."""


class Line(Silent):
    """One line on standard error that is written over."""

    def __init__(self) -> None:
        self._width = 0

    def __call__(self, stage, done, steps, rate, left, notes) -> None:
        super().__call__(stage, done, steps, rate, left, notes)
        if stage is None:
            return
        share = done / max(steps, 1)
        text = f"{stage} {'━' * int(24 * share):┄<24} {100 * share:3.0f} %"
        if left is not None:
            text += f"  {seconds_text(left)} left"
        sys.stderr.write("\r" + text.ljust(self._width))
        sys.stderr.flush()
        self._width = len(text)

    def close(self) -> None:
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


class Tqdm(Silent):
    """A bar of tqdm for each stage, in terminals and notebooks."""

    def __init__(self, tqdm: Any) -> None:
        self._tqdm, self._bar, self._stage = tqdm, None, None

    def __call__(self, stage, done, steps, rate, left, notes) -> None:
        super().__call__(stage, done, steps, rate, left, notes)
        if stage is None:
            return
        if stage != self._stage:
            self.close()
            self._stage, self._bar = stage, self._tqdm(total=steps, desc=stage, unit=" steps", unit_scale=True, leave=False)
        self._bar.total = steps
        self._bar.update(done - self._bar.n)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def shown(setting: ProgressSetting) -> Any:
    """What shows progress: `"auto"` for a bar in terminals and notebooks, True for a bar anywhere, False for none, or a function of
    `(stage, steps_done, steps, steps_per_second, seconds_left, notes)`."""
    if callable(setting):
        return _Function(setting)
    if not isinstance(setting, bool) and setting != "auto":
        raise InputError(f'progress must be "auto", True, False or a function, got {setting!r}')
    if setting == "auto":
        setting = in_notebook() or bool(getattr(sys.stderr, "isatty", lambda: False)())
    if not setting:
        return Silent()
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return Line()
    return Tqdm(tqdm)


class _Function(Silent):
    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function

    def __call__(self, *moment) -> None:
        self._function(*moment)


def threads(n_jobs: Optional[int]) -> Optional[int]:
    """The number of threads that scikit-learn's `n_jobs` means; None for all processors.

    >>> threads(None), threads(-1), threads(2)
    (None, None, 2)
    """
    if n_jobs is None:
        return None
    if not isinstance(n_jobs, numbers.Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise InputError(f"n_jobs must be a number of threads, -1 for all processors, or None, got {n_jobs!r}")
    if n_jobs == -1:
        return None
    if n_jobs < -1:
        import os

        return max(1, (os.cpu_count() or 1) + 1 + n_jobs)
    return int(n_jobs)
