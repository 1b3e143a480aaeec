#!/usr/bin/env python3
"""Builds the tensor cores' convolutions for many tiles, checks each against PyTorch, and times it.

    python3 tune_convolutions.py build              # needs nvcc (PATH or NVCC), no GPU; writes cubins beside this file
    python3 tune_convolutions.py time --chains 10   # needs a GPU and PyTorch
    python3 tune_convolutions.py time --layers s3 s3-sum   # some layers only

Each line: the layer, its tile, whether it comes by bulk copies, blocks on a multiprocessor, registers, spilled bytes, µs a chain, TB/s, TFLOP/s, relative errors. Layers are
those of ResNet-20 (c0, s1, s2, s3, those that read a sum, which they work out, and add to its gradient, some of them with both terms' norms, the strided ones, alone and with their shortcuts) and of the MNIST network (m1, m2). The first
tile of a layer is the one before strips (strip 0), the second the engine's; those with `wide` or `strided` are multiplied by warpgroups. Change LAYERS and TILES to try others; `src/general/conv_tile.rs` is where the engine's choice is made.
"""
import argparse
import ctypes
import hashlib
import json
import math
import os
import pathlib
import re
import struct
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
KERNELS, BUILT = HERE.parent / "kernels", HERE / "built"
IMAGES = 128
# Parts that others left of the norms that a kernel finishes.
PARTS = 16
#        size, channels, filters, kernel, stride, packed, norm, relu
LAYERS = {
    "c0": (32, 3, 16, 3, 1, 1, 0, 0),
    "s1": (32, 16, 16, 3, 1, 0, 1, 1),
    "s2": (16, 32, 32, 3, 1, 0, 1, 1),
    "s3": (8, 64, 64, 3, 1, 0, 1, 1),
    "s1-sum": (32, 16, 16, 3, 1, 0, 0, 1),
    "s2-sum": (16, 32, 32, 3, 1, 0, 0, 1),
    "s3-sum": (8, 64, 64, 3, 1, 0, 0, 1),
    "s2-sum-two": (16, 32, 32, 3, 1, 0, 0, 1),
    "s3-sum-two": (8, 64, 64, 3, 1, 0, 0, 1),
    "s2-sum-strided": (32, 16, 32, 3, 2, 0, 0, 1),
    "s3-sum-strided": (16, 32, 64, 3, 2, 0, 0, 1),
    "s2-shortcut": (32, 16, 32, 3, 2, 0, 0, 1),
    "s3-shortcut": (16, 32, 64, 3, 2, 0, 0, 1),
    "m1": (28, 1, 32, 3, 1, 1, 0, 0),
    "m2": (14, 32, 64, 3, 1, 0, 0, 0),
}
#   way, layer, images, rows, warps, blocks, sixteens together, filters of a square, sixteens of a strip, of a weights' strip
TILES = [
    ("forward", "c0", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward", "c0", 1, 16, 8, 2, 2, 16, 4, 0),
    ("forward", "s1", 1, 32, 8, 2, 2, 16, 4, 0),
    ("forward", "s1", 1, 16, 8, 2, 2, 16, 4, 0),
    ("forward", "s2", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward", "s2", 1, 16, 8, 2, 2, 16, 2, 0),
    ("forward", "s2", 1, 16, 4, 3, 2, 16, 4, 0),
    ("forward", "s3", 4, 8, 8, 1, 4, 16, 0, 0),
    ("forward", "s3", 4, 8, 8, 1, 4, 16, 4, 0),
    ("forward_wide", "s2", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward_wide", "s2", 1, 8, 8, 3, 2, 16, 0, 0),
    ("forward_wide", "s3", 2, 8, 8, 1, 2, 16, 0, 0),
    ("forward", "s1-sum", 1, 32, 8, 2, 2, 16, 4, 0),
    ("forward", "s2-sum-strided", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward_wide", "s2-sum", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward_wide", "s2-sum-two", 1, 16, 8, 2, 2, 16, 0, 0),
    ("forward", "s3-sum-strided", 4, 8, 8, 1, 4, 16, 0, 0),
    ("forward_wide", "s3-sum", 2, 8, 8, 1, 2, 16, 0, 0),
    ("forward_wide", "s3-sum-two", 2, 8, 8, 1, 2, 16, 0, 0),
    ("forward", "m1", 1, 28, 8, 2, 2, 16, 0, 0),
    ("forward", "m1", 1, 28, 8, 2, 2, 16, 4, 0),
    ("forward", "m2", 1, 14, 8, 2, 4, 16, 0, 0),
    ("forward", "m2", 1, 14, 8, 2, 4, 16, 4, 0),
    ("backward", "c0", 1, 8, 4, 4, 2, 16, 0, 0),
    ("backward", "c0", 1, 8, 4, 4, 2, 16, 4, 4),
    ("backward", "s1", 1, 4, 4, 4, 2, 16, 0, 0),
    ("backward", "s1", 1, 8, 4, 3, 2, 16, 4, 4),
    ("backward", "s1", 1, 8, 8, 2, 2, 16, 2, 2),
    ("backward", "s1", 1, 4, 4, 4, 2, 16, 2, 2),
    ("backward_wide", "s1", 1, 8, 8, 2, 1, 16, 0, 0),
    ("backward", "s2", 1, 8, 4, 2, 2, 32, 0, 0),
    ("backward", "s2", 1, 8, 4, 2, 2, 32, 4, 4),
    ("backward", "s2", 1, 16, 8, 1, 2, 32, 4, 4),
    ("backward_wide", "s2", 1, 16, 8, 1, 1, 32, 0, 0),
    ("backward_wide", "s2", 1, 8, 8, 2, 1, 32, 0, 0),
    ("backward", "s3", 1, 8, 8, 1, 2, 32, 0, 0),
    ("backward", "s3", 2, 8, 8, 1, 2, 32, 4, 8),
    ("backward", "s3", 2, 8, 8, 1, 2, 32, 4, 4),
    ("backward_wide", "s3", 2, 8, 8, 1, 1, 32, 0, 0),
    ("backward", "s1-sum", 1, 8, 4, 3, 2, 16, 4, 4),
    ("backward_wide", "s1-sum", 1, 8, 8, 2, 1, 16, 0, 0),
    ("backward", "s2-sum", 1, 8, 4, 2, 2, 32, 4, 4),
    ("backward_wide", "s2-sum", 1, 16, 8, 1, 1, 32, 0, 0),
    ("backward_wide", "s2-sum", 1, 8, 8, 2, 1, 32, 0, 0),
    ("backward", "s3-sum", 2, 8, 8, 1, 2, 32, 4, 8),
    ("backward_wide", "s3-sum", 2, 8, 8, 1, 1, 32, 0, 0),
    ("backward_wide", "s2-sum-two", 1, 8, 8, 2, 1, 32, 0, 0),
    ("backward_wide", "s3-sum-two", 2, 8, 8, 1, 1, 32, 0, 0),
    ("backward", "s2-sum-strided", 1, 4, 4, 4, 2, 16, 0, 0),
    ("backward_strided", "s2-sum-strided", 1, 8, 8, 2, 1, 16, 0, 0),
    ("backward_strided", "s2-shortcut", 1, 8, 8, 2, 1, 16, 0, 0),
    ("backward", "s3-sum-strided", 2, 8, 8, 1, 2, 32, 0, 0),
    ("backward_strided", "s3-sum-strided", 1, 8, 16, 1, 1, 32, 0, 0),
    ("backward_strided", "s3-shortcut", 1, 8, 16, 1, 1, 32, 0, 0),
    ("backward", "m1", 1, 14, 8, 2, 2, 16, 0, 0),
    ("backward", "m1", 1, 14, 8, 2, 2, 16, 4, 7),
    ("backward", "m2", 1, 14, 8, 1, 2, 32, 0, 0),
    ("backward", "m2", 1, 14, 8, 1, 2, 32, 4, 7),
]


def defines(way, layer, images, rows, warps, blocks, together, square, strip, weight_strip):
    size, channels, filters, kernel, stride, packed, norm, relu = LAYERS[layer]
    out = -(-size // stride)
    before = max((out - 1) * stride + kernel - size, 0) // 2
    has_norm = layer[0] != "m"
    # A pool of 2×2 and a ReLU read the outputs of the MNIST network.
    pool = 2 if layer[0] == "m" and (strip or "backward" in way) else 1
    steps = (kernel if packed else kernel * kernel * channels // 16) * min(filters // 8, 4)
    values = dict(
        IMAGE_H=size, IMAGE_W=size, CHANNELS=channels, FILTERS=filters, KERNEL=kernel, STRIDE=stride, PAD_TOP=before,
        PAD_LEFT=before, OUT_H=out, OUT_W=out, TILE_IMAGES=images, TILE_ROWS=rows, WARPS=warps, BLOCKS=blocks,
        M_TOGETHER=together, STRIP=strip, PACKED=packed, INPUT_NORM=norm, INPUT_RELU=relu,
    )
    if "forward" in way:
        # The first term has a norm, the second a ReLU, or a norm as well where there are two.
        is_sum, both = int("sum" in layer), int("two" in layer)
        return values | dict(
            HOLD_WEIGHTS=int(steps <= 18), ADD_BIAS=int(not has_norm), STATISTICS=int(has_norm), POOL=pool, POOL_RELU=int(pool > 1),
            SUM_INPUT=is_sum, LEFT_NORM=is_sum, LEFT_RELU=0, RIGHT_NORM=both, RIGHT_RELU=is_sum - both,
            INPUT_PENDING=int(norm or is_sum), OTHER_PENDING=both, FINISH=0,
        )
    if way == "backward_strided":
        shortcut = int("shortcut" in layer)
        values |= dict(SHORTCUT=shortcut, ROOMS=1 if shortcut and channels == 16 else 2)
    return values | dict(
        SQUARE_FILTERS=square, WEIGHT_STRIP=weight_strip, POOL=pool, OUTPUT_RELU=int(pool > 1), OUTPUT_BITS=int(pool > 1), OUTPUT_NORM=int(has_norm), DATA_GRADIENT=int(not packed),
        BIAS_GRADIENT=int(not has_norm), ADD_PREVIOUS=int("sum" in layer), MASK=int(bool(relu)), NORM_SUMS=(2 if "two" in layer else 1) if has_norm and not packed else 0, FINISH=0,
    )


def shared_bytes(way, d):
    """As `conv_tile.rs`, `conv_wide.rs` and `conv_strided.rs` compute it."""
    if way == "backward_strided":
        places, chunks, filters = d["TILE_IMAGES"] * d["TILE_ROWS"] * d["OUT_W"], d["CHANNELS"] // 8, d["FILTERS"] // 8
        apart, shortcut, values = 4 // chunks, d["SHORTCUT"], 1 + d["OUTPUT_NORM"]
        x = 4 * chunks * (places + (3 * apart - places % (2 * apart)) % (2 * apart))
        dy = d["TILE_IMAGES"] * (d["TILE_ROWS"] + 1) * filters * (d["OUT_W"] + 8 // filters)
        row, above = d["OUT_W"] * filters, int(d["TILE_ROWS"] < d["OUT_H"])
        staged = 4 * places * chunks + values * row * d["TILE_IMAGES"] * (d["TILE_ROWS"] + above + shortcut * d["TILE_ROWS"])
        weights = (3 * (2 if chunks == 2 else 3) + shortcut) * filters * 33
        return 16 * (d["ROOMS"] * (dy * (1 + shortcut) + x) + staged + weights) + 4 * (3 * d["CHANNELS"] + 6 * d["FILTERS"]) + 8
    if "wide" in way:
        border = int(way == "forward_wide")
        plane, apart = (d["TILE_IMAGES"] * (d["TILE_ROWS"] + border) + border) * (d["OUT_W"] + 1) + 1, 64 // d["CHANNELS"]
        plane += (3 * apart - plane % (2 * apart)) % (2 * apart)
        rows = [d["TILE_ROWS"], d["TILE_ROWS"] + (0 if d["TILE_ROWS"] == d["OUT_H"] else 2)]
        chunks = d["CHANNELS"] // 8
        dy = (d["TILE_IMAGES"] * (d["TILE_ROWS"] + 1) + 1) * chunks * (d["OUT_W"] + 8 // chunks) + 1
        room, values, coefficients = (plane * chunks, [0, 1], 2 + 2 * d["SUM_INPUT"]) if way == "forward_wide" else ((6 if chunks == 2 else 8) * plane + dy, [1, 1 + d["OUTPUT_NORM"]], 5 + max(1, d["NORM_SUMS"]))
        staged = d["TILE_IMAGES"] * (rows[0] * values[0] + rows[1] * values[1]) * d["OUT_W"]
        return 16 * (2 * room + (staged + 9 * (d["CHANNELS"] + 1)) * chunks) + 4 * coefficients * d["CHANNELS"] + 8
    step = d["STRIDE"] if d["KERNEL"] == 1 else 1
    overhang = -d["OUT_W"] % 16 if d["STRIP"] and d["OUT_W"] != 8 else 0
    lines = d["TILE_IMAGES"] * ((d["TILE_ROWS"] - 1) * (d["STRIDE"] // step) + d["KERNEL"])
    if d["PACKED"]:
        depth, taps, stage = 16, d["KERNEL"], 0
        chunks = lines * ((d["OUT_W"] + d["KERNEL"]) // 2 * 2) // 2
        tile = 2 * ((chunks + 3 + overhang // 2 + 7) // 8 * 8 + 4)
    else:
        depth, taps = d["CHANNELS"], d["KERNEL"] ** 2
        width = (d["OUT_W"] - 1) * (d["STRIDE"] // step) + d["KERNEL"]
        tile = (lines * width + overhang) * (depth // 8 + 1)
        stage = lines * min(d["IMAGE_W"] // step, width - d["PAD_LEFT"]) * (depth // 8)
    weights = taps * depth * (d["FILTERS"] // 8 + 1)
    if way == "forward":
        sums = d["WARPS"] // max(1, d["FILTERS"] // 32) * d["FILTERS"] * 8
        return 16 * (tile + stage + weights) + 4 * ((2 + 2 * d["SUM_INPUT"]) * depth + d["FILTERS"]) + sums + 8
    wanted = d["DATA_GRADIENT"]
    above = -(-(d["KERNEL"] - 1 - d["PAD_TOP"]) // d["STRIDE"]) if wanted else 0
    below = -(-d["PAD_TOP"] // d["STRIDE"]) if wanted else 0
    rows, chunks = d["TILE_IMAGES"] * (d["TILE_ROWS"] + above + below), d["FILTERS"] // 8
    border = (rows * (d["OUT_W"] + max(above + below, overhang)) + 1) * (chunks + 1)
    border += rows * d["OUT_W"] * chunks * (2 if d["OUTPUT_NORM"] else 1)
    if d["OUTPUT_BITS"]:
        border += d["TILE_IMAGES"] * (rows // d["TILE_IMAGES"] // 2 + 1) * -(-d["OUT_W"] // 16) * -(-d["FILTERS"] // 32) * 8
    at_work = 16 * (border + tile + stage + (weights if wanted else 0)) + 4 * ((2 + max(1, d["NORM_SUMS"])) * depth + 3 * d["FILTERS"]) + 8
    squares = depth // 16 * (d["FILTERS"] // d["SQUARE_FILTERS"])
    shares = 4 * taps * depth * d["FILTERS"] if d["WARPS"] > squares else 0
    return max(at_work, shares, 4 * 8 * 32 * d["WARPS"] if d["BIAS_GRADIENT"] else 0)


def expanded(name, seen):
    if name in seen:
        return ""
    seen.add(name)
    text = ""
    for line in (KERNELS / name).read_text().splitlines(keepends=True):
        include = re.match(r'#include "(.*)"', line)
        text += expanded(include[1], seen) if include else line
    return text


def build():
    BUILT.mkdir(exist_ok=True)
    listed = []
    for tile, bulk in [(tile, bulk) for tile in TILES for bulk in ((1,) if "_" in tile[0] else (0, 1))]:
        d = defines(*tile) | dict(BULK=bulk)
        file = f"conv_{tile[0]}.cu"
        text = "".join(f"#define {name} {value}\n" for name, value in d.items()) + expanded(file, set())
        name = hashlib.sha1(text.encode()).hexdigest()[:16]
        source, cubin = BUILT / f"{name}.cu", BUILT / f"{name}.cubin"
        source.write_text(text)
        command = [os.environ.get("NVCC", "nvcc"), "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-cubin", "-Xptxas", "-v"]
        said = subprocess.run([*command, "-o", cubin, source], capture_output=True, text=True)
        if said.returncode:
            raise SystemExit(said.stderr)
        registers, spilled = re.search(r"Used (\d+) reg", said.stderr)[1], re.search(r"(\d+) bytes spill loads", said.stderr)[1]
        listed.append(dict(tile=tile, defines=d, cubin=cubin.name, registers=registers, spilled=spilled, shared=shared_bytes(tile[0], d)))
        print(*tile, "bulk", bulk, "registers", registers, "spilled", spilled, "shared", listed[-1]["shared"])
    (BUILT / "tiles.json").write_text(json.dumps(listed))


def time_all(chains, readings, layers):
    import torch
    import torch.nn.functional as F

    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    driver = ctypes.CDLL("libcuda.so.1")
    torch.zeros(1, device="cuda")
    processors = torch.cuda.get_device_properties(0).multi_processor_count

    def checked(code):
        if code:
            raise SystemExit(f"the driver says {code}")

    def normal(*shape, kind=torch.bfloat16):
        return torch.randn(*shape, device="cuda", dtype=kind)

    def error(found, wanted):
        return float((found.double() - wanted.double()).norm() / wanted.double().norm())

    def bits_of(y):
        """The words of conv_tile.cuh: bit 8·(row % 2) + 4·(pixel // 8 % 2) + chunk % 4, sixteen further up the second of two filters."""
        columns, filters = -y.shape[3] % 16 + y.shape[3], y.shape[4]
        above = F.pad(y > 0, (0, 0, 0, columns - y.shape[3]))
        parts = above.view(chains, IMAGES, y.shape[2] // 2, 2, columns // 16, 2, 8, filters // 32, 4, 4, 2)
        r, half, n, c = torch.meshgrid(*(torch.arange(count, device="cuda") for count in (2, 2, 4, 2)), indexing="ij")
        weights = (1 << (8 * r + 4 * half + n + 16 * c)).view(2, 1, 2, 1, 1, 4, 1, 2)
        words = (parts * weights).sum((3, 5, 8, 10)).permute(0, 1, 2, 3, 5, 4, 6).contiguous()
        return words.view(torch.int32)[..., ::2].contiguous()

    for one in json.loads((BUILT / "tiles.json").read_text()):
        way, layer = one["tile"][:2]
        d = one["defines"]
        if layers and layer not in layers:
            continue
        module, function, resident = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_int()
        checked(driver.cuModuleLoadData(ctypes.byref(module), (BUILT / one["cubin"]).read_bytes()))
        checked(driver.cuModuleGetFunction(ctypes.byref(function), module, f"conv_{way}".encode()))
        checked(driver.cuFuncSetAttribute(function, 8, one["shared"]))
        threads, shared = 32 * d["WARPS"], ctypes.c_size_t(one["shared"])
        checked(driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(ctypes.byref(resident), function, threads, shared))
        size, channels, filters, kernel, out = d["IMAGE_H"], d["CHANNELS"], d["FILTERS"], d["KERNEL"], d["OUT_H"]
        stored = 4 if d["PACKED"] else channels
        pool = d["POOL"]
        x, y = normal(chains, IMAGES, size, size, stored), normal(chains, IMAGES, out, out, filters)
        dy = normal(chains, IMAGES, out // pool, out // pool, filters)
        pooled = torch.zeros_like(dy)
        w = (normal(chains, kernel, kernel, channels, filters) * (0.7 / math.sqrt(kernel * kernel * channels))).contiguous()
        norm = normal(chains, 4, channels, kind=torch.float32)
        bias = normal(chains, w[0].numel(), kind=torch.float32)
        tiles = IMAGES // d["TILE_IMAGES"] * (out // d["TILE_ROWS"])
        # As the engine does: ten chains fill the device.
        per_block = -(-min(chains, 10) * tiles // (processors * max(1, resident.value)))
        blocks = -(-tiles // per_block)
        parts, dx = torch.zeros(chains, blocks, max(filters, channels), 2, device="cuda"), torch.zeros_like(x)
        dw, db = torch.zeros(chains, blocks, *w.shape[1:], device="cuda"), torch.zeros(chains, blocks, filters, device="cuda")
        at = lambda tensor: tensor.data_ptr()
        tickets = torch.zeros(chains, device="cuda", dtype=torch.int32)
        running, cells = torch.zeros(2, chains, channels, device="cuda"), torch.zeros(chains, 80, device="cuda", dtype=torch.uint8)
        kept = []  # what kernels are given stays where it is

        def pending_norm(to):
            """What finishes a norm of the input that `to` is the coefficients of afterwards, which are worked out here as well."""
            count = IMAGES * size * size // PARTS
            left = torch.stack((0.3 * normal(chains, PARTS, channels, kind=torch.float32), count * (0.5 + torch.rand(chains, PARTS, channels, device="cuda"))), -1).contiguous()
            gamma, beta = normal(chains, channels, kind=torch.float32), normal(chains, channels, kind=torch.float32)
            means, spreads = left.double().unbind(-1)
            variance = means.square().mean(1) - means.mean(1).square() + spreads.sum(1) / (PARTS * count)
            to[:, 0] = gamma / (variance + 1e-5).sqrt()
            to[:, 1] = beta - to[:, 0] * means.mean(1)
            kept.extend((left, gamma, beta, torch.zeros_like(to)))
            return struct.pack("<8Q3d2Q6I", at(left), at(kept[-1]), 0, at(gamma), at(beta), at(running[0]), at(running[1]), at(cells),
                               0.9, 1e-5, 1 / (PARTS * count), channels, channels, channels, PARTS, count, PARTS * count, 0, 0)

        normed = [normal(chains, IMAGES, size, size, stored) for _ in range(max(1, d.get("NORM_SUMS", 0)))]
        of_normed = [normal(chains, 4, channels, kind=torch.float32) for _ in range(2)]
        other_parts = torch.zeros_like(parts)
        previous = normal(*x.shape) if d.get("ADD_PREVIOUS") else torch.zeros_like(x)
        if "forward" in way:
            rows = per_block * d["TILE_IMAGES"] * d["TILE_ROWS"] * out
            nothing = bytes(struct.calcsize("<8Q3d2Q6I"))
            places = (x, w, bias, norm, pooled, torch.zeros_like(y), parts, tickets)
            packed = struct.pack("<8Q", *map(at, places)) + nothing + struct.pack("<Q2I", w[0].numel(), IMAGES, per_block)
            packed += struct.pack("<3Q", at(normed[0]), at(of_normed[0]), at(dx))
            packed += pending_norm(norm) if d["INPUT_PENDING"] else nothing
            packed += pending_norm(of_normed[0]) if d["OTHER_PENDING"] else nothing
        else:
            # Left to who needs them next.
            finish, other_finish = (
                struct.pack("<6Qd4I", at(own), at(of), 0, 0, 0, 0, 1 / (IMAGES * size * size), channels, blocks, 1, 0)
                for own, of in ((parts, of_normed[0]), (other_parts, of_normed[1]))
            )
            def pending_norm_backward():
                """What finishes the backward pass through a norm of the output's kind, and the coefficients that follow from it."""
                pixels = IMAGES * out * out
                of_output, left = normal(chains, 4, filters, kind=torch.float32), 0.1 * pixels * normal(chains, PARTS, filters, 2, kind=torch.float32)
                scale, _, mean, inverse_std = of_output.double().unbind(1)
                sums, products = (left.double().sum(1) / pixels).unbind(-1)
                of_values = -scale * inverse_std * products
                gradients = torch.zeros(2, chains, filters, device="cuda")
                kept.extend((of_output, left, gradients))
                packed = struct.pack("<6Qd4I", at(left), at(of_output), 0, at(gradients[0]), at(gradients[1]), 0, 1 / pixels, filters, PARTS, 1, 0)
                return packed, torch.stack((scale, of_values, -scale * sums - of_values * mean), 1).float(), (gradients[1, 0], left[0, :, :, 0].double().sum(0))

            pending, slopes, *offsets = pending_norm_backward()
            places = (x, w, norm, bits_of(y) if d["OUTPUT_BITS"] else y, dy, dx, dw, db, normed[0], parts, tickets)
            packed = struct.pack("<11Q", *map(at, places)) + finish + struct.pack("<Q2I", w[0].numel(), IMAGES, per_block)
            packed += struct.pack("<2Q", at(normed[-1]), at(other_parts)) + other_finish + pending
            if way == "backward_strided":
                pending, of_shortcut_slopes, offset = pending_norm_backward()
                offsets += [offset] * d["SHORTCUT"]
                # Of the shortcut: weights, V, D, slopes, the weights' gradient.
                shortcut = [(normal(chains, channels, filters) * (0.7 / math.sqrt(channels))).contiguous(), normal(*y.shape), normal(*y.shape),
                            of_shortcut_slopes, torch.zeros(chains, blocks, channels, filters, device="cuda")]
                # A chain's weights are as far apart as those of the convolution.
                of_shortcut = torch.zeros_like(w).view(chains, -1)
                of_shortcut[:, : channels * filters] = shortcut[0].view(chains, -1)
                packed += struct.pack("<4Q", at(of_shortcut), at(shortcut[1]), at(shortcut[2]), at(shortcut[4])) + pending
        buffer = ctypes.create_string_buffer(packed, len(packed))
        pointer = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))

        def launch():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            checked(driver.cuLaunchKernel(function, blocks, chains, 1, threads, 1, 1, one["shared"], stream, pointer, None))

        dx.copy_(previous)
        launch()
        torch.cuda.synchronize()
        seen = x[0][..., :channels].float()
        if d["INPUT_NORM"] or d.get("LEFT_NORM"):
            seen = seen * norm[0, 0] + norm[0, 1]
        if d.get("SUM_INPUT"):
            term = normed[0][0].float()
            seen = seen + (term * of_normed[0][0, 0] + of_normed[0][0, 1] if d["RIGHT_NORM"] else F.relu(term))
            sum_error = [error(dx[0], seen)]
        seen = (F.relu(seen) if d["INPUT_RELU"] else seen).bfloat16().float().requires_grad_()
        weights = w[0].float().requires_grad_()
        after = max((out - 1) * d["STRIDE"] + kernel - size, 0) - d["PAD_TOP"]
        padded = F.pad(seen.permute(0, 3, 1, 2), (d["PAD_LEFT"], after, d["PAD_TOP"], after))
        wanted = F.conv2d(padded, weights.permute(3, 2, 0, 1), stride=d["STRIDE"]).permute(0, 2, 3, 1)
        if "forward" in way:
            wanted = wanted.detach() + (bias[0, :filters] if d["ADD_BIAS"] else 0)
            if pool > 1:
                wanted = F.avg_pool2d(F.relu(wanted).permute(0, 3, 1, 2), pool).permute(0, 2, 3, 1)
            errors = [error(pooled[0], wanted)]
            if d["STATISTICS"]:
                counts = torch.tensor([min(rows, IMAGES * out * out - rows * block) for block in range(blocks)], device="cuda")
                means = parts.flatten()[: blocks * filters * 2].view(blocks, filters, 2)[..., 0]
                errors.append(error((means * counts[:, None]).sum(0) / (IMAGES * out * out), wanted.mean((0, 1, 2))))
            errors += sum_error if d["SUM_INPUT"] else []
            moved, products = x[0].numel() * (1 + 2 * d["SUM_INPUT"]) + pooled[0].numel(), 1
        else:
            upstream = dy[0].float().repeat_interleave(pool, 1).repeat_interleave(pool, 2) / pool**2
            if pool > 1:
                upstream *= y[0] > 0
            if d["OUTPUT_NORM"]:
                upstream = (slopes[0, 0] * upstream + slopes[0, 1] * y[0].float() + slopes[0, 2]).bfloat16().float()
            of_input, of_weights = torch.autograd.grad(wanted, (seen, weights), upstream)
            errors = [error(dw[0].sum(0), of_weights)]
            if d.get("SHORTCUT"):
                own_weights, v, gradient, own_slopes, own_dw = (tensor[0].float() for tensor in shortcut)
                gradient = (own_slopes[0] * gradient + own_slopes[1] * v + own_slopes[2]).bfloat16().float() if d["OUTPUT_NORM"] else gradient
                met = seen.detach()[:, ::2, ::2]
                of_input = of_input.clone()
                of_input[:, ::2, ::2] += gradient @ own_weights.T
                errors.append(error(own_dw.sum(0), torch.einsum("nhwi,nhwo->io", met, gradient)))
            if d["DATA_GRADIENT"]:
                of_input = of_input + previous[0].float()
                of_input = of_input * (seen > 0) if d["MASK"] else of_input
                errors.append(error(dx[0], of_input))
            for number in range(d["NORM_SUMS"]):
                of = of_normed[number][0]
                standard = (normed[number][0].float() - of[2]) * of[3]
                own = (parts, other_parts)[number].flatten()[: blocks * channels * 2].view(blocks, channels, 2).sum(0)
                errors += [error(own[:, 1], (of_input * standard).sum((0, 1, 2))), error(own[:, 0], of_input.sum((0, 1, 2)))]
            if d["OUTPUT_NORM"]:
                errors += [error(*offset) for offset in offsets]
            products = 1 + d["DATA_GRADIENT"]
            moved = x[0].numel() * products + dy[0].numel() + y[0].numel() * d["OUTPUT_NORM"] + dx[0].numel() * (d["ADD_PREVIOUS"] + d["NORM_SUMS"])
            moved += d.get("SHORTCUT", 0) * (1 + d["OUTPUT_NORM"]) * y[0].numel()
        times = []
        for _ in range(readings):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for _ in range(20):
                launch()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e3 / 20)
        took = sorted(times)[readings // 2]
        flops = 2 * IMAGES * out * out * filters * channels * kernel * kernel * products
        print(
            f"{way:13} {layer:10} {one['tile'][2:]} bulk {d['BULK']} blocks {resident.value} registers {one['registers']} spilled {one['spilled']}"
            f"  {took / chains:6.2f} µs a chain {2 * moved * chains / took / 1e6:5.2f} TB/s {flops * chains / took / 1e6:4.0f} TFLOP/s"
            f"  errors {' '.join(f'{value:.1e}' for value in errors)}",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["build", "time"])
    parser.add_argument("--chains", type=int, default=10)
    parser.add_argument("--readings", type=int, default=5)
    parser.add_argument("--layers", nargs="*", choices=LAYERS, help="of those that are to be timed")
    asked = parser.parse_args()
    build() if asked.what == "build" else time_all(asked.chains, asked.readings, asked.layers)


if __name__ == "__main__":
    main()
