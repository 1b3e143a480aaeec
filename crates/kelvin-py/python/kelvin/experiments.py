"""Presets and files of settings, run as the program `kelvin` runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Union

from . import _kelvin
from .progress import ProgressSetting, shown, threads
from .request import Budget, request


class Run(NamedTuple):
    """A finished run."""

    #: Its folder, with report.html, figures, draws and metrics.
    folder: Path
    #: Everything that it found, as in results.json.
    results: Dict[str, Any]

    @property
    def beta(self) -> Optional[float]:
        """The β that was chosen."""
        return self.results["beta_star"]


def run(
    experiment: Union[str, Path],
    *,
    device: str = "auto",
    seed: Optional[int] = None,
    folder: Union[None, str, Path] = None,
    quick: bool = False,
    grid: bool = False,
    sampler: str = "auto",
    folds: Optional[int] = None,
    budget: Budget = None,
    settings: Optional[Mapping[str, Any]] = None,
    data_dir: Union[None, str, Path] = None,
    n_jobs: Optional[int] = None,
    progress: ProgressSetting = "auto",
) -> Run:
    """Runs a preset (``"concrete"``, ``"cifar10"``) or a file of settings (``experiment.toml``), as ``kelvin run`` does.

    A run that was stopped goes on from there when it is called again with the same arguments.

    >>> import kelvin, tempfile
    >>> run = kelvin.run("concrete", quick=True, budget=400, folder=tempfile.mkdtemp(), progress=False)
    >>> run.results["name"], run.beta > 0
    ('concrete-quick', True)
    """
    bar = shown(progress)
    try:
        path = _kelvin.run_experiment(
            name=str(experiment),
            request=request(
                seed=seed, sampler=sampler, quick=quick, folds=folds, budget=budget, settings=settings
            ),
            grid=bool(grid),
            device=device,
            threads=threads(n_jobs),
            folder=None if folder is None else Path(folder),
            data_folder=None if data_dir is None else Path(data_dir),
            progress=bar,
        )
    finally:
        bar.close()
    return Run(Path(path), json.loads((Path(path) / "results.json").read_text(encoding="utf-8")))
