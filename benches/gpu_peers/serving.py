"""What workers share: options, timing, and the conversation with the process that asks."""
import argparse
import concurrent.futures
import json
import math
import statistics
import sys
import time

MOMENTUM, NOISE_VARIANCE, PRIOR_VARIANCE, LEARNING_RATE = 0.98, 0.1, 0.1, 1e-5
NOISE_STD = (2 * (1 - MOMENTUM)) ** 0.5


def worker_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--seconds", type=float, default=0.7)
    return parser.parse_args()


def steps_of_a_call(network, chains, device):
    """Steps that a peer does without coming back: some tenths of a second."""
    if device == "cpu":
        return 2 if network.images else 100
    if not network.images:
        return 2000
    return max(10, (2000 if network.is_dense else 100) // chains)


def repeated(call, steps, chains, seconds):
    """µs per chain-step of a call that does `steps` steps of all chains and waits for their end."""
    call()  # warms up
    begin, calls = time.perf_counter(), 0
    while calls == 0 or time.perf_counter() - begin < seconds:
        call()
        calls += 1
    return (time.perf_counter() - begin) / (calls * steps * chains) * 1e6


def serve(version, ways, prepared, threads):
    """Answers {"prepare": [[case, chains], …]} when all ways are compiled, and {"case", "chains"} with {"us", "way"} of the fastest."""
    programs, microseconds = {}, {}
    told = lambda way, error: f"{' '.join(map(str, way))}: {type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"

    def prepare(way):
        try:
            return prepared(*way), None
        except Exception as error:  # a way that fails, for want of memory or a compiler, is reported and left out
            return None, told(way, error)

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
                errors.append(told(way, error))
        print(json.dumps({"errors": errors, **({"us": best[0], "way": best[1]} if best else {})}), flush=True)
