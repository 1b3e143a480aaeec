"""Tables that tests learn from, and a loud skip for what a machine does not have."""

import os
import warnings

import numpy as np
import pytest

import kelvin


def skipped(need: str, why: str) -> None:
    """Skips a test and counts it where `.ci/run` counts skips."""
    path = os.environ.get("KELVIN_SKIPS")
    if path:
        test = os.environ.get("PYTEST_CURRENT_TEST", "pytest").split(" ")[0]
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{need}\t{test}\t{why}\n")
    pytest.skip(f"SKIPPED: {need}: {why}")


@pytest.fixture(autouse=True)
def no_doubts():
    """Fits are short here, and say so."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kelvin.KelvinWarning)
        yield


@pytest.fixture(scope="session")
def table():
    """y = sin x₀ + x₁ + noise of standard deviation 0.1."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (160, 2))
    return X, np.sin(X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=len(X))


#: A fit of a second.
QUICK = {"hidden": 16, "chains": 2, "budget": 2000, "progress": False, "model": "beta-star"}


@pytest.fixture(scope="session")
def fitted(table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kelvin.KelvinWarning)
        return kelvin.Regressor(**QUICK).fit(*table)


@pytest.fixture(scope="session")
def classified(table):
    X, y = table
    labels = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kelvin.KelvinWarning)
        return kelvin.Classifier(**QUICK).fit(X, labels)
