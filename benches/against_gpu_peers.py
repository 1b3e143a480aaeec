#!/usr/bin/env python3
"""Times kelvin on a GPU against JAX and PyTorch doing the same work, in turns, in one run; prints a table of ratios.

    python3 -m venv .venv && .venv/bin/pip install 'jax[cuda12]' torch     # or one environment for each, see --help
    cargo build --release
    .venv/bin/python benches/against_gpu_peers.py

Work: SGHMC steps (gradient, noise, update) of a population of chains, each on its own batches.
  8-64-1/824   one hidden layer, all 824 rows each step        mnist-cnn  28×28×1, batches of 128 of 1024 images of random bytes
  14-64-1/128  the same, 128 rows of 9547 each step            resnet20   32×32×3 with batch norm, the same batches
JAX: jit of lax.scan over the steps, rbg noise; chains by vmap and, for images, one after the other in one program (map,
timed with ten: others take as long each). PyTorch: the step in a CUDA graph, for images eager and through
torch.compile; chains of tables as batched products, of images one after the other (so their time is that of one). The fastest
way of each counts. Images: bf16 products, f32 weights (--precision float32: f32 products, kelvin's too). Tables: f32. Wherever peers
multiply f32 they may use TF32, which kelvin does not. Peers draw rows with replacement, neither clip nor measure temperatures, and
skip running statistics (JAX). kelvin does all that. Every program runs in a process of its own. Peers first compile everything, both
at the same time (--apart: one after the other); then they and kelvin are timed in turns, round after round, so that a busy machine
slows all; medians count. One table at the end; progress goes to standard error. --device cpu is for trying the script out.
"""
import argparse
import concurrent.futures
import json
import math
import os
import statistics
import subprocess
import sys
import time

TABLES = {"8-64-1/824": (8, 824, None, 1e-3), "14-64-1/128": (14, 9547, 128, 1e-4)}  # inputs, rows, batch, learning rate
IMAGES = {"mnist-cnn": (28, 1, 0.01, 824_458), "resnet20": (32, 3, 0.1, 273_258)}  # side, channels, learning rate, parameters
HIDDEN, CLASSES, NUM_IMAGES, BATCH, MOMENTUM, NOISE_VARIANCE, PRIOR_VARIANCE = 64, 10, 1024, 128, 0.98, 0.1, 0.1
NOISE_STD = (2 * (1 - MOMENTUM)) ** 0.5
# Inputs, outputs and stride of the blocks of ResNet-20.
BLOCKS = [(16, 16, 1)] * 3 + [(16, 32, 2)] + [(32, 32, 1)] * 2 + [(32, 64, 2)] + [(64, 64, 1)] * 2

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--kelvin", default="target/release/kelvin", help="the kelvin binary")
parser.add_argument("--cases", nargs="+", choices=[*TABLES, *IMAGES], default=[*TABLES, *IMAGES])
parser.add_argument("--chains", nargs="+", type=int, default=[1, 10, 50])
parser.add_argument("--peers", nargs="*", choices=["jax", "torch"], default=["jax", "torch"])
parser.add_argument("--rounds", type=int, default=2)
parser.add_argument("--seconds", type=float, default=0.7, help="of a timed reading of a peer")
parser.add_argument("--apart", action="store_true", help="peers compile one after the other")
parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16", help="of products of images")
parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
parser.add_argument("--jax-python", default=sys.executable, help="the Python that has JAX")
parser.add_argument("--torch-python", default=sys.executable, help="the Python that has PyTorch")
parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
parser.add_argument("--worker", choices=["jax", "torch"], help=argparse.SUPPRESS)
arguments = parser.parse_args()
# Of a JAX program that moves one chain after the other.
MAPPED_CHAINS = 10 if arguments.device == "cuda" else 2


def image_shapes(case):
    """Name and shape of every parameter, convolutions as (height, width, inputs, outputs)."""
    if case == "mnist-cnn":
        return {"c1.w": (3, 3, 1, 32), "c1.b": (32,), "c2.w": (3, 3, 32, 64), "c2.b": (64,), "d1.w": (3136, 256), "d1.b": (256,), "d2.w": (256, CLASSES), "d2.b": (CLASSES,)}
    shapes = {}

    def unit(name, kernel, inputs, outputs):
        shapes.update({name + ".w": (kernel, kernel, inputs, outputs), name + ".b": (outputs,), name + ".scale": (outputs,), name + ".offset": (outputs,)})

    unit("start", 3, 3, 16)
    for number, (inputs, outputs, stride) in enumerate(BLOCKS):
        unit(f"{number}.first", 3, inputs, outputs)
        unit(f"{number}.second", 3, outputs, outputs)
        if stride == 2:
            unit(f"{number}.shortcut", 1, inputs, outputs)
    return {**shapes, "d.w": (64, CLASSES), "d.b": (CLASSES,)}


def steps_of_a_call(case, chains):
    """Steps that a peer does without coming back."""
    if arguments.device == "cpu":
        return 100 if case in TABLES else 2
    return 2000 if case in TABLES else max(10, {"mnist-cnn": 200, "resnet20": 50}[case] // chains)


def repeated(call, steps, chains):
    """µs per chain-step of a call that does `steps` steps of all chains and waits for their end."""
    call()  # warms up
    begin, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < arguments.seconds:
        call()
        calls += 1
    return (time.perf_counter() - begin) / (calls * steps * chains) * 1e6


# ------------------------------------------------------------------------------------------------------------------- JAX
def jax_worker():
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    if arguments.device == "cpu":
        os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import jax.numpy as jnp

    assert jax.devices()[0].platform == ("cpu" if arguments.device == "cpu" else "gpu"), f"JAX sees {jax.devices()}"
    key = lambda seed: jax.random.key(seed, impl="rbg")
    low = jnp.dtype(arguments.precision)

    def convolve(x, kernel, stride=1):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def normed(x, scale, offset):
        x = x.astype(jnp.float32)
        mean = jnp.mean(x, (0, 1, 2))
        variance = jnp.mean(x * x, (0, 1, 2)) - mean * mean
        factor = scale.astype(jnp.float32) * jax.lax.rsqrt(variance + 1e-3)
        return ((x - mean) * factor + offset.astype(jnp.float32)).astype(low)

    def pooled(x):
        count, side, _, channels = x.shape
        return x.reshape(count, side // 2, 2, side // 2, 2, channels).mean((2, 4))

    def mnist_cnn(p, x):
        for name in ("c1", "c2"):
            x = pooled(jax.nn.relu(convolve(x, p[name + ".w"]) + p[name + ".b"]))
        x = jax.nn.relu(x.reshape(x.shape[0], -1) @ p["d1.w"] + p["d1.b"])
        return x @ p["d2.w"] + p["d2.b"]

    def resnet20(p, x):
        unit = lambda name, x, stride=1: normed(convolve(x, p[name + ".w"], stride) + p[name + ".b"], p[name + ".scale"], p[name + ".offset"])
        x = jax.nn.relu(unit("start", x))
        for number, (_, _, stride) in enumerate(BLOCKS):
            inner = unit(f"{number}.second", jax.nn.relu(unit(f"{number}.first", x, stride)))
            x = jax.nn.relu(inner + (unit(f"{number}.shortcut", x, stride) if stride == 2 else x))
        return x.mean((1, 2)) @ p["d.w"] + p["d.b"]

    def of_table(case):
        inputs, rows, batch, learning_rate = TABLES[case]
        keys = jax.random.split(key(0), 2)
        x = jax.random.normal(keys[0], (rows, inputs))
        y = jnp.tanh(x @ jax.random.normal(keys[1], (inputs,)) / inputs**0.5)

        def energy(p, x, y):
            residual = jax.nn.relu(x @ p["w1"] + p["b1"]) @ p["w2"] + p["b2"] - y
            return 0.5 * (rows / x.shape[0]) / NOISE_VARIANCE * jnp.sum(residual**2)

        return energy, {"w1": (inputs, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN,), "b2": ()}, x, y, rows, batch, learning_rate

    def of_images(case):
        side, channels, learning_rate, num_parameters = IMAGES[case]
        shapes = image_shapes(case)
        assert sum(math.prod(shape) for shape in shapes.values()) == num_parameters
        x = jax.random.randint(key(0), (NUM_IMAGES, side, side, channels), 0, 256).astype(jnp.uint8)
        y = jax.random.randint(key(1), (NUM_IMAGES,), 0, CLASSES)
        network = mnist_cnn if case == "mnist-cnn" else resnet20

        def energy(p, x, y):
            logits = network({name: part.astype(low) for name, part in p.items()}, x.astype(low) / 255)
            scores = jax.nn.log_softmax(logits.astype(jnp.float32))
            return -(NUM_IMAGES / BATCH) * jnp.sum(jnp.take_along_axis(scores, y[:, None], 1))

        return energy, shapes, x, y, NUM_IMAGES, BATCH, learning_rate

    def prepared(case, chains, way):
        energy, shapes, x, y, rows, batch, learning_rate = of_table(case) if case in TABLES else of_images(case)
        steps, step_size = steps_of_a_call(case, chains), (learning_rate / rows) ** 0.5
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

        start = unpacked(0.1 * jax.random.normal(key(2), (chains, dim)))
        state = [(start, jax.tree.map(jnp.zeros_like, start)), 3]
        run = jax.jit(lambda carry, key: jax.lax.scan(step, carry, jax.random.split(key, steps))[0], donate_argnums=0)
        run = run.lower(state[0], key(state[1])).compile()

        def call():
            state[0] = jax.block_until_ready(run(state[0], key(state[1])))
            state[1] += 1

        def timed():
            microseconds = repeated(call, steps, chains)
            assert all(bool(jnp.all(jnp.isfinite(part))) for part in state[0][0].values()), "a chain left the finite numbers"
            return microseconds

        return timed

    def ways(case, chains):
        return [(case, chains, "vmap")] + ([(case, MAPPED_CHAINS, "map")] if case in IMAGES and chains > 1 else [])

    # Compilers of several threads work at the same time.
    serve(f"JAX {jax.__version__}", ways, prepared, threads=8)


# --------------------------------------------------------------------------------------------------------------- PyTorch
def torch_worker():
    import torch
    from torch.nn import functional

    assert arguments.device == "cpu" or torch.cuda.is_available(), "PyTorch sees no GPU"
    device = torch.device(arguments.device)
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = True
    torch.set_float32_matmul_precision("high")
    low = getattr(torch, arguments.precision)

    def mnist_cnn(p, x):
        for name in ("c1", "c2"):
            x = functional.avg_pool2d(functional.relu(functional.conv2d(x, p[name + ".w"], p[name + ".b"], padding=1)), 2)
        x = functional.relu(functional.linear(x.flatten(1), p["d1.w"], p["d1.b"]))
        return functional.linear(x, p["d2.w"], p["d2.b"])

    def resnet20(p, x):
        def unit(name, x, stride=1):
            kernel = p[name + ".w"]
            # SAME with stride 2 pads below and to the right only.
            x = functional.pad(x, (0, 1, 0, 1)) if stride == 2 and kernel.shape[-1] == 3 else x
            x = functional.conv2d(x, kernel, p[name + ".b"], stride, padding=1 if kernel.shape[-1] == 3 and stride == 1 else 0)
            return functional.batch_norm(x, p[name + ".mean"], p[name + ".variance"], p[name + ".scale"], p[name + ".offset"], training=True, momentum=0.01, eps=1e-3)

        x = functional.relu(unit("start", x))
        for number, (_, _, stride) in enumerate(BLOCKS):
            inner = unit(f"{number}.second", functional.relu(unit(f"{number}.first", x, stride)))
            x = functional.relu(inner + (unit(f"{number}.shortcut", x, stride) if stride == 2 else x))
        return functional.linear(x.mean((2, 3)), p["d.w"], p["d.b"])

    class Chains:
        """Parameters with their momenta, and a function that gives the energy of fresh rows."""

        def __init__(self, shapes, rows, learning_rate, energy):
            # Kernels of convolutions lie as channels_last wants them, and so do their momenta.
            placed = lambda part: part.contiguous(memory_format=torch.channels_last) if part.dim() == 4 else part
            self.position = {name: placed(0.1 * torch.randn(shape, device=device)).requires_grad_() for name, shape in shapes.items()}
            self.momentum = [torch.zeros_like(part) for part in self.position.values()]
            self.step_size, self.energy = (learning_rate / rows) ** 0.5, energy

        def step(self):
            parts = list(self.position.values())
            slope = list(torch.autograd.grad(self.energy(self.position), parts))
            with torch.no_grad():
                noise = [torch.randn_like(part) for part in parts]
                torch._foreach_add_(slope, parts, alpha=1 / PRIOR_VARIANCE)
                torch._foreach_mul_(self.momentum, MOMENTUM)
                torch._foreach_add_(self.momentum, slope, alpha=-self.step_size)
                torch._foreach_add_(self.momentum, noise, alpha=NOISE_STD)
                torch._foreach_add_(parts, self.momentum, alpha=self.step_size)

    def of_table(case, chains):
        inputs, rows, batch, learning_rate = TABLES[case]
        x = torch.randn(rows, inputs, device=device)
        y = torch.tanh(x @ torch.randn(inputs, device=device) / inputs**0.5)

        def energy(p):
            if batch is None:
                own_x, own_y = x.expand(chains, rows, inputs), y
            else:
                picked = torch.randint(0, rows, (chains, batch), device=device)
                own_x, own_y = x[picked], y[picked]
            hidden = functional.relu(torch.baddbmm(p["b1"], own_x, p["w1"]))
            residual = torch.baddbmm(p["b2"], hidden, p["w2"]).squeeze(2) - own_y
            return 0.5 * (rows / own_x.shape[1]) / NOISE_VARIANCE * residual.square().sum()

        shapes = {"w1": (chains, inputs, HIDDEN), "b1": (chains, 1, HIDDEN), "w2": (chains, HIDDEN, 1), "b2": (chains, 1, 1)}
        return Chains(shapes, rows, learning_rate, energy)

    def of_images(case, compiles):
        side, channels, learning_rate, num_parameters = IMAGES[case]
        # Convolutions are (outputs, inputs, height, width) here, products (outputs, inputs).
        shapes = {name: tuple(reversed(shape)) for name, shape in image_shapes(case).items()}
        assert sum(math.prod(shape) for shape in shapes.values()) == num_parameters
        images = torch.randint(0, 256, (NUM_IMAGES, side, side, channels), device=device, dtype=torch.uint8).permute(0, 3, 1, 2)
        labels = torch.randint(0, CLASSES, (NUM_IMAGES,), device=device)
        statistics = {}
        for name, shape in shapes.items():
            if name.endswith(".scale"):
                statistics[name[:-5] + "mean"] = torch.zeros(shape, device=device)
                statistics[name[:-5] + "variance"] = torch.ones(shape, device=device)
        network = mnist_cnn if case == "mnist-cnn" else resnet20
        network = torch.compile(network) if compiles else network

        def energy(p):
            picked = torch.randint(0, NUM_IMAGES, (BATCH,), device=device)
            pixels = images[picked].to(low).div_(255).contiguous(memory_format=torch.channels_last)
            with torch.autocast(device.type, low, enabled=low != torch.float32, cache_enabled=False):
                logits = network({**p, **statistics}, pixels)
            return functional.cross_entropy(logits.float(), labels[picked]) * NUM_IMAGES

        return Chains(shapes, NUM_IMAGES, learning_rate, energy)

    def prepared(case, chains, way):
        population = of_table(case, chains) if case in TABLES else of_images(case, way == "compiled")
        steps, captured = steps_of_a_call(case, chains), 10
        if arguments.device == "cpu":
            call = lambda: [population.step() for _ in range(steps)]
        else:
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(3):
                    population.step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(captured):
                    population.step()

            def call():
                for _ in range(steps // captured):
                    graph.replay()
                torch.cuda.synchronize()

            steps = steps // captured * captured
        def timed():
            microseconds = repeated(call, steps, chains)
            assert all(bool(part.isfinite().all()) for part in population.position.values()), "a chain left the finite numbers"
            return microseconds

        return timed

    def ways(case, chains):
        names = ["graph", "compiled"] if case in IMAGES and arguments.device == "cuda" else ["graph"]
        return [(case, chains if case in TABLES else 1, way) for way in names]

    # Work is captured on one thread.
    serve(f"PyTorch {torch.__version__.split('+')[0]}", ways, prepared, threads=1)


# ------------------------------------------------------------------------------------------------- workers and the table
def serve(version, ways, prepared, threads):
    """Answers {"prepare": [[case, chains], …]} when all ways are compiled, and {"case", "chains"} with {"us", "way"} of the fastest."""
    programs, microseconds = {}, {}

    def prepare(way):
        try:
            return prepared(*way), None
        except Exception as error:  # a way that fails, for want of memory or a compiler, is reported and left out
            return None, f"{' '.join(map(str, way))}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"

    print(json.dumps({"version": version}), flush=True)
    for line in sys.stdin:
        asked, errors = json.loads(line), []
        if "prepare" in asked:
            wanted = list(dict.fromkeys(way for case, chains in asked["prepare"] for way in ways(case, chains)))
            with concurrent.futures.ThreadPoolExecutor(threads) as pool:
                answers = list(pool.map(prepare, wanted) if threads > 1 else map(prepare, wanted))
            programs = {way: program for way, (program, error) in zip(wanted, answers) if error is None}
            print(json.dumps({"errors": [error for _, error in answers if error is not None]}), flush=True)
            continue
        # All ways in the first round, then only the one that won.
        possible = [way for way in ways(asked["case"], asked["chains"]) if way in programs]
        if all(way in microseconds for way in possible):
            possible = sorted(possible, key=lambda way: statistics.median(microseconds[way]))[:1]
        best = None
        for way in possible:
            try:
                # What a round has timed for another number of chains is not timed again.
                if len(microseconds.get(way, [])) <= asked["round"]:
                    microseconds.setdefault(way, []).append(programs[way]())
                best = min(best or (math.inf, ""), (microseconds[way][-1], way[2]))
            except Exception as error:
                del programs[way]
                errors.append(f"{' '.join(map(str, way))}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        print(json.dumps({"errors": errors, **({"us": best[0], "way": best[1]} if best else {})}), flush=True)


class Worker:
    """A peer in a process of its own."""

    def __init__(self, peer):
        python = arguments.jax_python if peer == "jax" else arguments.torch_python
        passed = ["--worker", peer, "--device", arguments.device, "--precision", arguments.precision, "--seconds", str(arguments.seconds)]
        self.process = subprocess.Popen([python, os.path.abspath(__file__), *passed], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.name = self.answer()["version"]

    def say(self, asked):
        print(json.dumps(asked), file=self.process.stdin, flush=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a peer stopped with exit code {self.process.wait()}; leave it out with --peers")
        answer = json.loads(line)
        for error in answer.get("errors", []):
            note(f"{self.name}, {error}")
        return answer


BEGIN = time.perf_counter()


def note(text):
    print(f"{time.perf_counter() - BEGIN:6.1f} s  {text}", file=sys.stderr, flush=True)


def time_kelvin(case):
    """µs per chain-step for each number of chains."""
    command = [arguments.kelvin, "bench", case, "--json", "--device", arguments.device, "--chains", ",".join(map(str, arguments.chains))]
    command += ["--readings", "1", "--precision", "bf16" if arguments.precision == "bfloat16" else "f32"]
    lines = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    timings = [json.loads(line) for line in lines]
    return {timing["chains"]: timing["us_per_chain_step"] for timing in timings}


def compare():
    workers = [Worker(peer) for peer in arguments.peers]
    cells = [(case, chains) for case in arguments.cases for chains in arguments.chains]
    for some in [[worker] for worker in workers] if arguments.apart else [workers]:
        for worker in some:
            worker.say({"prepare": cells})
        for worker in some:
            worker.answer()
            note(f"{worker.name} is compiled")
    ours = {cell: [] for cell in cells}
    theirs = {cell: [[] for _ in workers] for cell in cells}
    for number in range(arguments.rounds):
        for case in arguments.cases:
            for chains, microseconds in time_kelvin(case).items():
                ours[case, chains].append(microseconds)
            for chains in arguments.chains:
                for times, worker in zip(theirs[case, chains], workers):
                    worker.say({"case": case, "chains": chains, "round": number})
                    answer = worker.answer()
                    if "us" in answer:
                        times.append((answer["us"], answer["way"]))
            note(f"round {number + 1} of {case}")
    for worker in workers:
        worker.process.stdin.close()
        worker.process.wait()

    if not arguments.json:
        print("µs per chain-step, medians; ratio: the fastest peer over kelvin")
        print(f"{'case':<12} {'chains':>6} {'kelvin':>10}" + "".join(f" {worker.name:>22}" for worker in workers) + f"  {'best peer':<24} {'ratio':>7}")
    for case, chains in cells:
        kelvin = statistics.median(ours[case, chains])
        peers = {worker.name: (statistics.median(time for time, _ in times), times[-1][1]) for worker, times in zip(workers, theirs[case, chains]) if times}
        best = min(peers, key=lambda name: peers[name][0], default=None)
        ratio = peers[best][0] / kelvin if best else math.nan
        if arguments.json:
            shown = {name: {"us": round(time, 3), "way": way} for name, (time, way) in peers.items()}
            print(json.dumps({"case": case, "chains": chains, "kelvin_us": kelvin, "peers": shown, "best": best, "ratio": round(ratio, 2) if best else None}))
        else:
            shown = [f"{peers[worker.name][0]:.2f} ({peers[worker.name][1]})" if worker.name in peers else "–" for worker in workers]
            best = f"{best} ({peers[best][1]})" if best else "–"
            print(f"{case:<12} {chains:>6} {kelvin:>10.3f}" + "".join(f" {cell:>22}" for cell in shown) + f"  {best:<24} {ratio:>6.1f}×")


if arguments.worker:
    {"jax": jax_worker, "torch": torch_worker}[arguments.worker]()
else:
    compare()
