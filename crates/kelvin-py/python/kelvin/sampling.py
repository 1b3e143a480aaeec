"""Chains of one's own energy: any function of NumPy, PyTorch or JAX that gives U and ∇U for all chains at once."""

from __future__ import annotations

import inspect
import math
import numbers
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import _kelvin
from .arviz import Groups, to_arviz
from .errors import InputError, KelvinWarning
from .progress import ProgressSetting, shown, threads
from .request import MOST_SEED, whole

#: Numbers of a position up to which diagnostics of each are worth their time.
MOST_DIAGNOSED = 2000
#: Draws, or steps between them, that can be counted.
MOST_STEPS = 2**40


class Draws:
    """Draws of :func:`kelvin.sample`, with what was measured on the way."""

    def __init__(self, found: Mapping[str, Any], tensors: Mapping[str, tuple], beta: np.ndarray, n_jobs: Optional[int]) -> None:
        #: Positions of shape [chains, draws, dim].
        self.positions: np.ndarray = np.ascontiguousarray(np.swapaxes(found["positions"], 0, 1))
        #: U at each draw, of shape [chains, draws].
        self.energies: np.ndarray = np.ascontiguousarray(found["energies"].T)
        #: β of each chain.
        self.beta: np.ndarray = beta
        #: Mean kinetic temperature of each chain after the warm-up, and what it should be: T.
        self.kinetic_temperature: np.ndarray = found["kinetic_temperature"]
        self.kinetic_target: np.ndarray = found["kinetic_target"]
        #: Step size of each chain, and its mass for each tensor.
        self.step_size: np.ndarray = found["step_size"]
        self.masses: np.ndarray = found["masses"]
        #: The step at which each chain left the finite numbers; None for those that did not.
        self.diverged_at: List[Optional[int]] = found["diverged_at"]
        #: False where an interrupt cut the draws short.
        self.finished: bool = found["finished"]
        self._tensors = dict(tensors)
        self._threads = threads(n_jobs)
        self._diagnosed: Optional[np.ndarray] = None

    def __repr__(self) -> str:
        chains, draws, dim = self.positions.shape
        lost = sum(at is not None for at in self.diverged_at)
        lost = f", {lost} chains left the finite numbers" if lost else ""
        cut = "" if self.finished else ", cut short"
        return f"Draws(chains={chains}, draws={draws}, dim={dim}, R̂ of U={self.energy_rhat:.3f}{lost}{cut})"

    def __getitem__(self, name: str) -> np.ndarray:
        """The draws of a named tensor, of shape [chains, draws, …]."""
        place = 0
        for other, shape in self._tensors.items():
            size = int(np.prod(shape, dtype=int))
            if other == name:
                return self.positions[:, :, place : place + size].reshape(*self.positions.shape[:2], *shape)
            place += size
        raise KeyError(f"there is no tensor {name!r}; there are {', '.join(self._tensors)}")

    def diagnose(self, values: np.ndarray) -> Dict[str, np.ndarray]:
        """R̂, bulk and tail effective sample size of numbers [chains, draws, …]; NaN where there are too few draws."""
        values = np.asarray(values, dtype=np.float64)
        if values.ndim < 2:
            raise InputError(f"values must be of shape [chains, draws, …], got {list(values.shape)}")
        flat = np.ascontiguousarray(values.reshape(*values.shape[:2], math.prod(values.shape[2:])))
        found = np.asarray(_kelvin.diagnose_draws(flat, self._threads)).reshape(-1, 3)
        names = ("rhat", "bulk_ess", "tail_ess")
        return {name: found[:, index].reshape(values.shape[2:]) for index, name in enumerate(names)}

    def _of_positions(self, name: str) -> np.ndarray:
        if self._diagnosed is None:
            if self.positions.shape[2] > MOST_DIAGNOSED:
                raise InputError(
                    f"positions have {self.positions.shape[2]} numbers; diagnose those that matter: draws.diagnose(draws.positions[..., :10])"
                )
            self._diagnosed = self.diagnose(self.positions)
        return self._diagnosed[name]

    @property
    def rhat(self) -> np.ndarray:
        """R̂ of each number of a position: 1 where chains agree."""
        return self._of_positions("rhat")

    @property
    def ess(self) -> np.ndarray:
        """Bulk effective sample size of each number of a position, over all chains."""
        return self._of_positions("bulk_ess")

    @property
    def energy_rhat(self) -> float:
        """R̂ of U."""
        return float(self.diagnose(self.energies)["rhat"])

    def groups(self) -> Groups:
        """The draws in ArviZ's groups."""
        kinetic = np.broadcast_to(self.kinetic_temperature[:, None], self.energies.shape)
        diverging = np.broadcast_to(np.array([at is not None for at in self.diverged_at])[:, None], self.energies.shape)
        return {
            "posterior": {name: self[name] for name in self._tensors},
            "sample_stats": {"potential_energy": self.energies, "kinetic_temperature": kinetic, "diverging": diverging},
        }

    def to_arviz(self) -> Any:
        """The draws as ArviZ takes them, where ArviZ is installed; else arrays by group and name."""
        return to_arviz(self.groups())


def _as_numpy(array: Any, dtype: Any) -> np.ndarray:
    """An array of any library as one of NumPy, without a copy where it lies in memory as it should."""
    if type(array).__module__.startswith("torch"):
        array = array.detach()
        if array.device.type != "cpu":
            array = array.cpu()
        array = array.numpy()
    elif not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__") and not hasattr(array, "__array__"):
        array = np.from_dlpack(array)
    return np.asarray(array, dtype=dtype)


def into(arrays: str) -> Callable[[np.ndarray], Any]:
    """What turns a NumPy array into one of a library, sharing its memory."""
    if arrays == "numpy":
        return lambda array: array
    if arrays == "torch":
        import torch

        return torch.from_numpy
    if arrays == "jax":
        from jax import dlpack

        return dlpack.from_dlpack
    raise InputError(f'arrays must be "numpy", "torch" or "jax", got {arrays!r}')


def callback(function: Callable[..., Any], arrays: str) -> Callable[[np.ndarray, int], tuple]:
    """The function as the extension module calls it."""
    convert = into(arrays)
    try:
        takes_step = "step" in inspect.signature(function).parameters
    except (TypeError, ValueError):
        takes_step = False

    def evaluate(positions: np.ndarray, step: int) -> tuple:
        given = convert(positions)
        answer = function(given, step=step) if takes_step else function(given)
        if not (isinstance(answer, (tuple, list)) and len(answer) == 2):
            raise InputError(f"energy_and_gradient must return a pair (energies, gradients), got {type(answer).__name__}")
        energy, gradient = answer
        if type(energy) is not np.ndarray or energy.dtype != np.float64:
            energy = _as_numpy(energy, np.float64)
        if type(gradient) is not np.ndarray or gradient.dtype != np.float32:
            gradient = _as_numpy(gradient, np.float32)
        if energy.ndim != 1 or gradient.ndim != 2:
            raise InputError(
                f"energy_and_gradient must return energies of shape [chains] and gradients of shape [chains, dim] for positions of shape "
                f"{list(positions.shape)}, got {list(energy.shape)} and {list(gradient.shape)}"
            )
        return energy, gradient

    return evaluate


def each_beta(beta: Any, chains: int) -> np.ndarray:
    """β of each chain.

    >>> each_beta(0.5, 2), each_beta([1, 2], 2)
    (array([0.5, 0.5]), array([1., 2.]))
    """
    try:
        betas = np.asarray(beta, dtype=np.float64)
    except (TypeError, ValueError):
        betas = np.empty((0, 0))
    if betas.shape not in ((), (1,), (chains,)):
        raise InputError(f"beta must be a number > 0, or one for each of {chains} chains, got {beta!r}")
    return np.broadcast_to(betas, (chains,)).copy()


def plan(
    *,
    betas: np.ndarray,
    sampler: str,
    step_size: Optional[float],
    friction: Optional[float],
    clip_norm: float,
    warm_up: int,
    draws: int,
    thin: int,
    seed: int,
    tensors: List[Tuple[str, int]],
    on_interrupt: str,
    n_jobs: Optional[int],
) -> Dict[str, Any]:
    """How the extension module is to sample, checked."""
    for name, found, least in (("draws", draws, 1), ("warm_up", warm_up, 0), ("thin", thin, 1)):
        whole(name, found, least, MOST_STEPS)
    for name, number in (("step_size", step_size), ("friction", friction), ("clip_norm", clip_norm)):
        if not (number is None or isinstance(number, numbers.Real) and number > 0):
            raise InputError(f"{name} must be a number > 0, got {number!r}")
    if on_interrupt not in ("raise", "return"):
        raise InputError(f'on_interrupt must be "raise" or "return", got {on_interrupt!r}')
    asked = {
        "betas": betas.tolist(),
        "sampler": sampler,
        "step_size": None if step_size is None else float(step_size),
        "friction": None if friction is None else float(friction),
        "clip_norm": float(clip_norm),
        "warm_up": int(warm_up),
        "draws": int(draws),
        "thin": int(thin),
        "seed": whole("seed", seed, 0, MOST_SEED),
        "tensors": tensors,
        "keep_on_interrupt": on_interrupt == "return",
        "threads": threads(n_jobs),
    }
    _kelvin.check_sampling(asked)
    return asked


def sample(
    energy_and_gradient: Callable[..., Any],
    init: Any,
    *,
    beta: Union[float, Sequence[float]] = 1.0,
    draws: int = 1000,
    warm_up: int = 1000,
    thin: int = 10,
    sampler: str = "baoab",
    step_size: Optional[float] = None,
    friction: Optional[float] = None,
    clip_norm: float = float("inf"),
    seed: int = 0,
    tensors: Optional[Mapping[str, Any]] = None,
    arrays: str = "numpy",
    on_interrupt: str = "raise",
    n_jobs: Optional[int] = None,
    progress: ProgressSetting = "auto",
) -> Draws:
    """Samples exp(−β U(θ)) by chains that step together.

    Without a step size each chain finds its own during the warm-up, with one mass for each tensor, from the curvature where it is.

    Parameters
    ----------
    energy_and_gradient : function
        Called with positions ``[chains, dim]`` (float32), returns U ``[chains]`` and ∇U ``[chains, dim]``; arrays of any library. One
        that takes ``step`` is told the step, by which minibatches may be chosen: the same step must give the same rows.
    init : array
        Starts of the chains, ``[chains, dim]``.
    beta : float or sequence of float
        Inverse temperature of all chains, or of each.
    draws, warm_up, thin : int
        Draws kept by each chain; steps before the first; steps from one draw to the next.
    sampler : str
        ``"baoab"`` or ``"mclmc"``, which find their step size; ``"sghmc"``, ``"baoa"``, ``"sgld"``, ``"sgnht"`` with one given.
    step_size, friction : float, optional
        h and γ; a step keeps ``exp(−hγ)`` of the momentum (``1 − hγ`` with ``"sghmc"``).
    clip_norm : float
        Longer gradients are scaled down to it.
    seed : int
        Names all random numbers.
    tensors : dict, optional
        Names and shapes of the tensors that a position consists of, in order: each has a mass of its own.
    arrays : "numpy", "torch" or "jax"
        What positions are given as; their memory is shared, not copied.
    on_interrupt : "raise" or "return"
        What Ctrl-C does: raise KeyboardInterrupt, or return what was drawn so far.

    Examples
    --------
    >>> import numpy as np, kelvin
    >>> def energy_and_gradient(theta):                  # [chains, 2]: two normal numbers, of standard deviations 1 and 0.1
    ...     gradient = theta * np.float32([1.0, 100.0])
    ...     return 0.5 * (theta * gradient).sum(axis=1), gradient
    >>> found = kelvin.sample(energy_and_gradient, np.zeros((4, 2)), beta=0.25, draws=500, progress=False)
    >>> found.positions.shape
    (4, 500, 2)
    >>> [f"{std:.1f}" for std in found.positions.std(axis=(0, 1))]   # T = 4 doubles them
    ['2.0', '0.2']
    >>> bool((found.rhat < 1.05).all())
    True
    """
    if not callable(energy_and_gradient):
        raise InputError(f"energy_and_gradient must be a function of positions [chains, dim], got {energy_and_gradient!r}")
    positions = np.ascontiguousarray(_as_numpy(init, np.float32))
    if positions.ndim != 2 or 0 in positions.shape:
        raise InputError(f"init must be of shape [chains, dim], got {list(positions.shape)}")
    if not np.isfinite(positions).all():
        raise InputError("init holds numbers that are not finite")
    chains, dim = positions.shape
    betas = each_beta(beta, chains)
    shapes = {name: _shape(shape) for name, shape in (tensors or {"theta": (dim,)}).items()}
    sizes = [(name, int(np.prod(shape, dtype=int))) for name, shape in shapes.items()]
    if sum(size for _, size in sizes) != dim or any(size < 1 for _, size in sizes):
        raise InputError(f"tensors have {sum(size for _, size in sizes)} numbers in all, and positions {dim}: {dict(shapes)}")
    asked = plan(
        betas=betas,
        sampler=sampler,
        step_size=step_size,
        friction=friction,
        clip_norm=clip_norm,
        warm_up=warm_up,
        draws=draws,
        thin=thin,
        seed=seed,
        tensors=sizes,
        on_interrupt=on_interrupt,
        n_jobs=n_jobs,
    )
    bar = shown(progress)
    try:
        found = _kelvin.sample_energy(
            callback(energy_and_gradient, arrays),
            positions,
            asked,
            bar,
        )
    finally:
        bar.close()
    lost = [chain for chain, at in enumerate(found["diverged_at"]) if at is not None]
    if lost:
        warnings.warn(
            f"{len(lost)} of {chains} chains left the finite numbers ({lost[0]} at step {found['diverged_at'][lost[0]]}): do not use their draws\n"
            "  take a smaller step_size, a clip_norm, or other starts",
            KelvinWarning,
            stacklevel=2,
        )
    return Draws(found, shapes, betas, n_jobs)


def _shape(shape: Any) -> tuple:
    return tuple(int(length) for length in np.atleast_1d(shape)) if np.ndim(shape) else (int(shape),)
