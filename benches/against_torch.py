#!/usr/bin/env python3
"""Times kelvin against PyTorch on the paper's image networks, in turns, in one run, on the same threads; prints the ratios.

    python3 -m venv .venv && .venv/bin/pip install torch
    cargo build --release
    .venv/bin/python benches/against_torch.py --threads 2

Work: SGHMC steps (gradient, noise, update) of one chain on batches of 128 of 1024 images of random bytes.
  mnist-cnn  28×28×1, two convolutions with pooling, 256 hidden units; 824,458 parameters
  resnet20   32×32×3, batch norm, convolutions with biases; 273,258 parameters
PyTorch: eager, float32, channels_last, all images as floats before the first step, rows drawn independently, noise by
torch.randn, updates by torch._foreach functions. kelvin keeps bytes, draws without replacement, measures the kinetic
temperature and checks every step. The rounds alternate, so a busy machine slows both; the ratio of the medians counts.
"""
import argparse
import json
import os
import statistics
import subprocess
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--kelvin", default="target/release/kelvin", help="the kelvin binary")
parser.add_argument("--threads", type=int, default=1, help="threads of the one chain, both programs pinned to as many cores")
parser.add_argument("--rounds", type=int, default=5)
parser.add_argument("--steps", type=int, default=10, help="steps of a timed PyTorch call")
parser.add_argument("--cases", nargs="+", choices=["mnist-cnn", "resnet20"], default=["mnist-cnn", "resnet20"])
arguments = parser.parse_args()

os.environ["OMP_NUM_THREADS"] = str(arguments.threads)
if hasattr(os, "sched_setaffinity"):
    cores = sorted(os.sched_getaffinity(0))[: arguments.threads]
    if len(cores) < arguments.threads:
        parser.error(f"--threads {arguments.threads}: there are {len(cores)} cores")
    os.sched_setaffinity(0, cores)  # children inherit the cores

import torch
from torch import nn
from torch.nn import functional

torch.set_num_threads(arguments.threads)
torch.manual_seed(0)
BATCH, IMAGES, CLASSES, MOMENTUM, PRIOR_VARIANCE = 128, 1024, 10, 0.98, 0.1


class Cnn(nn.Module):
    """Two convolutions with pooling, a hidden layer, ten classes."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.hidden, self.last = nn.Linear(7 * 7 * 64, 256), nn.Linear(256, CLASSES)

    def forward(self, x):
        x = functional.avg_pool2d(functional.relu(self.first(x)), 2)
        x = functional.avg_pool2d(functional.relu(self.second(x)), 2)
        return self.last(functional.relu(self.hidden(x.flatten(1))))


class Unit(nn.Module):
    """A convolution with bias and SAME padding (stride 2: 0 before, 1 after), then batch norm."""

    def __init__(self, inputs, outputs, kernel, stride):
        super().__init__()
        self.pads = kernel == 3 and stride == 2
        self.conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=1 if kernel == 3 and stride == 1 else 0)
        self.norm = nn.BatchNorm2d(outputs, momentum=0.01)

    def forward(self, x):
        return self.norm(self.conv(functional.pad(x, (0, 1, 0, 1)) if self.pads else x))


class Block(nn.Module):
    """Two units, and a projection where the image shrinks."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.first, self.second = Unit(inputs, outputs, 3, stride), Unit(outputs, outputs, 3, 1)
        self.shortcut = Unit(inputs, outputs, 1, stride) if stride == 2 else nn.Identity()

    def forward(self, x):
        return functional.relu(self.second(functional.relu(self.first(x))) + self.shortcut(x))


class Resnet20(nn.Module):
    """Three stages of three blocks."""

    def __init__(self):
        super().__init__()
        widths = [(16, 16, 1), (16, 16, 1), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 1), (64, 64, 1)]
        self.start = Unit(3, 16, 3, 1)
        self.blocks = nn.Sequential(*(Block(*sizes) for sizes in widths))
        self.last = nn.Linear(64, CLASSES)

    def forward(self, x):
        return self.last(self.blocks(functional.relu(self.start(x))).mean((2, 3)))


#         case         network   channels side  parameters  learning rate
CASES = {"mnist-cnn": (Cnn, 1, 28, 824_458, 0.01), "resnet20": (Resnet20, 3, 32, 273_258, 0.1)}


class Chain:
    """One chain of SGHMC in PyTorch."""

    def __init__(self, network, channels, side, num_parameters, learning_rate):
        self.network = network().to(memory_format=torch.channels_last).train()
        self.position = list(self.network.parameters())
        assert sum(part.numel() for part in self.position) == num_parameters
        self.momentum = [torch.zeros_like(part) for part in self.position]
        images = torch.randint(0, 256, (IMAGES, channels, side, side)).float() / 255
        self.images = images.to(memory_format=torch.channels_last)
        self.labels = torch.randint(0, CLASSES, (IMAGES,))
        self.step_size = (learning_rate / IMAGES) ** 0.5

    def step(self):
        rows = torch.randint(0, IMAGES, (BATCH,))
        logits = self.network(self.images[rows])
        energy = functional.cross_entropy(logits, self.labels[rows]) * IMAGES
        slope = list(torch.autograd.grad(energy, self.position))
        with torch.no_grad():
            noise = [torch.randn_like(part) for part in self.position]
            torch._foreach_add_(slope, self.position, alpha=1 / PRIOR_VARIANCE)
            torch._foreach_mul_(self.momentum, MOMENTUM)
            torch._foreach_add_(self.momentum, slope, alpha=-self.step_size)
            torch._foreach_add_(self.momentum, noise, alpha=(2 * (1 - MOMENTUM)) ** 0.5)
            torch._foreach_add_(self.position, self.momentum, alpha=self.step_size)

    def milliseconds(self):
        begin = time.perf_counter()
        for _ in range(arguments.steps):
            self.step()
        milliseconds = (time.perf_counter() - begin) / arguments.steps * 1e3
        assert all(bool(part.isfinite().all()) for part in self.position)
        return milliseconds


def time_kelvin(case):
    command = [arguments.kelvin, "bench", case, "--json", "--device", "cpu", "--threads", str(arguments.threads)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    timings = [json.loads(line) for line in lines]
    one_chain = [timing for timing in timings if (timing["threads"], timing["chains"]) == (arguments.threads, 1)]
    return one_chain[0]["us_per_chain_step"] / 1e3


version = torch.__version__.split("+")[0]
for case in arguments.cases:
    chain = Chain(*CASES[case])
    chain.milliseconds()  # warms up
    ours, theirs = [], []
    for _ in range(arguments.rounds):
        ours.append(time_kelvin(case))
        theirs.append(chain.milliseconds())
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(json.dumps({"case": case, "threads": arguments.threads, "kelvin_ms": round(ours, 2), f"torch_{version}_ms": round(theirs, 2), "ratio": round(theirs / ours, 2)}), flush=True)
