"""The tools people use, with their defaults: each a function from a split to a predictive distribution of its test rows."""
import warnings
from collections.abc import Callable

import numpy
import torch
from catboost import CatBoostClassifier, CatBoostRegressor
from ngboost import NGBClassifier, NGBRegressor
from ngboost.distns import k_categorical
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import cross_val_predict
from torch import nn

from .distributions import NormalMixture
from .preparation import Split

GP_ROWS_REGRESSION, GP_ROWS_CLASSES = 1000, 500
NETWORKS, HIDDEN, EPOCHS, PATIENCE, BATCH = 5, 100, 300, 20, 64
Prediction = NormalMixture | numpy.ndarray


def gaussian(mean: numpy.ndarray, std: numpy.ndarray | float) -> NormalMixture:
    """One Gaussian a row."""
    return NormalMixture(mean[None], numpy.broadcast_to(std, mean.shape)[None])


def all_classes(split: Split, known: numpy.ndarray, probabilities: numpy.ndarray) -> numpy.ndarray:
    """Columns for classes that the training rows lack."""
    filled = numpy.zeros((len(probabilities), len(split.classes)))
    filled[:, numpy.asarray(known, int).ravel()] = probabilities
    return filled


def out_of_fold_std(model, split: Split) -> float:
    """Standard deviation of errors that five-fold cross-validation makes on the training rows."""
    return float(numpy.std(split.y_train - cross_val_predict(model, split.x_train, split.y_train, cv=5)))


def linear(split: Split, seed: int) -> Prediction:
    """Ridge regression (noise from cross-validated errors) or logistic regression, penalties by cross-validation."""
    if split.classes:
        model = LogisticRegressionCV(scoring="neg_log_loss", max_iter=2000).fit(split.x_train, split.y_train)
        return all_classes(split, model.classes_, model.predict_proba(split.x_test))
    model = RidgeCV(alphas=numpy.logspace(-2, 4, 13))
    return gaussian(model.fit(split.x_train, split.y_train).predict(split.x_test), out_of_fold_std(model, split))


def gradient_boosting(split: Split, seed: int) -> Prediction:
    """scikit-learn's histogram gradient boosting; for numbers a Gaussian whose noise comes from cross-validated errors."""
    if split.classes:
        model = HistGradientBoostingClassifier(random_state=seed).fit(split.x_train, split.y_train)
        return all_classes(split, model.classes_, model.predict_proba(split.x_test))
    model = HistGradientBoostingRegressor(random_state=seed)
    return gaussian(model.fit(split.x_train, split.y_train).predict(split.x_test), out_of_fold_std(model, split))


def quantile_boosting_interval(split: Split, seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The 90 % interval of two gradient boosting models fitted to the 5 % and 95 % quantiles."""
    models = (HistGradientBoostingRegressor(loss="quantile", quantile=level, random_state=seed) for level in (0.05, 0.95))
    low, high = (model.fit(split.x_train, split.y_train).predict(split.x_test) for model in models)
    return numpy.minimum(low, high), numpy.maximum(low, high)


def catboost(split: Split, seed: int) -> Prediction:
    """CatBoost with RMSEWithUncertainty, or MultiClass."""
    quiet = {"random_seed": seed, "verbose": False, "thread_count": 1, "allow_writing_files": False}
    if split.classes:
        model = CatBoostClassifier(loss_function="MultiClass", **quiet).fit(split.x_train, split.y_train)
        return all_classes(split, model.classes_, model.predict_proba(split.x_test))
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **quiet).fit(split.x_train, split.y_train)
    mean, variance = model.predict(split.x_test).T
    return gaussian(mean, numpy.sqrt(variance))


def ngboost(split: Split, seed: int) -> Prediction:
    """NGBoost with a Normal, or a categorical, distribution."""
    if split.classes:
        known, codes = numpy.unique(split.y_train, return_inverse=True)
        model = NGBClassifier(Dist=k_categorical(len(known)), random_state=seed, verbose=False).fit(split.x_train, codes)
        return all_classes(split, known, model.predict_proba(split.x_test))
    distribution = NGBRegressor(random_state=seed, verbose=False).fit(split.x_train, split.y_train).pred_dist(split.x_test)
    return gaussian(distribution.params["loc"], distribution.params["scale"])


def gaussian_process(split: Split, seed: int) -> Prediction:
    """scikit-learn's Gaussian process (constant × RBF + noise; classes: RBF), on a random part of large tables."""
    limit = GP_ROWS_CLASSES if split.classes else GP_ROWS_REGRESSION
    rows = numpy.random.default_rng(seed).permutation(len(split.y_train))[:limit]
    x, y = split.x_train[rows], split.y_train[rows]
    width = numpy.sqrt(x.shape[1])
    if split.classes:
        model = GaussianProcessClassifier(ConstantKernel() * RBF(width), random_state=seed).fit(x, y)
        return all_classes(split, model.classes_, model.predict_proba(split.x_test))
    model = GaussianProcessRegressor(ConstantKernel() * RBF(width) + WhiteKernel(), normalize_y=True, random_state=seed)
    return gaussian(*model.fit(x, y).predict(split.x_test, return_std=True))


def trained_network(split: Split, seed: int, num_outputs: int, loss: Callable, y: numpy.ndarray) -> nn.Module:
    """A hidden layer of 100 ReLUs by Adam, stopped early by a tenth of the training rows."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Linear(split.x_train.shape[1], HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, num_outputs))
    order = torch.randperm(len(y))
    x, y = torch.tensor(split.x_train, dtype=torch.float32), torch.tensor(y)
    held_out, learned = order[: max(1, len(order) // 10)], order[max(1, len(order) // 10) :]
    optimiser = torch.optim.Adam(network.parameters(), lr=1e-3)
    best, best_state, waited = float("inf"), None, 0
    for _ in range(EPOCHS):
        for batch in learned[torch.randperm(len(learned))].split(BATCH):
            optimiser.zero_grad()
            loss(network(x[batch]), y[batch]).backward()
            optimiser.step()
        with torch.no_grad():
            score = loss(network(x[held_out]), y[held_out]).item()
        waited += 1
        if score < best:
            best, waited = score, 0
            best_state = {name: value.clone() for name, value in network.state_dict().items()}
        if waited >= PATIENCE:
            break
    network.load_state_dict(best_state)
    return network


def gaussian_loss(outputs: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Negative log density with a mean and a log variance as outputs."""
    mean, log_variance = outputs[:, 0], outputs[:, 1].clamp(-10, 10)
    return 0.5 * (log_variance + (y - mean) ** 2 * torch.exp(-log_variance)).mean()


def standardised_target(split: Split) -> tuple[numpy.ndarray, float, float]:
    """The target with mean 0 and standard deviation 1, and what it was."""
    mean, std = split.y_train.mean(), split.y_train.std()
    return ((split.y_train - mean) / std).astype(numpy.float32), mean, std


def network_ensemble(split: Split, seed: int) -> Prediction:
    """Five networks, each with its mean and variance (or class probabilities), in equal parts."""
    x = torch.tensor(split.x_test, dtype=torch.float32)
    seeds = [seed * NETWORKS + number for number in range(NETWORKS)]
    if split.classes:
        networks = [trained_network(split, own, len(split.classes), nn.functional.cross_entropy, split.y_train) for own in seeds]
        return torch.stack([network(x).softmax(1) for network in networks]).mean(0).detach().double().numpy()
    y, mean, std = standardised_target(split)
    outputs = torch.stack([trained_network(split, own, 2, gaussian_loss, y)(x) for own in seeds]).detach().double().numpy()
    return NormalMixture(mean + std * outputs[..., 0], std * numpy.exp(outputs[..., 1].clip(-10, 10) / 2))


def laplace(split: Split, seed: int) -> Prediction:
    """laplace-torch with its defaults (last layer, Kronecker), prior and noise by the marginal likelihood."""
    from laplace import Laplace

    x_train, x_test = (torch.tensor(x, dtype=torch.float32) for x in (split.x_train, split.x_test))
    if split.classes:
        network = trained_network(split, seed, len(split.classes), nn.functional.cross_entropy, split.y_train)
        model = Laplace(network, "classification")
        model.fit(batches(x_train, torch.tensor(split.y_train)))
        model.optimize_prior_precision(method="marglik")
        return model(x_test).detach().double().numpy()
    y, mean, std = standardised_target(split)
    network = trained_network(split, seed, 1, lambda output, target: nn.functional.mse_loss(output[:, 0], target), y)
    model = Laplace(network, "regression")
    model.fit(batches(x_train, torch.tensor(y)[:, None]))
    log_prior, log_noise = torch.zeros(1, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimiser = torch.optim.Adam([log_prior, log_noise], lr=1e-1)
    for _ in range(100):
        optimiser.zero_grad()
        (-model.log_marginal_likelihood(log_prior.exp(), log_noise.exp())).backward()
        optimiser.step()
    outputs, variance = model(x_test)
    noise = model.sigma_noise.item() ** 2
    return gaussian(mean + std * outputs[:, 0].detach().double().numpy(), std * numpy.sqrt(variance.reshape(-1).detach().double().numpy() + noise))


def batches(x: torch.Tensor, y: torch.Tensor) -> torch.utils.data.DataLoader:
    """Training rows as laplace-torch wants them."""
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=256)


PEERS: dict[str, Callable[[Split, int], Prediction]] = {
    "ridge or logistic": linear,
    "gradient boosting": gradient_boosting,
    "CatBoost": catboost,
    "NGBoost": ngboost,
    "Gaussian process": gaussian_process,
    "5 networks": network_ensemble,
    "laplace-torch": laplace,
}


def quieten() -> None:
    """One thread, and none of the peers' warnings about their own defaults."""
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
