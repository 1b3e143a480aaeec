"""How long 10,000 chains take on 1000 GPUs that are taken away now and then: a simulation, for the guide's page about many machines.

    python3 benches/preemptible.py

A chain of CIFAR10's ResNet-20 has 780,000 steps. µs per chain-step where 1, 10 or 50 chains share a GPU were measured on one H200 (`kelvin bench resnet20
--device cuda --chains 1,10,50`). A machine is lost after a time that is exponential, and comes back after a while; a shard begins on any machine after a
start-up. Without notice a shard loses what came after its last checkpoint; with notice (USR1) it loses nothing but the start-up.
"""

import heapq
import random

STEPS = 780_000
CHAINS = 10_000
MACHINES = 1000
MICROSECONDS = {1: 1111.0, 10: 176.0, 50: 157.0}
#: Seconds between two checkpoints, of a start-up (queue, data, compiled kernels), and until a machine is back.
CHECKPOINT, START, AWAY = 300.0, 120.0, 900.0


def simulate(chains_in_a_shard: int, hours_between_losses: float, has_notice: bool, seed: int = 0):
    """Hours until the last shard is done, GPU hours in all, GPU hours that were done twice or spent on start-ups, and losses."""
    chance = random.Random(seed)
    work = STEPS * MICROSECONDS[chains_in_a_shard] * 1e-6 * chains_in_a_shard
    waiting = [work] * (CHAINS // chains_in_a_shard)
    free = [(0.0, machine) for machine in range(MACHINES)]
    heapq.heapify(free)
    running = []
    end = spent = wasted = 0.0
    losses = 0
    while waiting or running:
        while waiting and free and (not running or free[0][0] <= running[0][0]):
            begin, machine = heapq.heappop(free)
            left = waiting.pop()
            lost_after = chance.expovariate(1 / (hours_between_losses * 3600))
            done_after = START + left
            if done_after <= lost_after:
                heapq.heappush(running, (begin + done_after, machine, 0.0, done_after, START, False))
                continue
            moved = max(0.0, lost_after - START)
            again = 0.0 if has_notice else min(moved, chance.uniform(0.0, CHECKPOINT))
            heapq.heappush(running, (begin + lost_after, machine, left - moved + again, lost_after, min(START, lost_after) + again, True))
        time, machine, left, used, useless, is_lost = heapq.heappop(running)
        spent, wasted, end = spent + used, wasted + useless, max(end, time)
        losses += is_lost
        if is_lost:
            waiting.append(left)
        heapq.heappush(free, (time + (AWAY if is_lost else 0.0), machine))
    return end / 3600, spent / 3600, wasted / 3600, losses


print("| chains in a shard | a machine is lost every | notice | hours | GPU hours | of them wasted | losses |")
print("|---|---|---|---|---|---|---|")
for chains in MICROSECONDS:
    for hours in (1e9, 6.0, 1.0):
        for notice in (False, True) if hours < 1e9 else (True,):
            took, spent, wasted, losses = simulate(chains, hours, notice)
            every = "never" if hours > 1e8 else f"{hours:g} h"
            print(f"| {chains} | {every} | {'yes' if notice else 'no'} | {took:.2f} | {spent:.0f} | {100 * wasted / spent:.1f} % | {losses} |")
