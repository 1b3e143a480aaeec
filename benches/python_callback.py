"""What `kelvin.sample` adds to a step beside the energy's own time, and the same model sampled by peers.

    pip install ./crates/kelvin-py        # and, for what is to be compared: jax blackjax torch posteriors
    python benches/python_callback.py

Times are per step of all chains, the least of several rounds. What is not installed is left out, and said.
"""

import argparse
import time

import numpy as np

import kelvin


def least_seconds(work, rounds):
    """The least of several rounds: what else the machine does only ever adds."""
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def overhead(chains, dim, rounds, steps):
    """Seconds a step of kelvin's beside the callback's own."""
    scale = np.float32(1.0)

    def energy_and_gradient(theta):
        return np.einsum("cd,cd->c", theta, theta, dtype=np.float64), theta * scale

    theta = np.zeros((chains, dim), np.float32)

    def alone():
        for _ in range(steps):
            energy_and_gradient(theta.copy())

    def sampled():
        kelvin.sample(energy_and_gradient, theta, draws=1, warm_up=0, thin=steps, step_size=0.01, progress=False, n_jobs=1)

    own, all_of_it = least_seconds(alone, rounds) / steps, least_seconds(sampled, rounds) / steps
    # Noise, update and momenta are the sampler's work, not the callback's: the same of a model in Rust.
    return own, all_of_it


def network(rows=824, features=8, hidden=64):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, features)).astype(np.float32)
    y = (np.sin(x[:, 0]) + 0.1 * rng.normal(size=rows)).astype(np.float32)
    return x, y, hidden


def jax_steps(rounds, steps, chains):
    """SGHMC on one network in JAX: kelvin.sample and blackjax, with the same gradient."""
    import jax
    import jax.numpy as jnp

    x, y, hidden = network()
    dim = x.shape[1] * hidden + 2 * hidden + 1
    x, y = jnp.asarray(x), jnp.asarray(y)

    def energy(theta):
        w, rest = theta[: x.shape[1] * hidden].reshape(x.shape[1], hidden), theta[x.shape[1] * hidden :]
        z = jax.nn.relu(x @ w + rest[:hidden]) @ rest[hidden : 2 * hidden] + rest[-1]
        return 0.5 * ((z - y) ** 2).sum() / 0.1 + 0.5 * (theta**2).sum() / 0.1

    both = jax.jit(jax.vmap(jax.value_and_grad(energy)))
    start = 0.1 * np.random.default_rng(1).normal(size=(chains, dim)).astype(np.float32)
    h = 1e-4

    def evaluate(theta):
        return both(theta)

    def alone():
        theta = jnp.asarray(start)
        for _ in range(steps):
            jax.block_until_ready(both(theta))

    def with_kelvin():
        kelvin.sample(evaluate, start, draws=1, warm_up=0, thin=steps, sampler="sghmc", step_size=h, friction=100.0, progress=False)

    both(start)
    found = {"gradient alone": alone, "kelvin.sample": with_kelvin}
    try:
        import blackjax

        log_density = lambda theta: -energy(theta)
        gradient = lambda theta, _: jax.grad(log_density)(theta)
        # Its momenta live for one call, whose last gradient is for nothing: many steps in a call, as it is meant.
        sghmc = blackjax.sghmc(gradient, num_integration_steps=steps)
        one = jax.jit(jax.vmap(lambda key, theta: sghmc.step(key, theta, None, h * h)))
        keys = jax.random.split(jax.random.PRNGKey(0), chains)

        def with_blackjax():
            jax.block_until_ready(one(keys, jnp.asarray(start)))

        one(keys, jnp.asarray(start))
        found["blackjax.sghmc, one jit"] = with_blackjax
    except ImportError:
        print("blackjax is not installed: left out")
    return {name: least_seconds(work, rounds) / steps for name, work in found.items()}


def torch_steps(rounds, steps, chains):
    """SGHMC on the same network in PyTorch: kelvin.sample and posteriors, one chain each as posteriors has it."""
    import torch

    x, y, hidden = network()
    net = torch.nn.Sequential(torch.nn.Linear(x.shape[1], hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 1))
    from kelvin.models import model_of

    model = model_of(net, (x, y), 0.1, 0.1)
    start = np.stack([model.start(number, 0) for number in range(chains)])

    def evaluate(theta):
        return model.energies(np.ascontiguousarray(theta), None)

    def alone():
        for _ in range(steps):
            evaluate(start)

    def with_kelvin():
        kelvin.sample(evaluate, start, draws=1, warm_up=0, thin=steps, sampler="sghmc", step_size=1e-4, friction=100.0, progress=False)

    found = {"gradient alone": alone, "kelvin.sample": with_kelvin}
    try:
        import posteriors

        batch = (torch.as_tensor(x), torch.as_tensor(y))
        parameters = dict(net.named_parameters())

        def log_posterior(values, rows):
            z = torch.func.functional_call(net, values, (rows[0],))[:, 0]
            prior = sum((value**2).sum() for value in values.values()) / 0.1
            return -0.5 * ((z - rows[1]) ** 2).sum() / 0.1 - 0.5 * prior, torch.empty(0)

        transform = posteriors.sgmcmc.sghmc.build(log_posterior, lr=1e-4, alpha=100.0)

        def with_posteriors():
            for _ in range(chains):
                state = transform.init(parameters)
                for _ in range(steps):
                    state, _ = transform.update(state, batch)

        found["posteriors.sgmcmc.sghmc"] = with_posteriors
    except ImportError:
        print("posteriors is not installed: left out")
    return {name: least_seconds(work, rounds) / steps for name, work in found.items()}


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=7)
    asked.add_argument("--steps", type=int, default=2000)
    asked.add_argument("--chains", type=int, default=4)
    asked = asked.parse_args()
    for chains, dim in [(1, 10), (4, 10), (4, 641), (32, 641)]:
        own, sampled = overhead(chains, dim, asked.rounds, asked.steps)
        print(f"{chains:3} chains of {dim:4} numbers: callback {1e6 * own:6.1f} µs, step {1e6 * sampled:6.1f} µs, beside it {1e6 * (sampled - own):6.1f} µs")
    for name, measure in [("JAX", jax_steps), ("PyTorch", torch_steps)]:
        try:
            found = measure(asked.rounds, max(asked.steps // 10, 50), asked.chains)
        except ImportError as error:
            print(f"{name}: left out ({error})")
            continue
        print(f"{name}, 8-64-1 on 824 rows, {asked.chains} chains, a step of all:")
        for what, seconds in found.items():
            print(f"  {what:24} {1e6 * seconds:9.1f} µs")


if __name__ == "__main__":
    main()
