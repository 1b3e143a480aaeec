#!/usr/bin/env python3
"""Asks a Hopper GPU which numbers of shared memory the products of `wgmma.cuh` multiply, and how fast.

    python3 probe_wgmma.py build   # needs nvcc (PATH or NVCC), no GPU; writes a cubin beside this file
    python3 probe_wgmma.py         # needs a GPU and its driver, nothing else; seconds

Both transpose bits, and all readings of an operand without swizzle: whether the sixteen bytes of a core matrix's row go along the sum's index k
or across it, and which of the two distances of the descriptor is the one along k. Operands begin at odd places, as those of a convolution do.
The last line says whether `kernels/wgmma.cuh` has it right, and what to change there otherwise.
"""
import ctypes
import itertools
import os
import pathlib
import random
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CUBIN = HERE / "built" / "probe_wgmma.cubin"
PLANE, LINE, ROOM = 91, 9, 2 * 8 * 91
# In sixteens of bytes from the start of shared memory.
A_FIRST, B_FIRST = 1, 8 * PLANE + 3


def build():
    CUBIN.parent.mkdir(exist_ok=True)
    command = [os.environ.get("NVCC", "nvcc"), "-gencode=arch=compute_90a,code=sm_90a", "-std=c++17", "-cubin", "-Xptxas", "-v"]
    subprocess.run([*command, "-I", HERE.parent / "kernels", "-o", CUBIN, HERE / "probe_wgmma.cu"], check=True)


class Gpu:
    def __init__(self):
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.call("cuInit", 0)
        device, context, self.module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.call("cuModuleLoadData", ctypes.byref(self.module), CUBIN.read_bytes())
        self.input, self.output = self.memory(16 * ROOM), self.memory(4 * 64 * 64)

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code:
            raise SystemExit(f"{name} says {code}")

    def memory(self, size):
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address

    def run(self, name, numbers, a, b, threads):
        """The 64 × 64 numbers that a kernel puts out."""
        function, shared = ctypes.c_void_p(), 16 * ROOM
        data = struct.pack(f"<{len(numbers)}H", *(struct.unpack("<I", struct.pack("<f", number))[0] >> 16 for number in numbers))
        self.call("cuMemcpyHtoD_v2", self.input, data, ctypes.c_size_t(len(data)))
        self.call("cuModuleGetFunction", ctypes.byref(function), self.module, name.encode())
        packed = struct.pack("<4Q", self.input.value, self.output.value, a, b)
        buffer = ctypes.create_string_buffer(packed, len(packed))
        pointer = (ctypes.c_void_p * 1)(ctypes.addressof(buffer))
        self.call("cuLaunchKernel", function, 1, 1, 1, threads, 1, 1, shared, None, pointer, None)
        self.call("cuCtxSynchronize")
        found = (ctypes.c_float * (64 * 64))()
        self.call("cuMemcpyDtoH_v2", found, self.output, ctypes.c_size_t(4 * 64 * 64))
        return list(found)


def read(numbers, first, rows_along_k, along_k, across, row, k):
    """Number (row, k) of an operand, distances in sixteens of bytes."""
    place = first + k // 8 * along_k + row // 8 * across
    return numbers[(place + row % 8) * 8 + k % 8] if rows_along_k else numbers[(place + k % 8) * 8 + row % 8]


def descriptor(first, lower, upper):
    return first | lower << 16 | upper << 32


def readings(numbers, first, lower, upper):
    """What an operand is, by how it is read: (do rows of sixteen bytes go along k, is the lower field the distance along k)."""
    found = {}
    for rows_along_k, lower_is_along_k in itertools.product([True, False], repeat=2):
        along_k, across = (lower, upper) if lower_is_along_k else (upper, lower)
        one = lambda row, k: read(numbers, first, rows_along_k, along_k, across, row, k)
        try:
            found[rows_along_k, lower_is_along_k] = [[one(row, k) for k in range(16)] for row in range(64)]
        except IndexError:
            pass
    return found


def main():
    gpu = Gpu()
    random.seed(1)
    numbers = [float(random.randint(-8, 8)) for _ in range(8 * ROOM)]
    right = True
    for a_bit, b_bit in itertools.product([0, 1], repeat=2):
        # The fields as wgmma.cuh and conv_backward_wide.cu fill them: planes along k without transposing, across with it.
        fields = lambda bit: (LINE, PLANE) if bit else (PLANE, LINE)
        a, b = descriptor(A_FIRST, *fields(a_bit)), descriptor(B_FIRST, *fields(b_bit))
        product = gpu.run(f"probe_{a_bit}{b_bit}", numbers, a, b, 128)
        matching = []
        for (how_a, of_a), (how_b, of_b) in itertools.product(
            readings(numbers, A_FIRST, *fields(a_bit)).items(), readings(numbers, B_FIRST, *fields(b_bit)).items()
        ):
            if all(sum(map(lambda x, y: x * y, of_a[i // 64], of_b[i % 64])) == product[i] for i in range(64 * 64)):
                matching.append((how_a, how_b))
        words = lambda how: f"16 bytes {'along k' if how[0] else 'across'}, along k is the {'leading' if how[1] else 'stride'} offset"
        print(f"transpose bits {a_bit}{b_bit}:", "; ".join(f"A {words(x)}; B {words(y)}" for x, y in matching) or "no reading fits", product[:4])
        right &= matching == [((not a_bit, True), (not b_bit, True))]
    for products in (1, 4, 16, 64):
        a, b = descriptor(A_FIRST, PLANE, LINE), descriptor(B_FIRST, PLANE, LINE)
        begun, done = gpu.run(f"depth_{products}", numbers, a, b, 128)[:2]
        print(f"{products} products: a warpgroup goes on after {begun:.0f} clocks, they are done after {done:.0f}")
    for name in ("rate_k_32", "rate_k_64", "rate_across_64", "rate_across_96", "rate_across_192"):
        for plane, line, first in ((88, 8, 0), (PLANE, LINE, 1)):
            # Of many columns, groups are a line apart, as those of dy in conv_backward_wide.cu.
            a = (line, plane) if "across" in name else (plane, line)
            b = (8 * line, line) if name[-2:] in ("96", "92") else a
            clocks = gpu.run(name, numbers, descriptor(first, *a), descriptor(8 * plane + 3 * first, *b), 256)[0]
            how = "odd" if first else "aligned"
            print(f"{name}, {how} places: {clocks:.1f} clocks a product and multiprocessor; at the tensor cores' peak {int(name.split('_')[-1]) // 2}")
    print("wgmma.cuh is right" if right else "wgmma.cuh is WRONG: change along_k_bit and across_bit (leading: 16, stride: 32) by Major as above")


if __name__ == "__main__":
    build() if sys.argv[1:] == ["build"] else main()
