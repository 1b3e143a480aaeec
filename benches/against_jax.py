#!/usr/bin/env python3
"""Times kelvin against JAX on the same work, in turns, in one run, each on one core; prints the ratios.

    python3 -m venv .venv && .venv/bin/pip install jax
    cargo build --release
    .venv/bin/python benches/against_jax.py

Work: SGHMC steps (gradient, noise, update) of a dense ReLU network with a Gaussian prior; one output has a Gaussian
likelihood, three have a softmax.
  8-64-1/824        all 824 rows each step
  14-64-1/128       128 rows of 9547 each step
  8-64-64-1/824     all 824 rows each step
  30-128-128-3/128  128 rows of 4096 each step
JAX: jax.jit of lax.scan over the steps, float32, threefry noise, on the CPU, Eigen single-threaded. JAX draws its
rows independently; kelvin draws them without replacement, measures the kinetic temperature and checks every step.
The rounds alternate, so a busy machine slows both; the ratio of the medians counts. kelvin's vector instructions are the
widest of the processor unless KELVIN_VECTOR names others; XLA_FLAGS=--xla_cpu_max_isa=AVX2 holds JAX to AVX2.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--kelvin", default="target/release/kelvin", help="the kelvin binary")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=5000, help="steps of a timed JAX call; a tenth of it for deeper networks")
parser.add_argument("--cases", nargs="+", default=["8-64-1/824", "14-64-1/128", "8-64-64-1/824", "30-128-128-3/128"])
arguments = parser.parse_args()

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # children inherit the one core

import jax
import jax.numpy as jnp

MOMENTUM, NOISE_VARIANCE, PRIOR_VARIANCE = 0.98, 0.1, 0.1
#        name                sizes              rows  batch  learning rate
CASES = [
    ("8-64-1/824", (8, 64, 1), 824, None, 1e-3),
    ("14-64-1/128", (14, 64, 1), 9547, 128, 1e-4),
    ("8-64-64-1/824", (8, 64, 64, 1), 824, None, 1e-3),
    ("30-128-128-3/128", (30, 128, 128, 3), 4096, 128, 1e-3),
]


def make_jax(sizes, rows, batch, learning_rate, num_steps):
    """A compiled function (position, momentum, key) -> (position, momentum) of `num_steps` steps, and a start."""
    keys = jax.random.split(jax.random.key(0), 3)
    inputs, outputs = sizes[0], sizes[-1]
    x = jax.random.normal(keys[0], (rows, inputs))
    y = jnp.tanh(x @ jax.random.normal(keys[1], (inputs,)) / inputs**0.5)
    if outputs > 1:
        y = jnp.digitize(y, jnp.quantile(y, jnp.arange(1, outputs) / outputs))
    shapes = [shape for a, b in zip(sizes, sizes[1:]) for shape in ((a, b), (b,))]
    step_size = (learning_rate / rows) ** 0.5
    noise_std = (2 * (1 - MOMENTUM)) ** 0.5

    def unpacked(flat):
        parts, start = [], 0
        for shape in shapes:
            size = math.prod(shape)
            parts.append(flat[start : start + size].reshape(shape))
            start += size
        return parts

    def energy(position, x, y):
        for weights, bias in zip(position[:-2:2], position[1:-2:2]):
            x = jnp.maximum(x @ weights + bias, 0)
        x = x @ position[-2] + position[-1]
        if outputs == 1:
            loss = 0.5 / NOISE_VARIANCE * jnp.sum((x[:, 0] - y) ** 2)
        else:
            loss = -jnp.sum(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1))
        squares = sum(jnp.sum(part**2) for part in position)
        return (rows / x.shape[0]) * loss + 0.5 / PRIOR_VARIANCE * squares

    gradient = jax.grad(energy)
    dim = sum(math.prod(shape) for shape in shapes)

    def step(carry, key):
        position, momentum = carry
        if batch is None:
            slope = gradient(position, x, y)
        else:
            row_key, key = jax.random.split(key)
            picked = jax.random.randint(row_key, (batch,), 0, rows)
            slope = gradient(position, x[picked], y[picked])
        noise = unpacked(jax.random.normal(key, (dim,)))
        move = lambda m, g, r: MOMENTUM * m - step_size * g + noise_std * r
        momentum = jax.tree.map(move, momentum, slope, noise)
        position = jax.tree.map(lambda p, m: p + step_size * m, position, momentum)
        return (position, momentum), None

    @jax.jit
    def run(position, momentum, key):
        return jax.lax.scan(step, (position, momentum), jax.random.split(key, num_steps))[0]

    return run, unpacked(0.1 * jax.random.normal(keys[2], (dim,)))


def time_jax(run, start, num_steps, round_number):
    key = jax.block_until_ready(jax.random.key(round_number))
    begin = time.perf_counter()
    position, _ = jax.block_until_ready(run(start, jax.tree.map(jnp.zeros_like, start), key))
    microseconds = (time.perf_counter() - begin) / num_steps * 1e6
    assert all(bool(jnp.all(jnp.isfinite(part))) for part in position)
    return microseconds


def time_kelvin(case):
    command = [arguments.kelvin, "bench", case, "--json", "--device", "cpu", "--threads", "1"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(lines.stdout.splitlines()[0])


for name, sizes, rows, batch, learning_rate in CASES:
    if name not in arguments.cases:
        continue
    num_steps = max(1, arguments.steps // (1 if len(sizes) == 3 else 10))
    run, start = make_jax(sizes, rows, batch, learning_rate, num_steps)
    time_jax(run, start, num_steps, 0)  # compiles
    ours, theirs = [], []
    for round_number in range(1, arguments.rounds + 1):
        timing = time_kelvin(name)
        ours.append(timing["us_per_chain_step"])
        theirs.append(time_jax(run, start, num_steps, round_number))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(
        json.dumps(
            {
                "case": name,
                "threads": 1,
                "vector_instructions": timing["vector_instructions"],
                "kelvin_us": round(ours, 2),
                f"jax_{jax.__version__}_us": round(theirs, 2),
                "ratio": round(theirs / ours, 2),
            }
        ),
        flush=True,
    )
