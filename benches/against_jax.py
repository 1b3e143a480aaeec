#!/usr/bin/env python3
"""Times kelvin against JAX on the same work, in turns, in one run, each on one core; prints the ratios.

    python3 -m venv .venv && .venv/bin/pip install jax
    cargo build --release
    .venv/bin/python benches/against_jax.py

Work: SGHMC steps (gradient, noise, update) of a d-64-1 ReLU network with Gaussian likelihood and prior.
  8-64-1/824   all 824 rows each step
  14-64-1/128  128 rows of 9547 each step
JAX: jax.jit of lax.scan over the steps, float32, threefry noise, on the CPU, Eigen single-threaded. JAX draws its
rows independently; kelvin draws them without replacement, measures the kinetic temperature and checks every step.
The rounds alternate, so a busy machine slows both; the ratio of the medians counts.
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
parser.add_argument("--steps", type=int, default=5000, help="steps of a timed JAX call")
arguments = parser.parse_args()

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_cpu_multi_thread_eigen=false"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # children inherit the one core

import jax
import jax.numpy as jnp

HIDDEN, MOMENTUM, NOISE_VARIANCE, PRIOR_VARIANCE = 64, 0.98, 0.1, 0.1
#        name           inputs  rows  batch  learning rate
CASES = [("8-64-1/824", 8, 824, None, 1e-3), ("14-64-1/128", 14, 9547, 128, 1e-4)]


def make_jax(inputs, rows, batch, learning_rate):
    """A compiled function (position, momentum, key) -> (position, momentum) of `steps` steps, and a start."""
    keys = jax.random.split(jax.random.key(0), 3)
    x = jax.random.normal(keys[0], (rows, inputs))
    y = jnp.tanh(x @ jax.random.normal(keys[1], (inputs,)) / inputs**0.5)
    shapes = {"w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN,), "b2": ()}
    step_size = (learning_rate / rows) ** 0.5
    noise_std = (2 * (1 - MOMENTUM)) ** 0.5

    def unpacked(flat):
        parts, start = {}, 0
        for name, shape in shapes.items():
            size = math.prod(shape)
            parts[name] = flat[start : start + size].reshape(shape)
            start += size
        return parts

    def energy(position, x, y):
        residual = jnp.maximum(x @ position["w1"] + position["b1"], 0) @ position["w2"] + position["b2"] - y
        squares = sum(jnp.sum(part**2) for part in position.values())
        return 0.5 * (rows / x.shape[0]) / NOISE_VARIANCE * jnp.sum(residual**2) + 0.5 / PRIOR_VARIANCE * squares

    gradient = jax.grad(energy)
    dim = sum(math.prod(shape) for shape in shapes.values())

    def step(carry, key):
        position, momentum = carry
        if batch is None:
            slope = gradient(position, x, y)
        else:
            row_key, key = jax.random.split(key)
            picked = jax.random.randint(row_key, (batch,), 0, rows)
            take = lambda values: values.at[picked].get(mode="promise_in_bounds")
            slope = gradient(position, take(x), take(y))
        noise = unpacked(jax.random.normal(key, (dim,)))
        move = lambda m, g, r: MOMENTUM * m - step_size * g + noise_std * r
        momentum = jax.tree.map(move, momentum, slope, noise)
        position = jax.tree.map(lambda p, m: p + step_size * m, position, momentum)
        return (position, momentum), None

    @jax.jit
    def run(position, momentum, key):
        return jax.lax.scan(step, (position, momentum), jax.random.split(key, arguments.steps))[0]

    return run, unpacked(0.1 * jax.random.normal(keys[2], (dim,)))


def time_jax(run, start, round_number):
    key = jax.block_until_ready(jax.random.key(round_number))
    begin = time.perf_counter()
    position, _ = jax.block_until_ready(run(start, jax.tree.map(jnp.zeros_like, start), key))
    microseconds = (time.perf_counter() - begin) / arguments.steps * 1e6
    assert all(bool(jnp.all(jnp.isfinite(part))) for part in position.values())
    return microseconds


def time_kelvin():
    lines = subprocess.run([arguments.kelvin, "bench", "--json", "--device", "cpu", "--threads", "1"], check=True, capture_output=True, text=True)
    timings = [json.loads(line) for line in lines.stdout.splitlines()]
    return {timing["case"]: timing["us_per_chain_step"] for timing in timings}


programs = {case[0]: make_jax(*case[1:]) for case in CASES}
for run, start in programs.values():
    time_jax(run, start, 0)  # compiles
times = {case[0]: ([], []) for case in CASES}
for round_number in range(1, arguments.rounds + 1):
    ours = time_kelvin()
    for name, (run, start) in programs.items():
        times[name][0].append(ours[name])
        times[name][1].append(time_jax(run, start, round_number))
for name, (ours, theirs) in times.items():
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(json.dumps({"case": name, "threads": 1, "kelvin_us": round(ours, 2), f"jax_{jax.__version__}_us": round(theirs, 2), "ratio": round(theirs / ours, 2)}))
