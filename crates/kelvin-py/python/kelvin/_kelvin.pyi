from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

Column = Tuple[str, Union[np.ndarray, List[Optional[str]]]]

class Model:
    beta: float
    label: str
    asked: Optional[str]
    feature_names: List[str]
    class_names: List[str]
    warnings: List[str]
    results: str
    @staticmethod
    def load(folder: Path, model: Optional[str] = None) -> "Model": ...
    @staticmethod
    def from_files(files: Mapping[str, bytes], model: Optional[str] = None) -> "Model": ...
    def save(self, folder: Path) -> None: ...
    def files(self) -> Dict[str, bytes]: ...
    def report(self) -> str: ...
    def numbers(
        self, columns: Sequence[Column], probabilities: Sequence[float], threads: Optional[int]
    ) -> Tuple[Dict[str, Any], List[str]]: ...
    def classes(self, columns: Sequence[Column], threads: Optional[int]) -> Tuple[Dict[str, np.ndarray], List[str]]: ...
    def draws(self) -> Tuple[Dict[str, np.ndarray], Dict[str, np.ndarray]]: ...

def fit_table(
    *,
    columns: Sequence[Column],
    request: Mapping[str, Any],
    device: str,
    threads: Optional[int],
    folder: Optional[Path],
    progress: Optional[Callable[..., None]],
    model: Optional[str] = None,
    numbers: Optional[np.ndarray] = None,
    targets: Optional[Sequence[str]] = None,
    labels: Optional[np.ndarray] = None,
    classes: Optional[Sequence[str]] = None,
    weights: Optional[np.ndarray] = None,
) -> Model: ...
def run_experiment(
    *,
    name: str,
    request: Mapping[str, Any],
    grid: bool,
    device: str,
    threads: Optional[int],
    folder: Optional[Path],
    data_folder: Optional[Path],
    progress: Optional[Callable[..., None]],
) -> Path: ...
def check_sampling(sampling: Mapping[str, Any]) -> None: ...
def sample_energy(
    function: Callable[[np.ndarray, int], Tuple[np.ndarray, np.ndarray]],
    init: np.ndarray,
    sampling: Mapping[str, Any],
    progress: Optional[Callable[..., None]],
) -> Dict[str, Any]: ...
def diagnose_draws(draws: np.ndarray, threads: Optional[int]) -> np.ndarray: ...
def search_beta(
    tempered: Callable[[np.ndarray, Optional[np.ndarray], float], Tuple[float, float, np.ndarray]],
    validate: Callable[[np.ndarray, float], float],
    start: np.ndarray,
    repetition: int,
    plan: Mapping[str, Any],
    progress: Optional[Callable[..., None]] = None,
) -> Dict[str, Any]: ...
