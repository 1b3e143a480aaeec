"""Bayesian neural networks as estimators of scikit-learn."""

from __future__ import annotations

import html
import json
import numbers
import warnings
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, check_random_state, column_or_1d, validate_data

from . import _kelvin
from .arviz import draws_of, to_arviz
from .errors import InputError, KelvinError, KelvinWarning
from .progress import ProgressSetting, shown, threads
from .request import Budget, request
from .rows import Column, columns_of, is_frame, is_missing, numbers_alone, row_weights, these_rows

#: Fewest rows: two are learned from, one is held out to choose β by, one to be judged on.
FEWEST_ROWS = 4
#: The file beside a saved model that says which estimator it was.
ESTIMATOR = "estimator.json"


class Uncertainty(NamedTuple):
    """What a prediction does not know, in two parts. Of numbers these are standard deviations, of classes entropies in nats."""

    #: Noise of the data: more rows would not make it smaller.
    aleatoric: np.ndarray
    #: What the draws disagree about: more rows would make it smaller.
    epistemic: np.ndarray
    #: Both: `√(aleatoric² + epistemic²)` of numbers, `aleatoric + epistemic` of classes.
    total: np.ndarray


class _Estimator(BaseEstimator):
    """What both estimators do alike."""

    def __init__(
        self,
        *,
        hidden: Union[None, str, int, Sequence[int]] = None,
        beta: Union[str, float] = "auto",
        model: str = "best",
        likelihood: str = "auto",
        chains: int = 4,
        random_state: Any = 0,
        sampler: str = "auto",
        budget: Budget = None,
        folds: int = 0,
        quick: bool = False,
        settings: Optional[Mapping[str, Any]] = None,
        device: str = "auto",
        n_jobs: Optional[int] = None,
        progress: ProgressSetting = "auto",
        folder: Union[None, str, Path] = None,
    ) -> None:
        self.hidden = hidden
        self.beta = beta
        self.model = model
        self.likelihood = likelihood
        self.chains = chains
        self.random_state = random_state
        self.sampler = sampler
        self.budget = budget
        self.folds = folds
        self.quick = quick
        self.settings = settings
        self.device = device
        self.n_jobs = n_jobs
        self.progress = progress
        self.folder = folder

    def _seed(self) -> Any:
        if self.random_state is None or isinstance(self.random_state, np.random.RandomState):
            return int(check_random_state(self.random_state).randint(0, 2**31 - 1))
        return self.random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _learned_rows(
        self, X: Any, y: Any, sample_weight: Any, numeric: bool
    ) -> Tuple[List[Column], np.ndarray, Optional[np.ndarray]]:
        """Columns, answers and weights to learn from, checked; rows of weight 0 are left out."""
        columns, y = self._checked_rows(X, y, numeric)
        weights = row_weights(sample_weight, len(y))
        if weights is not None and not weights.all():
            counts = weights > 0
            if counts.sum() < FEWEST_ROWS:
                raise InputError(f"{counts.sum()} rows have a sample_weight above zero while a minimum of {FEWEST_ROWS} is required")
            columns, y, weights = these_rows(columns, counts), y[counts], row_weights(weights[counts], int(counts.sum()))
        return columns, y, weights

    def _checked_rows(self, X: Any, y: Any, numeric: bool) -> Tuple[List[Column], np.ndarray]:
        if is_frame(X):
            columns = columns_of(self, X, reset=True)
            if y is None:
                raise InputError("requires y to be passed, but the target y is None")
            y = _numbers_of(y) if numeric else column_or_1d(y, warn=True)
            check_consistent_length(columns[0][1] if columns else [], y)
            if len(y) < FEWEST_ROWS:
                raise InputError(f"found {len(y)} rows while a minimum of {FEWEST_ROWS} is required")
            if numeric and not np.isfinite(y).all():
                raise InputError("y holds values that are missing or infinite\n  leave these rows out")
            return columns, y
        with numbers_alone():
            X, y = validate_data(
                self,
                X,
                y,
                dtype=np.float64,
                y_numeric=numeric,
                multi_output=numeric,
                ensure_min_samples=FEWEST_ROWS,
                ensure_all_finite="allow-nan",
            )
        y = _numbers_of(y) if numeric else y
        return [(f"x{index}", np.ascontiguousarray(X[:, index])) for index in range(X.shape[1])], y

    def _fit(self, columns: List[Column], **answers: Any) -> None:
        progress = shown(self.progress)
        asked = request(
            seed=self._seed(),
            seed_name="random_state",
            sampler=self.sampler,
            likelihood=self.likelihood,
            quick=self.quick,
            folds=self.folds,
            budget=self.budget,
            beta=self.beta,
            chains=self.chains,
            hidden=self.hidden,
            settings=self.settings,
        )
        try:
            self._take(
                _kelvin.fit_table(
                    columns=columns,
                    request=asked,
                    device=self.device,
                    threads=threads(self.n_jobs),
                    folder=None if self.folder is None else Path(self.folder),
                    progress=progress,
                    model=None if self.model == "best" else self.model,
                    **answers,
                )
            )
        finally:
            progress.close()
        if self.warnings_:
            warnings.warn(
                "the fit raised warnings: read `warnings_` before you believe its results", KelvinWarning, stacklevel=3
            )

    def _take(self, model: Any) -> None:
        self.model_ = model
        self.beta_: float = model.beta
        self.predictor_: str = model.label
        self.warnings_: List[str] = model.warnings

    def _rows(self, X: Any) -> List[Column]:
        check_is_fitted(self)
        return columns_of(self, X, reset=False)

    def _tell(self, notes: Sequence[str]) -> None:
        for note in notes:
            warnings.warn(note, KelvinWarning, stacklevel=4)

    @property
    def results_(self) -> Dict[str, Any]:
        """Everything that the fit found, as in results.json of a run folder: scores, searches, chains, diagnostics."""
        check_is_fitted(self)
        return json.loads(self.model_.results)

    def report(self, path: Union[None, str, Path] = None) -> str:
        """The page about the fit, with its figures, as HTML; written to `path` if one is given."""
        check_is_fitted(self)
        page = self.model_.report()
        if path is not None:
            Path(path).write_text(page, encoding="utf-8")
        return page

    def draws(self) -> Dict[str, Dict[str, np.ndarray]]:
        """The draws by ArviZ's groups: weights under "posterior" and measurements under "sample_stats", of shape [chains, draws, …]."""
        check_is_fitted(self)
        return draws_of(self.model_)

    def to_arviz(self) -> Any:
        """The draws as ArviZ takes them, where ArviZ is installed; else what `draws` returns."""
        return to_arviz(self.draws())

    def save(self, path: Union[str, Path]) -> None:
        """Writes the fitted model as a folder that :func:`kelvin.load` and the program `kelvin` read."""
        check_is_fitted(self)
        self.model_.save(Path(path))
        parameters = {name: value for name, value in self.get_params(deep=False).items() if name not in ("progress", "folder")}
        parameters["random_state"] = None if isinstance(self.random_state, np.random.RandomState) else self.random_state
        about = {"estimator": type(self).__name__, "parameters": parameters, **self._learned()}
        text = json.dumps(about, indent=2, default=_plain)
        (Path(path) / ESTIMATOR).write_text(text + "\n", encoding="utf-8")

    def _learned(self) -> Dict[str, Any]:
        own = getattr(self, "feature_names_in_", None)
        return {"n_features_in": self.n_features_in_, "feature_names_in": None if own is None else [str(name) for name in own]}

    def _html(self) -> str:
        if not hasattr(self, "model_"):
            return f"<pre>{html.escape(repr(self))}</pre>"
        found = self.results_
        rows = [row for row in found["rows"]]
        lines = "".join(_html_row(row) for row in rows)
        warned = "".join(f"<li>{html.escape(text)}</li>" for text in self.warnings_)
        warned = f"<details open><summary>{len(self.warnings_)} warnings</summary><ul>{warned}</ul></details>" if warned else ""
        return (
            f"<div><b>{html.escape(type(self).__name__)}</b>: {html.escape(self.predictor_)} predicts, β̂* = {self.beta_:.3g}, "
            f"{html.escape(found['problem']['network'])}, {found['problem']['training_rows']} training rows"
            f"<table><thead><tr><th>model</th><th>β</th><th>test LPD</th></tr></thead><tbody>{lines}</tbody></table>{warned}</div>"
        )

    def _repr_html_(self) -> str:
        return self._html()

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, str]:
        return {"text/plain": repr(self), "text/html": self._html()}


def _numbers_of(y: Any) -> np.ndarray:
    """One number for each row, or a row of numbers for each where there are several targets.

    >>> _numbers_of([1, 2]), _numbers_of([[1, 2], [3, 4]]).shape
    (array([1., 2.]), (2, 2))
    """
    found = np.asarray(y, dtype=np.float64)
    return found if found.ndim == 2 and found.shape[1] > 1 else column_or_1d(y, dtype=np.float64, warn=True)


def _target_names(y: Any) -> Optional[List[str]]:
    """What several targets are called, where they have names."""
    if not is_frame(y) or len(y.columns) < 2:
        return None
    names = [str(name) for name in y.columns]
    twice = next((name for at, name in enumerate(names) if name in names[:at]), None)
    if twice is not None:
        raise InputError(f"y has two columns called `{twice}`\n  name each once")
    return names


def share(name: str, found: Any) -> float:
    """A number strictly between 0 and 1."""
    value = float(found) if isinstance(found, numbers.Real) else found
    if not (isinstance(value, float) and 0.0 < value < 1.0):
        raise InputError(f"{name} must be a share between 0 and 1, got {value!r}")
    return value


def _html_row(row: Dict[str, Any]) -> str:
    scores = next(iter(row["test"].values())) if isinstance(row.get("test"), dict) else {}
    lpd = scores.get("standard", {}).get("lpd")
    beta = row.get("beta")
    cells = [str(row.get("label", row.get("method"))), "" if beta is None else f"{beta:.3g}", "" if lpd is None else f"{lpd:.3f}"]
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (np.ndarray, tuple)):
        return np.asarray(value).tolist()
    raise TypeError(f"{value!r} cannot be saved")


class Regressor(RegressorMixin, _Estimator):
    """A Bayesian neural network that predicts numbers with their uncertainty, at a temperature chosen from the data.

    It does what ``kelvin run --data`` does with the same rows, settings and seed, to the same bits. Where ``y`` has several columns, one network predicts them
    together: targets share its hidden layers, and have outputs and noise of their own. Predictions then have a column for each.

    Parameters
    ----------
    hidden : int, sequence of int or "auto", optional
        Widths of the hidden layers; kelvin's default if not given. With ``"auto"`` a few are tried by short chains, and the first within one standard error
        of the best held-out score is used.
    beta : "auto" or float
        The inverse temperature β of the posterior: chosen from the data, or this one.
    model : str
        Which of the fit's models predicts: "best" for what scored best on held-out rows (or as well, and is simpler), or one of "bayes" (β = 1),
        "beta-star" (draws at the chosen β), "network", "ensemble", "laplace", "swag", "linear".
    likelihood : str
        How numbers scatter around what is predicted: "auto" tries those that suit them and takes the simplest that scores as well as the best; or
        "gaussian", "learned_gaussian", "varying_gaussian", "log_normal", "power_normal",
        "student_t", "varying_student_t", "poisson", "negative_binomial". Of a classifier "auto" only.
    chains : int
        Chains at each temperature, and starts of the search for β.
    random_state : int, RandomState or None
        Names all random numbers: the same number gives the same result. None draws a new one.
    sampler : "auto", "adaptive" or "paper"
        How chains are sampled; "auto" adapts step sizes where the table is small enough for full batches.
    budget : int or str, optional
        The most gradients at each temperature (``20000``), or the time that sampling may take (``"30s"``, ``"10m"``).
    folds : int
        Cross-validation inside the fit, for its report; 0 for none.
    quick : bool
        A rough answer in seconds.
    settings : dict, optional
        Any setting by name, as ``{"model.noise_variance": 0.1}``.
    device : "auto", "cpu" or "cuda"
        Where to work; "auto" takes a GPU where there is one that can do it.
    n_jobs : int, optional
        Threads; all processors if not given.
    progress : "auto", bool or function
        Whether a bar is shown; "auto" shows one in terminals and notebooks.
    folder : str or path, optional
        A run folder to work in: a fit that was stopped goes on from there when it is called again. Nothing is kept otherwise.

    Attributes
    ----------
    beta_ : float
        The inverse temperature that was chosen.
    predictor_ : str
        The model that predicts, as tables call it.
    warnings_ : list of str
        What to read before the result is believed.
    results_ : dict
        Everything that was found.

    Examples
    --------
    >>> import numpy as np, kelvin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (120, 2))
    >>> y = np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=120)
    >>> m = kelvin.Regressor(hidden=16, chains=2, budget=2000, progress=False).fit(X, y)
    >>> mean, std = m.predict(X[:3], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((3,), True)
    >>> low, high = m.predict_interval(X[:3], 0.9)
    >>> bool((low < mean).all() and (mean < high).all())
    True
    >>> m.uncertainty(X[:3]).epistemic.shape
    (3,)
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Regressor":
        """Fits rows `X` and the numbers `y` to predict, or several columns of them; a row whose `sample_weight` is w counts as w such rows."""
        names = _target_names(y)
        columns, y, weights = self._learned_rows(X, y, sample_weight, numeric=True)
        numbers = np.ascontiguousarray(y, dtype=np.float64).reshape(len(y), -1)
        self._fit(columns, numbers=numbers, targets=names, weights=weights)
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def _numbers(self, X: Any, probabilities: Sequence[float] = ()) -> Dict[str, Any]:
        rows = self._rows(X)
        found, notes = self.model_.numbers(rows, [share("a probability", p) for p in probabilities], threads(self.n_jobs))
        self._tell(notes)
        return found

    def predict(self, X: Any, return_std: bool = False) -> Union[np.ndarray, Tuple[np.ndarray, np.ndarray]]:
        """The mean of each row's predictive distribution, and its standard deviation where asked for."""
        found = self._numbers(X)
        return (found["mean"], found["std"]) if return_std else found["mean"]

    def predict_quantiles(self, X: Any, probabilities: Sequence[float]) -> np.ndarray:
        """The quantiles of each row's predictive distribution, exact ones of the mixture over draws: an array [rows, probabilities], of several targets
        [rows, probabilities, targets]."""
        return np.stack(self._numbers(X, np.atleast_1d(probabilities))["quantiles"], axis=1)

    def predict_interval(self, X: Any, level: float = 0.9) -> Tuple[np.ndarray, np.ndarray]:
        """The ends of each row's central interval that holds a share `level` of its predictive distribution."""
        level = share("level", level)
        low, high = self._numbers(X, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])["quantiles"]
        return low, high

    def uncertainty(self, X: Any) -> Uncertainty:
        """Each row's standard deviation in its two parts: noise, and what the draws disagree about."""
        found = self._numbers(X)
        return Uncertainty(found["aleatoric"], found["epistemic"], found["std"])


class Classifier(ClassifierMixin, _Estimator):
    """A Bayesian neural network that predicts classes with their probabilities, at a temperature chosen from the data.

    Parameters and attributes are those of :class:`kelvin.Regressor`; ``classes_`` holds the classes.

    Examples
    --------
    >>> import numpy as np, kelvin
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(120, 2))
    >>> labels = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    >>> m = kelvin.Classifier(hidden=16, chains=2, budget=2000, progress=False).fit(X, labels)
    >>> m.predict_proba([[2.0, 2.0], [-2.0, -2.0]]).argmax(axis=1)
    array([1, 0])
    >>> m.classes_
    array(['down', 'up'], dtype='<U4')
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "Classifier":
        """Fits rows `X` and their classes `y`: numbers or words; a row whose `sample_weight` is w counts as w such rows."""
        columns, y, weights = self._learned_rows(X, y, sample_weight, numeric=False)
        if y.dtype == object:
            missing = [row for row, label in enumerate(y) if is_missing(label)]
            if missing:
                raise InputError(f"y has no class in {len(missing)} rows, the first of them row {missing[0]} (from 0)\n  leave these rows out")
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"there is only one class, {self.classes_[0]!r}, so there is nothing to learn: give rows of two or more")
        self._fit(columns, labels=labels.astype(np.uint32), classes=[str(name) for name in self.classes_], weights=weights)
        return self

    def _classes(self, X: Any) -> Dict[str, Any]:
        rows = self._rows(X)
        found, notes = self.model_.classes(rows, threads(self.n_jobs))
        self._tell(notes)
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for each row: an array [rows, classes]."""
        return self._classes(X)["probabilities"]

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def uncertainty(self, X: Any) -> Uncertainty:
        """Each row's entropy in its two parts, in nats: mean entropy of the draws, and mutual information of class and draw."""
        found = self._classes(X)
        return Uncertainty(found["aleatoric"], found["epistemic"], found["aleatoric"] + found["epistemic"])

    def _learned(self) -> Dict[str, Any]:
        return {**super()._learned(), "classes": self.classes_.tolist(), "dtype": self.classes_.dtype.str}


def load(path: Union[str, Path], model: Optional[str] = None) -> Union[Regressor, Classifier]:
    """A fitted estimator from what :meth:`Regressor.save` wrote, or from a folder of ``kelvin run``; `model` is as in :class:`Regressor`.

    >>> import numpy as np, kelvin, tempfile, pathlib
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> m = kelvin.Regressor(hidden=8, chains=2, budget=1000, progress=False).fit(X, X[:, 0])
    >>> folder = pathlib.Path(tempfile.mkdtemp()) / "model"
    >>> m.save(folder)
    >>> bool((kelvin.load(folder).predict(X) == m.predict(X)).all())
    True
    """
    path = Path(path)
    about: Dict[str, Any] = {}
    if (path / ESTIMATOR).exists():
        try:
            about = json.loads((path / ESTIMATOR).read_text(encoding="utf-8"))
        except ValueError as error:
            raise KelvinError(f"{path / ESTIMATOR} is damaged: {error}") from None
    asked = model or about.get("parameters", {}).get("model", "best")
    fitted = _kelvin.Model.load(path, None if asked == "best" else asked)
    class_names = fitted.class_names
    estimator: Any = (Classifier if class_names else Regressor)()
    known = estimator.get_params(deep=False)
    estimator.set_params(**{name: value for name, value in about.get("parameters", {}).items() if name in known})
    columns = about.get("feature_names_in") if about else fitted.feature_names
    estimator.n_features_in_ = about.get("n_features_in", len(fitted.feature_names))
    if columns is not None:
        estimator.feature_names_in_ = np.asarray(columns, dtype=object)
    if class_names:
        estimator.classes_ = np.asarray(about.get("classes", class_names), dtype=about.get("dtype"))
    estimator.set_params(model=asked)
    estimator._take(fitted)
    return estimator
