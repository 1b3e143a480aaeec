"""Times a network's SGHMC steps in JAX: jit of lax.scan over the steps, chains by vmap or, where they are dear, one after the other."""
import math
import os

from networks import network, padding, settled
from serving import LEARNING_RATE, MOMENTUM, NOISE_STD, NOISE_VARIANCE, PRIOR_VARIANCE, repeated, serve, steps_of_a_call, worker_options

options = worker_options()
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
if options.device == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"
import jax
import jax.numpy as jnp

# Of a program that moves one chain after the other.
MAPPED_CHAINS = 10 if options.device == "cuda" else 2
ACTIVATIONS = {"relu": jax.nn.relu, "tanh": jnp.tanh, "gelu": lambda x: jax.nn.gelu(x, approximate=False), "silu": jax.nn.silu}


def key(seed):
    return jax.random.key(seed, impl="rbg")


def windows(x, kernel, stride):
    return [padding(size, kernel, stride) for size in x.shape[1:3]]


def normed(x, over):
    x = x.astype(jnp.float32)
    mean = jnp.mean(x, over, keepdims=True)
    variance = jnp.mean(x * x, over, keepdims=True) - mean * mean
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5)


def applied(layers, p, x, low, prefix=""):
    for number, layer in enumerate(layers):
        (kind, settings), name = settled(layer), f"{prefix}{number}"
        part = lambda suffix: p[f"{name}.{suffix}"]
        scaled = lambda x: (x * part("scale").astype(jnp.float32) + part("offset").astype(jnp.float32)).astype(low)
        if kind == "conv":
            stride, groups = settings.get("stride", 1), settings.get("groups", 1)
            sides = windows(x, settings["kernel"], stride)
            x = jax.lax.conv_general_dilated(x, part("w"), (stride, stride), sides, dimension_numbers=("NHWC", "HWIO", "NHWC"), feature_group_count=groups)
            x = x + part("b")
        elif kind == "dense":
            x = x.reshape(x.shape[0], -1) @ part("w") + part("b")
        elif kind in ACTIVATIONS:
            x = ACTIVATIONS[kind](x)
        elif kind == "threshold":
            x = jnp.maximum(x, part("threshold"))
        elif kind == "filter_response_norm":
            wide = x.astype(jnp.float32)
            x = scaled(wide * jax.lax.rsqrt(jnp.mean(wide * wide, (1, 2), keepdims=True) + 1e-6))
        elif kind == "group_norm":
            groups = settings["groups"]
            shape = (*x.shape[:-1], groups, x.shape[-1] // groups)
            over = (*range(1, len(shape) - 2), len(shape) - 1)
            x = scaled(normed(x.reshape(shape), over).reshape(x.shape))
        elif kind in ("batch_norm", "layer_norm"):
            over = tuple(range(x.ndim - 1)) if kind == "batch_norm" else (x.ndim - 1,)
            x = scaled(normed(x, over))
        elif kind == "avg_pool":
            count, height, width, channels = x.shape
            size = settings["size"]
            x = x.reshape(count, height // size, size, width // size, size, channels).mean((2, 4))
        elif kind == "max_pool":
            size, stride = settings["size"], settings.get("stride", settings["size"])
            sides = [(0, 0), *windows(x, size, stride), (0, 0)]
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, size, size, 1), (1, stride, stride, 1), sides)
        elif kind == "global_avg_pool":
            x = x.mean((1, 2))
        elif kind == "residual":
            body = applied(settings["body"], p, x, low, name + ".body.")
            x = body + applied(settings.get("shortcut", []), p, x, low, name + ".shortcut.")
    return x


def problem(case):
    """Energy of a chain's parameters on a batch, and all rows."""
    net = network(case)
    low = jnp.dtype(options.precision) if net.images else jnp.float32
    if net.images:
        x = jax.random.randint(key(0), (net.rows, *net.input), 0, 256).astype(jnp.uint8)
    else:
        x = jax.random.normal(key(0), (net.rows, *net.input))
    if net.classifies:
        y = jax.random.randint(key(1), (net.rows,), 0, net.outputs)
    else:
        y = jnp.tanh(x @ jax.random.normal(key(1), net.input) / net.input[0] ** 0.5)

    def energy(p, x, y):
        x = x.astype(low) / 255 if net.images else x
        outputs = applied(net.layers, {name: part.astype(low) for name, part in p.items()}, x, low).astype(jnp.float32)
        if net.classifies:
            fit = -jnp.sum(jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None], 1))
        else:
            fit = 0.5 / NOISE_VARIANCE * jnp.sum((outputs[:, 0] - y) ** 2)
        return net.rows / x.shape[0] * fit

    return net, energy, x, y


def prepared(case, chains, way):
    net, energy, x, y = problem(case)
    shapes, rows, batch = net.shapes(), net.rows, net.batch
    steps, step_size = steps_of_a_call(net, chains, options.device), (LEARNING_RATE / rows) ** 0.5
    dim = sum(math.prod(shape) for shape in shapes.values())
    gradient = jax.grad(energy)

    def unpacked(flat):
        parts, start = {}, 0
        for name, shape in shapes.items():
            size = math.prod(shape)
            parts[name] = flat[:, start : start + size].reshape(chains, *shape)
            start += size
        return parts

    def gradients(position, picked):
        if batch is None:
            return jax.vmap(gradient, (0, None, None))(position, x, y)
        of_chain = lambda p, rows: gradient(p, x.at[rows].get(mode="promise_in_bounds"), y.at[rows].get(mode="promise_in_bounds"))
        if way == "vmap":
            return jax.vmap(of_chain)(position, picked)
        return jax.lax.map(lambda one: of_chain(*one), (position, picked))

    def step(carry, step_key):
        position, momentum = carry
        row_key, noise_key = jax.random.split(step_key)
        picked = jax.random.randint(row_key, (chains, batch or 1), 0, rows)
        slope = gradients(position, picked)
        noise = unpacked(jax.random.normal(noise_key, (chains, dim)))
        move = lambda m, g, p, r: MOMENTUM * m - step_size * (g + p / PRIOR_VARIANCE) + NOISE_STD * r
        momentum = jax.tree.map(move, momentum, slope, position, noise)
        return (jax.tree.map(lambda p, m: p + step_size * m, position, momentum), momentum), None

    width = {name: math.prod(shape[:-1]) ** 0.5 if len(shape) > 1 else 10 for name, shape in shapes.items()}
    start = {name: part / width[name] for name, part in unpacked(jax.random.normal(key(2), (chains, dim))).items()}
    state = [(start, jax.tree.map(jnp.zeros_like, start)), 3]
    run = jax.jit(lambda carry, key: jax.lax.scan(step, carry, jax.random.split(key, steps))[0], donate_argnums=0)
    run = run.lower(state[0], key(state[1])).compile()

    def call():
        state[0] = jax.block_until_ready(run(state[0], key(state[1])))
        state[1] += 1

    def timed():
        microseconds = repeated(call, steps, chains, options.seconds)
        assert all(bool(jnp.all(jnp.isfinite(part))) for part in state[0][0].values()), "a chain left the finite numbers"
        return microseconds

    return timed


def ways(case, chains):
    one_by_one = network(case).images and not network(case).is_dense and chains > 1
    return [(case, chains, "vmap")] + ([(case, MAPPED_CHAINS, "map")] if one_by_one else [])


if __name__ == "__main__":
    assert jax.devices()[0].platform == ("cpu" if options.device == "cpu" else "gpu"), f"JAX sees {jax.devices()}"
    # Compilers of several threads work at the same time.
    serve(f"JAX {jax.__version__}", ways, prepared, threads=8)
