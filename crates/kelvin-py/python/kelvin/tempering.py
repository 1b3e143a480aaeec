"""A temperature for a model of PyTorch or JAX: the joint search over (θ, log β), then chains at the β that it found."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import numpy as np

from . import _kelvin
from .errors import InputError
from .models import Targets, model_of
from .progress import ProgressSetting, shown
from .sampling import Draws, plan, sample

#: Steps of a search, where no number of epochs is given.
SEARCH_STEPS = 3000


class SearchPath(NamedTuple):
    """A search from one start."""

    #: The best β.
    beta: float
    #: Its validation score: mean log p(y|x,θ,β) of a row.
    validation_lpd: float
    #: Every look at the validation rows: (step, β, score).
    path: List[Tuple[int, float, float]]
    #: The step at which it left the finite numbers; None if it did not.
    diverged_at: Optional[int]


class Choice:
    """A β for a model, and draws of its tempered posterior there."""

    def __init__(self, model: Any, beta: float, searches: List[SearchPath], draws: Draws, validation: Tuple[Any, Targets]) -> None:
        #: β̂*: the β of the search with the best validation score.
        self.beta: float = beta
        #: The searches, one from each start.
        self.searches: List[SearchPath] = searches
        #: The draws at β̂*, with their diagnostics.
        self.draws: Draws = draws
        self._model, self._validation = model, validation
        self._lpd: Optional[Dict[str, float]] = None

    def __repr__(self) -> str:
        betas = ", ".join(f"{search.beta:.3g}" for search in self.searches)
        return f"Choice(beta={self.beta:.3g} of {betas}; {self.draws!r})"

    def _thetas(self) -> np.ndarray:
        return np.ascontiguousarray(self.draws.positions.reshape(-1, self.draws.positions.shape[2]))

    def _power(self, model: str) -> float:
        if model not in ("standard", "tempered"):
            raise InputError(f'model must be "standard" or "tempered", got {model!r}')
        return self.beta if model == "tempered" else 1.0

    def predict_proba(self, x: Any, model: str = "standard") -> np.ndarray:
        """The probability of each class for each row, averaged over the draws."""
        if not self._model.targets.is_class:
            raise InputError("the model predicts numbers; use predict")
        power, total, count = self._power(model), 0.0, 0
        for outputs in self._model.in_lots(self._thetas(), x):
            logits = power * outputs.astype(np.float64)
            weights = np.exp(logits - logits.max(axis=2, keepdims=True))
            total = total + (weights / weights.sum(axis=2, keepdims=True)).sum(axis=0)
            count += len(outputs)
        return total / count

    def predict(self, x: Any, model: str = "standard") -> Any:
        """The most probable class of each row; of numbers mean and standard deviation."""
        if self._model.targets.is_class:
            return self.predict_proba(x, model).argmax(axis=1)
        outputs = np.concatenate([lot.reshape(lot.shape[:2]) for lot in self._model.in_lots(self._thetas(), x)]).astype(np.float64)
        variance = self._model.targets.noise_variance / self._power(model)
        return outputs.mean(axis=0), np.sqrt(variance + outputs.var(axis=0))

    def lpd(self, x: Any, y: Any) -> Dict[str, float]:
        """Mean log predictive density of rows under the standard and the tempered model."""
        targets = Targets(y, self._model.targets.noise_variance)
        found = {}
        for name in ("standard", "tempered"):
            lots = [targets.log_densities(outputs, self._power(name)) for outputs in self._model.in_lots(self._thetas(), x)]
            densities = np.concatenate(lots)
            largest = densities.max(axis=0)
            found[name] = float((largest + np.log(np.exp(densities - largest).mean(axis=0))).mean())
        return found

    @property
    def validation_lpd(self) -> Dict[str, float]:
        """:meth:`lpd` of the validation rows."""
        if self._lpd is None:
            x, targets = self._validation
            self._lpd = self.lpd(x, targets.values)
        return self._lpd

    def to_arviz(self) -> Any:
        """The draws as ArviZ takes them, where ArviZ is installed; else arrays by group and name."""
        return self.draws.to_arviz()


class Batches:
    """Rows of each step: a permutation of all of them for each epoch, cut into batches; all rows where there is no batch size."""

    def __init__(self, num_rows: int, batch_size: Optional[int], seed: int) -> None:
        self._num_rows, self._batch_size, self._seed = num_rows, batch_size, seed
        self._epoch, self._order = -1, np.empty(0, dtype=np.int64)

    def __call__(self, step: int) -> Optional[np.ndarray]:
        if self._batch_size is None:
            return None
        epoch, place = divmod(step, self._num_rows // self._batch_size)
        if epoch != self._epoch:
            self._epoch = epoch
            self._order = np.random.default_rng([self._seed, epoch]).permutation(self._num_rows)
        return self._order[place * self._batch_size : (place + 1) * self._batch_size]


def select_beta(
    module: Any,
    train: Tuple[Any, Any],
    validation: Tuple[Any, Any],
    *,
    noise_variance: float = 0.1,
    prior_variance: float = 0.1,
    chains: int = 4,
    batch_size: Optional[int] = None,
    search_epochs: Optional[int] = None,
    learning_rate: Optional[float] = None,
    weight_decay: float = 1.0,
    draws: int = 100,
    warm_up: int = 2000,
    thin: int = 20,
    sampler: Optional[str] = None,
    step_size: Optional[float] = None,
    friction: Optional[float] = None,
    clip_norm: float = 1e6,
    seed: int = 0,
    on_interrupt: str = "raise",
    n_jobs: Optional[int] = None,
    progress: ProgressSetting = "auto",
) -> Choice:
    """Chooses β for a model by one optimisation of (θ, log β) on its tempered likelihood, and samples the tempered posterior there.

    Parameters
    ----------
    module : torch.nn.Module, or (apply, parameters)
        The model. A module of PyTorch gives logits or means; its parameters are θ. Of JAX ``apply(parameters, inputs)`` gives them.
    train, validation : (inputs, targets)
        Rows to learn from, and rows by whose score the best place of a search is kept. Integer targets are classes from 0, others numbers.
    noise_variance : float
        σ² of numbers: the tempered likelihood is N(μ, σ²/β).
    prior_variance : float
        Variance of the normal prior of every weight.
    chains : int
        Searches, each from a start of its own, and then chains.
    batch_size : int, optional
        Rows of a step; all if not given.
    search_epochs, learning_rate, weight_decay :
        The search: SGD with momentum 0.9 on the sum over all rows, cosine schedule.
    draws, warm_up, thin, sampler, step_size, friction, clip_norm :
        As in :func:`kelvin.sample`. With all rows chains find their step size; with minibatches SGHMC has ``h = √(0.01/n)`` if none is given.
    on_interrupt : "raise" or "return"
        What Ctrl-C does while chains are sampled, as in :func:`kelvin.sample`. While β is searched for it raises KeyboardInterrupt.

    Examples
    --------
    >>> import numpy as np, kelvin, torch
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=(300, 2)).astype("float32")
    >>> y = (x[:, 0] * x[:, 1] > 0).astype(int)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    >>> choice = kelvin.select_beta(net, (x[:200], y[:200]), (x[200:], y[200:]), chains=2, search_epochs=200, draws=20, progress=False)
    >>> choice.beta > 0, choice.predict_proba(x[:5]).shape
    (True, (5, 2))
    """
    model = model_of(module, train, prior_variance, noise_variance)
    held_out = (validation[0], Targets(validation[1], noise_variance))
    if held_out[1].is_class != model.targets.is_class:
        raise InputError("targets of train and validation are of different kinds: one holds classes, the other numbers")
    num_rows = model.num_rows
    batch_size = None if batch_size is None or batch_size >= num_rows else int(batch_size)
    if batch_size is not None and batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    if chains < 1:
        raise InputError(f"chains must be at least 1, got {chains}")
    steps_per_epoch = 1 if batch_size is None else num_rows // batch_size
    if sampler is None:
        sampler = "baoab" if batch_size is None or step_size is not None else "sghmc"
    if step_size is None and sampler == "sghmc":
        step_size = math.sqrt(0.01 / num_rows)
        friction = 0.02 / step_size if friction is None else friction
    # Refused before the search, and not after it.
    plan(
        betas=np.ones(1),
        sampler=sampler,
        step_size=step_size,
        friction=friction,
        clip_norm=clip_norm,
        warm_up=warm_up,
        draws=draws,
        thin=thin,
        seed=seed,
        tensors=[],
        on_interrupt=on_interrupt,
        n_jobs=n_jobs,
    )
    if learning_rate is None:
        learning_rate = (0.05 if model.targets.is_class else 0.02 * noise_variance) / num_rows
    search = {
        "num_rows": num_rows,
        "batch_size": batch_size,
        "epochs": int(search_epochs or max(1, math.ceil(SEARCH_STEPS / steps_per_epoch))),
        "checkpoints": 20,
        "learning_rate": float(learning_rate),
        "momentum": 0.9,
        "weight_decay": float(weight_decay),
        "clip_norm": float(clip_norm),
        "seed": int(seed),
        "starts": int(chains),
    }

    def validate(theta: np.ndarray, beta: float) -> float:
        return model.validation_lpd(theta, held_out[0], held_out[1], beta)

    bar = shown(progress)
    try:
        found = [
            _kelvin.search_beta(model.tempered, validate, model.start(repetition, seed), repetition, search, bar)
            for repetition in range(chains)
        ]
    finally:
        bar.close()
    searches = [SearchPath(one["beta"], one["validation_lpd"], one["path"], one["diverged_at"]) for one in found]
    beta = max(searches, key=lambda search: search.validation_lpd).beta
    rows = Batches(num_rows, batch_size, seed)

    def energy_and_gradient(thetas: np.ndarray, step: int) -> Tuple[np.ndarray, np.ndarray]:
        return model.energies(thetas, rows(step))

    kept = sample(
        energy_and_gradient,
        np.stack([one["position"] for one in found]),
        beta=beta,
        draws=draws,
        warm_up=warm_up,
        thin=thin,
        sampler=sampler,
        step_size=step_size,
        friction=friction,
        clip_norm=clip_norm,
        seed=seed,
        tensors=model.shapes,
        on_interrupt=on_interrupt,
        n_jobs=n_jobs,
        progress=progress,
    )
    return Choice(model, beta, searches, kept, held_out)
