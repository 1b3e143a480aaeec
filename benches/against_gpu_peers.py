#!/usr/bin/env python3
"""Times kelvin on a GPU against JAX and PyTorch doing the same work, in turns, in one run; prints a table of ratios.

    python3 -m venv .venv && .venv/bin/pip install 'jax[cuda12]' torch     # or one environment for each, see --help
    cargo build --release
    .venv/bin/python benches/against_gpu_peers.py

Work: SGHMC steps (gradient, noise, update) of a population of chains, each on its own batches. Cases: the benchmark's networks by
name, those of benches/gpu_networks by name, and any experiment file about images. `--cases benchmark`, `others` and `all` stand for
groups. Images are made-up bytes, 1024 of them, in batches of 128.
JAX: jit of lax.scan over the steps, rbg noise; chains by vmap and, for convolutions, one after the other in one program (map,
timed with ten: others take as long each). PyTorch: the step in a CUDA graph, for images eager and through
torch.compile; chains of dense networks as batched products, of others one after the other (so their time is that of one). The fastest
way of each counts. Images: bf16 products, f32 weights (--precision float32: f32 products, kelvin's too). Tables: f32. Wherever peers
multiply f32 they may use TF32, which kelvin does not. Peers draw rows with replacement, neither clip nor measure temperatures, and
skip running statistics (JAX). kelvin does all that. Every program runs in a process of its own. Peers first compile everything, all
at the same time (--apart: one after the other); then they and kelvin are timed in turns, round after round, so that a busy machine
slows all; medians count. One table at the end; progress goes to standard error. --device cpu is for trying the script out.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpu_peers")
sys.path.insert(0, FOLDER)
import networks

BEGIN = time.perf_counter()


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kelvin", default="target/release/kelvin", help="the kelvin binary")
    parser.add_argument("--cases", nargs="+", default=["all"], metavar="CASE", help=f"benchmark, others, all, FILE.toml, or {', '.join([*networks.BENCHMARK, *networks.others()])}")
    parser.add_argument("--chains", nargs="+", type=int, default=[1, 10, 50])
    parser.add_argument("--peers", nargs="*", choices=["jax", "torch"], default=["jax", "torch"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.7, help="of a timed reading of a peer")
    parser.add_argument("--apart", action="store_true", help="peers compile one after the other")
    parser.add_argument("--processes", type=int, default=1, help="of each peer, which compile at the same time and are still timed in turns")
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16", help="of products of images")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--jax-python", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--torch-python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--json", action="store_true", help="one JSON object a line instead of a table")
    asked = parser.parse_args()
    groups = {"benchmark": list(networks.BENCHMARK), "others": list(networks.others())}
    groups["all"] = groups["benchmark"] + groups["others"]
    asked.cases = list(dict.fromkeys(case for name in asked.cases for case in groups.get(name, [name])))
    for case in asked.cases:
        if case not in groups["all"] and not os.path.exists(case):
            parser.error(f"there is no case or file `{case}`; cases: {', '.join(groups['all'])}")
        networks.network(case).shapes()
    return asked


def note(text):
    print(f"{time.perf_counter() - BEGIN:6.1f} s  {text}", file=sys.stderr, flush=True)


class Worker:
    """A peer in a process of its own, with its share of the cases."""

    def __init__(self, peer, cases, asked):
        python = asked.jax_python if peer == "jax" else asked.torch_python
        passed = ["--device", asked.device, "--precision", asked.precision, "--seconds", str(asked.seconds)]
        command = [python, os.path.join(FOLDER, f"{peer}_worker.py"), *passed]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.cases, self.name = cases, self.answer()["version"]

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


def time_kelvin(case, asked):
    """µs per chain-step for each number of chains, and its share of the device's limit where kelvin tells."""
    named = case if case in networks.BENCHMARK else str(networks.others().get(case, case))
    command = [asked.kelvin, "bench", named, "--json", "--device", asked.device, "--chains", ",".join(map(str, asked.chains))]
    command += ["--readings", "1", "--precision", "bf16" if asked.precision == "bfloat16" else "f32"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        note(f"kelvin, {case}: {(done.stderr.splitlines() or ['no word'])[0]}")
    timings = [json.loads(line) for line in done.stdout.splitlines()]
    return {timing["chains"]: (timing["us_per_chain_step"], timing.get("share_of_limit")) for timing in timings}


def timed(workers, asked):
    """All readings of kelvin and of each peer, by case and chains."""
    cells = [(case, chains) for case in asked.cases for chains in asked.chains]
    for some in [[worker] for worker in workers] if asked.apart else [workers]:
        for worker in some:
            worker.say({"prepare": [cell for cell in cells if cell[0] in worker.cases]})
        for worker in some:
            worker.answer()
            note(f"{worker.name} is compiled for {', '.join(worker.cases)}")
    ours, theirs = {cell: [] for cell in cells}, {cell: {} for cell in cells}
    for number in range(asked.rounds):
        for case in asked.cases:
            for chains, reading in time_kelvin(case, asked).items():
                ours[case, chains].append(reading)
            for chains in asked.chains:
                for worker in (worker for worker in workers if case in worker.cases):
                    worker.say({"case": case, "chains": chains, "round": number})
                    answer = worker.answer()
                    if "us" in answer:
                        theirs[case, chains].setdefault(worker.name, []).append((answer["us"], answer["way"]))
            for chains in asked.chains:
                last = [f"kelvin {ours[case, chains][-1][0]:.2f}"] if ours[case, chains] else []
                last += [f"{name} {times[-1][0]:.2f} ({times[-1][1]})" for name, times in theirs[case, chains].items()]
                note(f"round {number + 1} of {case}, {chains} chains, µs: {', '.join(last)}")
    return ours, theirs


def row(ours, theirs):
    """Medians of a cell, with the best peer and its ratio to kelvin."""
    peers = {name: (statistics.median(time for time, _ in times), times[-1][1]) for name, times in theirs.items()}
    kelvin, share = (statistics.median(time for time, _ in ours), ours[-1][1]) if ours else (math.nan, None)
    best = min(peers, key=lambda name: peers[name][0], default=None)
    return kelvin, share, peers, best, peers[best][0] / kelvin if best else math.nan


def compare(asked):
    deal = [[case for number, case in enumerate(asked.cases) if number % asked.processes == at] for at in range(asked.processes)]
    workers = [Worker(peer, cases, asked) for peer in asked.peers for cases in deal if cases]
    ours, theirs = timed(workers, asked)
    for worker in workers:
        worker.process.stdin.close()
        worker.process.wait()
    names = list(dict.fromkeys(worker.name for worker in workers))
    if not asked.json:
        print("µs per chain-step, medians; share: the device's limit over kelvin; ratio: the fastest peer over kelvin")
        print(f"{'case':<20} {'chains':>6} {'kelvin':>10} {'share':>6}" + "".join(f" {name:>22}" for name in names) + f"  {'best peer':<24} {'ratio':>7}")
    for (case, chains), readings in ours.items():
        kelvin, share, peers, best, ratio = row(readings, theirs[case, chains])
        if asked.json:
            shown = {name: {"us": round(time, 3), "way": way} for name, (time, way) in peers.items()}
            number = lambda value, digits: None if math.isnan(value) else round(value, digits)
            print(json.dumps({"case": case, "chains": chains, "kelvin_us": number(kelvin, 4), "share_of_limit": share, "peers": shown, "best": best, "ratio": number(ratio, 2)}))
            continue
        shown = [f"{peers[name][0]:.2f} ({peers[name][1]})" if name in peers else "–" for name in names]
        best = f"{best} ({peers[best][1]})" if best else "–"
        share = "–" if share is None else f"{100 * share:.0f} %"
        print(f"{case:<20} {chains:>6} {kelvin:>10.3f} {share:>6}" + "".join(f" {cell:>22}" for cell in shown) + f"  {best:<24} {ratio:>6.1f}×")


if __name__ == "__main__":
    compare(options())
