"""Chains of one's own energy, and the choice of β for one's own model."""

import math

import numpy as np
import pytest

import kelvin
from conftest import skipped
from kelvin import _kelvin
from kelvin.models import Targets, model_of
from kelvin.tempering import Batches, Choice

SCALES = np.float32([1.0, 4.0, 100.0])


def normal(theta):
    """Normal numbers of variances 1, 1/4, 1/100."""
    gradient = theta * SCALES
    return 0.5 * (theta.astype(np.float64) * gradient).sum(axis=1), gradient


@pytest.mark.parametrize("settings", [{}, {"sampler": "mclmc"}, {"sampler": "sghmc", "step_size": 0.02, "friction": 5.0, "thin": 60}])
def test_draws_have_the_variance_of_their_temperature(settings):
    betas = [1.0, 1.0, 0.25, 0.25]
    found = kelvin.sample(normal, np.zeros((4, 3)), beta=betas, draws=2000, progress=False, **settings)
    assert found.positions.shape == (4, 2000, 3) and found.energies.shape == (4, 2000)
    for chain, beta in enumerate(betas):
        effective = found.diagnose(found.positions[chain : chain + 1])["bulk_ess"]
        variance = found.positions[chain].astype(np.float64).var(axis=0) * SCALES * beta
        error = np.sqrt(2 / effective)
        assert (np.abs(variance - 1) < 5 * error + 0.02).all(), (chain, variance, error)
    # Momenta of BAOAB are too cold by h²k/4 of a mode, a quarter for the stiffest; positions are exact.
    if settings.get("sampler") == "mclmc":
        assert np.isnan(found.kinetic_temperature).all(), "its momenta have one length"
    else:
        np.testing.assert_allclose(found.kinetic_temperature, found.kinetic_target, rtol=0.15)
    energies, _ = normal(found.positions.reshape(-1, 3))
    np.testing.assert_array_equal(found.energies.reshape(-1), energies)


def test_diagnostics_tell_good_chains_from_bad():
    good = kelvin.sample(normal, np.zeros((4, 3)), draws=500, thin=40, progress=False)
    assert (good.rhat < 1.05).all() and (good.ess > 200).all() and good.energy_rhat < 1.05
    apart = good.positions + np.arange(4)[:, None, None]
    assert (good.diagnose(apart)["rhat"] > 1.3).all()
    assert math.isnan(good.diagnose(good.positions[:, :2])["rhat"][0])


def test_tensors_have_masses_of_their_own():
    tensors = {"soft": 1, "stiff": (2, 1)}
    energy = lambda theta: (0.5 * (theta**2 * [1, 100, 100]).sum(axis=1), theta * np.float32([1, 100, 100]))
    found = kelvin.sample(energy, np.ones((2, 3)), tensors=tensors, draws=10, warm_up=200, progress=False)
    assert found["stiff"].shape == (2, 10, 2, 1) and found["soft"].shape == (2, 10, 1)
    np.testing.assert_allclose(found.masses[:, 1] / found.masses[:, 0], 100, rtol=0.1)
    np.testing.assert_array_equal(found["stiff"][..., 0], found.positions[:, :, 1:])
    assert set(found.groups()["posterior"]) == {"soft", "stiff"} and found.to_arviz() is not None
    with pytest.raises(KeyError, match="there are soft, stiff"):
        found["hard"]


def test_what_a_function_raises_is_raised():
    def fails(theta):
        raise ZeroDivisionError("no energy here")

    with pytest.raises(ZeroDivisionError, match="no energy here"):
        kelvin.sample(fails, np.zeros((2, 3)), progress=False)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"init": np.zeros(3)}, "init must be of shape"),
        ({"init": np.full((2, 3), np.nan)}, "not finite"),
        ({"sampler": "nuts"}, "there is no sampler"),
        ({"sampler": "sghmc"}, "give step_size"),
        ({"sampler": "sghmc", "step_size": 10.0, "friction": 4.0}, "step_size × friction"),
        ({"step_size": 0.1, "friction": -4.0}, "friction must be a number > 0, got -4.0"),
        ({"step_size": float("nan")}, "step_size must be a number > 0, got nan"),
        ({"clip_norm": 0}, "clip_norm must be a number > 0"),
        ({"beta": -1.0}, "temperature"),
        ({"beta": [1.0, 2.0, 3.0]}, "one for each of 2 chains"),
        ({"beta": "auto"}, "one for each of 2 chains"),
        ({"draws": 0}, "draws must be a whole number from 1"),
        ({"draws": 5.5}, "draws must be a whole number from 1"),
        ({"seed": -1}, "seed must be a whole number from 0"),
        ({"tensors": {"a": 2}}, "tensors have 2 numbers"),
        ({"arrays": "cupy"}, "arrays must be"),
        ({"function": 3}, "must be a function"),
        ({"function": lambda theta: theta}, "must return a pair"),
        ({"function": lambda theta: (0.0, theta)}, "energies of shape"),
        ({"function": lambda theta: (theta[:, 0], theta[:, :2])}, "must be of shape"),
    ],
)
def test_what_makes_no_sense_is_told(change, message):
    change = dict(change)
    arguments = {"init": np.zeros((2, 3)), **change}
    function, init = arguments.pop("function", normal), arguments.pop("init")
    with pytest.raises(kelvin.InputError, match=message):
        kelvin.sample(function, init, progress=False, **arguments)


def test_a_chain_that_leaves_the_numbers_says_so():
    def edge(theta):
        energy, gradient = normal(theta)
        gradient[np.abs(theta).max(axis=1) > 50] = np.nan
        return energy, gradient

    with pytest.warns(kelvin.KelvinWarning, match=r"1 of 2 chains left the finite numbers \(1 at step 0\)"):
        found = kelvin.sample(edge, [[0.0, 0, 0], [60.0, 0, 0]], draws=20, warm_up=50, step_size=0.05, progress=False)
    assert found.diverged_at[0] is None and found.diverged_at[1] == 0
    assert np.isfinite(found.positions[0]).all() and "1 chains left the finite numbers" in repr(found)


def test_no_draws_are_told_and_not_a_crash():
    def stops(theta, step):
        if step == 3:
            raise KeyboardInterrupt
        return normal(theta)

    found = kelvin.sample(stops, np.zeros((2, 3)), draws=5, warm_up=9, step_size=0.1, on_interrupt="return", progress=False)
    assert found.positions.shape == (2, 0, 3) and not found.finished and "draws=0" in repr(found)
    assert np.isnan(found.rhat).all()


def test_minibatches_are_named_by_the_step():
    steps = []

    def energy(theta, step):
        steps.append(step)
        return normal(theta)

    kelvin.sample(energy, np.zeros((1, 3)), draws=2, warm_up=4, thin=2, step_size=0.1, progress=False)
    assert steps == list(range(9))
    rows = Batches(10, 4, seed=3)
    first, second, third = rows(0), rows(1), rows(2)
    assert len(np.intersect1d(first, second)) == 0 and len(first) == len(third) == 4
    np.testing.assert_array_equal(Batches(10, 4, seed=3)(2), third)


@pytest.mark.parametrize("arrays", ["torch", "jax"])
@pytest.mark.parametrize("shape", [(2, 3), (4, 641), (3, 70001)])
def test_positions_share_their_memory(arrays, shape, monkeypatch):
    try:
        __import__(arrays)
    except ImportError:
        skipped(arrays, f"{arrays} is not installed")
    from kelvin import sampling

    convert, addresses = sampling.into(arrays), []

    def told(positions):
        given = convert(positions)
        address = given.data_ptr() if arrays == "torch" else given.unsafe_buffer_pointer()
        addresses.append((positions.ctypes.data, address))
        return given

    monkeypatch.setattr(sampling, "into", lambda _: told)
    energy = lambda theta: (0.5 * (theta * theta).sum(1), theta)
    found = kelvin.sample(energy, np.ones(shape), arrays=arrays, draws=2, warm_up=2, thin=1, step_size=0.1, progress=False)
    assert found.positions.shape == (shape[0], 2, shape[1])
    assert len(addresses) >= 4 and all(own == given for own, given in addresses), addresses


class LinearModel:
    """μ = θ₀ x + θ₁, whose best β is known: σ² n / SSE of least squares."""

    def __init__(self, x, y, noise_variance):
        self.x, self.y, self.noise_variance = x, y, noise_variance

    def tempered(self, theta, rows, beta):
        rows = slice(None) if rows is None else rows
        x, y = self.x[rows], self.y[rows]
        error = y - theta[0] * x - theta[1]
        precision = beta / self.noise_variance
        value = (0.5 * np.log(precision / (2 * np.pi)) - 0.5 * precision * error**2).sum()
        slope = (0.5 - 0.5 * precision * error**2).sum()
        gradient = precision * np.array([(error * x).sum(), error.sum()])
        return float(value), float(slope), gradient.astype(np.float32)


def plan(num_rows, **changes):
    return {
        "num_rows": num_rows,
        "batch_size": None,
        "epochs": 4000,
        "checkpoints": 20,
        "learning_rate": 1e-4,
        "momentum": 0.9,
        "weight_decay": 0.0,
        "clip_norm": 1e6,
        "seed": 0,
        "starts": 1,
        **changes,
    }


def test_the_search_finds_the_beta_of_least_squares():
    rng = np.random.default_rng(1)
    x = rng.normal(size=200)
    y = 2 * x - 1 + 0.5 * rng.normal(size=200)
    model = LinearModel(x, y, noise_variance=1.0)
    validate = lambda theta, beta: model.tempered(theta, None, beta)[0] / len(x)
    found = _kelvin.search_beta(model.tempered, validate, np.zeros(2, np.float32), 0, plan(200))
    slope, offset = np.polyfit(x, y, 1)
    best = len(x) / ((y - slope * x - offset) ** 2).sum()
    assert found["beta"] == pytest.approx(best, rel=1e-3)
    np.testing.assert_allclose(found["position"], [slope, offset], rtol=1e-3)
    assert len(found["path"]) == 21 and found["path"][0][:2] == (0, 1.0) and found["diverged_at"] is None
    with pytest.raises(ZeroDivisionError):
        _kelvin.search_beta(lambda *_: 1 / 0, validate, np.zeros(2, np.float32), 0, plan(200))
    with pytest.raises(kelvin.InputError, match="between 1 and 200"):
        _kelvin.search_beta(model.tempered, validate, np.zeros(2, np.float32), 0, plan(200, batch_size=900))


def test_log_densities_are_those_of_their_distributions():
    numbers = Targets(np.array([0.5, -1.0]), noise_variance=0.25)
    outputs = np.zeros((1, 2, 1), np.float32)
    variance = 0.25 / 4.0
    expected = [-0.5 * value**2 / variance - 0.5 * math.log(2 * math.pi * variance) for value in (0.5, -1.0)]
    np.testing.assert_allclose(numbers.log_densities(outputs, 4.0)[0], expected)
    classes = Targets([0, 2], noise_variance=1.0)
    logits = np.array([[[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]], np.float32)
    found = classes.log_densities(logits, 0.5)[0]
    np.testing.assert_allclose(found, [0.5 - math.log(math.exp(0.5) + 2), 1.0 - math.log(math.e + 2)], rtol=1e-6)
    for wrong in ([[1, 2]], [-1, 2], [np.nan, 1.0], []):
        with pytest.raises(kelvin.InputError):
            Targets(np.array(wrong), 1.0)
    with pytest.raises(kelvin.InputError, match="torch.nn.Module"):
        model_of("net", (np.zeros((2, 1)), [0, 1]), 1.0, 1.0)


def data():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2)).astype(np.float32)
    labels = (x[:, 0] * x[:, 1] > 0).astype(int) ^ (rng.random(300) < 0.1)
    return (x[:200], labels[:200]), (x[200:], labels[200:])


def jax_model():
    try:
        import jax
        import jax.numpy as jnp
    except ImportError:
        skipped("jax", "JAX is not installed")
    keys = jax.random.split(jax.random.PRNGKey(0), 2)
    parameters = {
        "a": {"w": jax.random.normal(keys[0], (2, 16)), "b": jnp.zeros(16)},
        "c": {"w": jax.random.normal(keys[1], (16, 2)) / 4, "b": jnp.zeros(2)},
    }
    return lambda p, x: jnp.tanh(x @ p["a"]["w"] + p["a"]["b"]) @ p["c"]["w"] + p["c"]["b"], parameters


def torch_model():
    try:
        import torch
    except ImportError:
        skipped("torch", "PyTorch is not installed")
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


@pytest.mark.parametrize("make", [jax_model, torch_model])
@pytest.mark.parametrize("batch_size", [None, 50])
def test_a_model_is_tempered(make, batch_size):
    train, validation = data()
    told = []
    choice = kelvin.select_beta(
        make(),
        train,
        validation,
        prior_variance=1.0,
        chains=2,
        batch_size=batch_size,
        search_epochs=400 if batch_size is None else 100,
        draws=40,
        warm_up=300,
        thin=10,
        progress=lambda *moment: told.append(moment),
    )
    assert [stage for stage in ("choosing β", "sampling") if stage in {moment[0] for moment in told}] == ["choosing β", "sampling"]
    assert all(0 <= done <= steps for _, done, steps, *_ in told)
    assert isinstance(choice, Choice) and choice.beta > 0 and len(choice.searches) == 2
    assert choice.draws.positions.shape == (2, 40, 82)
    probabilities = choice.predict_proba(validation[0])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert (choice.predict(validation[0]) == validation[1]).mean() > 0.6
    assert choice.validation_lpd["standard"] > math.log(0.5)
    assert choice.validation_lpd == choice.lpd(*validation)


def test_what_cannot_be_sampled_is_told_before_the_search():
    train, validation = data()
    model = model_of_nothing()
    for change, message in [
        ({"sampler": "nuts"}, "there is no sampler"),
        ({"draws": 0}, "draws must be"),
        ({"on_interrupt": "stop"}, "on_interrupt must be"),
    ]:
        with pytest.raises(kelvin.InputError, match=message):
            kelvin.select_beta(model, train, validation, progress=False, **change)


def model_of_nothing():
    """A module that may not be asked for anything."""
    torch = pytest.importorskip("torch")

    class Never(torch.nn.Linear):
        def forward(self, x):
            raise AssertionError("the search has begun")

    return Never(2, 2)


@pytest.mark.parametrize("make", [jax_model, torch_model])
def test_gradients_of_models_are_those_of_differences(make):
    train, _ = data()
    model = model_of(make(), train, 0.5, 1.0)
    rng = np.random.default_rng(2)
    theta = rng.normal(size=(3, model.dim)).astype(np.float32)
    rows = np.arange(0, 200, 2)
    energies, gradients = model.energies(theta, rows)
    value, slope, gradient = model.tempered(theta[0], rows, 1.7)
    step = 1e-2
    for index in rng.integers(0, model.dim, 5):
        moved = np.repeat(theta[:1], 2, axis=0)
        moved[:, index] += [step, -step]
        ahead, behind = model.energies(moved, rows)[0]
        assert gradients[0, index] == pytest.approx((ahead - behind) / (2 * step), rel=0.02, abs=0.3)
        sums = [model.tempered(np.ascontiguousarray(one), rows, 1.7)[0] for one in moved]
        assert gradient[index] == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=0.02, abs=0.3)
    in_beta = [model.tempered(theta[0], rows, 1.7 * math.exp(sign * 1e-2))[0] for sign in (1, -1)]
    assert slope == pytest.approx((in_beta[0] - in_beta[1]) / 2e-2, rel=0.02, abs=0.05)
    # U is the prior's energy and the batch's, scaled up to all rows.
    prior = 0.5 * (theta.astype(np.float64) ** 2).sum(axis=1) / 0.5 + 0.5 * model.dim * math.log(2 * math.pi * 0.5)
    likelihood = [model.tempered(np.ascontiguousarray(one), rows, 1.0)[0] for one in theta]
    np.testing.assert_allclose(energies, prior - 2.0 * np.array(likelihood), rtol=1e-4)
