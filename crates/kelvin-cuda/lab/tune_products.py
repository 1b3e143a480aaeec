#!/usr/bin/env python3
"""Times product_tf32.cu for the products of dense layers, one by one, for every way to cut them, and checks each against float64.

    python3 crates/kelvin-cuda/lab/tune_products.py [--chains 25 50] [--layers 784-256 256-256]     # needs CuPy and a GPU
"""
import argparse
import ctypes
import itertools
import os
import re

import cupy
import numpy

KERNELS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "kernels")
parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--chains", nargs="+", type=int, default=[25, 50])
parser.add_argument("--layers", nargs="+", default=["784-256", "256-256"])
parser.add_argument("--batch", type=int, default=128)
parser.add_argument("--splits", type=int, default=1)
parser.add_argument("--kernels", default=KERNELS)
arguments = parser.parse_args()
FIELDS = [("pointers", "u8", 5), ("strides", "u8", 4), ("sizes", "u4", 4), ("column_sums", "u8", 1)]
DRIVER = ctypes.CDLL("libcuda.so.1")
DTYPE = numpy.dtype([(name, kind, (count,)) for name, kind, count in FIELDS])


def text(file, defines):
    seen = {file}

    def expanded(file):
        lines = []
        for line in open(os.path.join(arguments.kernels, file)):
            match = re.match(r'#include "(.*)"', line)
            if not match:
                lines.append(line)
            elif match.group(1) not in seen:
                seen.add(match.group(1))
                lines.append(expanded(match.group(1)))
        return "".join(lines)

    return "".join(f"#define {name} {value}\n" for name, value in defines.items()) + expanded(file)


def product(which, inputs, units, chains, cut):
    """µs per chain, the error and the registers of one product of a layer."""
    batch = arguments.batch
    rows, columns, depth = {"forward": (batch, units, inputs), "weights": (inputs, units, batch), "input": (batch, inputs, units)}[which]
    a_shape = (depth, rows) if which == "weights" else (rows, depth)
    b_shape = (columns, depth) if which == "input" else (depth, columns)
    splits = arguments.splits if which == "weights" else 1
    # Several sets, so that no cache holds them all.
    sets = max(1, min(8, int(2e8 / (4 * chains * (rows * depth + depth * columns + rows * columns)))))
    random = cupy.random.default_rng(1)
    a, b = (random.standard_normal((sets, chains, *shape), dtype=cupy.float32) for shape in (a_shape, b_shape))
    c = cupy.full((sets, chains, splits, rows, columns), cupy.nan, dtype=cupy.float32)
    sums = cupy.full((chains, splits, columns), cupy.nan, dtype=cupy.float32)
    bias = cupy.zeros((chains, columns), dtype=cupy.float32)
    defines = dict(HALF=0, WIDE_A=int(a_shape[1] % 4 == 0), WIDE_B=int(b_shape[1] % 4 == 0), A_TRANSPOSED=int(which == "weights"), B_TRANSPOSED=int(which == "input"),
                   RELU_A=int(which == "weights"), FLOAT_C=1, PAIRS=int(columns % 2 == 0), ADD_BIAS=int(which == "forward"), ADD_PREVIOUS=0, MASK=0, COLUMN_SUMS=int(which == "weights"), **cut)
    module = cupy.RawModule(code=text("product_tf32.cu", defines), options=("--std=c++17", "--device-as-default-execution-space"), backend="nvrtc")
    kernel = module.get_function("product_tf32")
    room = lambda down: 4 * (16 * 68 if down else 64 * (16 + 8))
    shared = cut["STAGES"] * (room(which == "weights") + room(which != "input"))
    function = ctypes.c_void_p(kernel.kernel.ptr)
    assert DRIVER.cuFuncSetAttribute(function, 8, shared) == 0
    grid = (-(-rows // 64) * -(-columns // 64), chains, splits)

    def launch(number):
        filled = numpy.zeros(1, DTYPE)  # copied when it is launched
        filled["pointers"] = [a[number].data.ptr, b[number].data.ptr, c[number].data.ptr, bias.data.ptr, 0]
        filled["strides"] = [rows * depth, depth * columns, rows * columns, columns]
        filled["sizes"] = [rows, columns, depth, splits]
        filled["column_sums"] = sums.data.ptr
        parameters = (ctypes.c_void_p * 1)(filled.ctypes.data)
        stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
        assert DRIVER.cuLaunchKernel(function, *grid, 128, 1, 1, shared, stream, parameters, None) == 0

    launch(0)
    exact_a = a[0].astype(cupy.float64)
    exact_a = cupy.maximum(exact_a, 0).transpose(0, 2, 1) if which == "weights" else exact_a
    exact = exact_a @ (b[0].astype(cupy.float64).transpose(0, 2, 1) if which == "input" else b[0].astype(cupy.float64))
    error = float(cupy.linalg.norm(c[0].sum(1) - exact) / cupy.linalg.norm(exact))
    for number in range(sets):
        launch(number)
    # As a graph: Python would take longer to launch than the kernels to run.
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        for repeat in range(20):
            launch(repeat % sets)
        graph = stream.end_capture()
        graph.launch()
        times = []
        for _ in range(5):
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            graph.launch()
            end.record()
            end.synchronize()
            times.append(cupy.cuda.get_elapsed_time(begin, end) * 1e3 / 20)
    return sorted(times)[2] / chains, error, kernel.num_regs


for layer, which, chains in itertools.product(arguments.layers, ["forward", "weights", "input"], arguments.chains):
    inputs, units = map(int, layer.split("-"))
    for stages, blocks in [(2, 4), (3, 4), (4, 3), (4, 4), (5, 4)]:
        cut = dict(STAGES=stages, BLOCKS=blocks)
        micro, error, registers = product(which, inputs, units, chains, cut)
        multiply_adds = arguments.batch * inputs * units / micro / 1e6
        print(f"{layer:>9} {which:8} {chains:3} chains  {cut}  {micro:7.3f} µs a chain  {multiply_adds:6.1f} T multiply-adds/s  error {error:.1e}  {registers} registers", flush=True)
