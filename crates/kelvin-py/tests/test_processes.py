"""Ctrl-C, threads and forks."""

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import kelvin
from conftest import QUICK


def python(script: str) -> subprocess.Popen:
    """Another Python that runs a script and can be interrupted."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def interrupted(script: str) -> tuple:
    """What a script says after a Ctrl-C soon after its work has told that it is under way, and how long it took to do so."""
    running = python(script)
    assert running.stdout.readline() == "begins\n", running.stderr.read()
    time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    out, err = running.communicate(timeout=60)
    return out, err, time.monotonic() - began


FIT = """
    import numpy as np, kelvin
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 5)); y = X[:, 0] + rng.normal(size=3000)
    told = []
    def begins(*_):
        if not told:
            told.append(print("begins", flush=True))
    try:
        kelvin.Regressor(progress=begins).fit(X, y)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_ends_a_fit_within_moments():
    out, err, seconds = interrupted(FIT)
    assert "interrupted" in out, err
    # A second is what is promised on an idle machine; this one may be busy.
    assert seconds < 10


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_returns_what_was_drawn_where_that_is_asked_for():
    out, err, _ = interrupted("""
        import numpy as np, kelvin
        def energy(theta, step):
            if step == 100:
                print("begins", flush=True)
            return 0.5 * (theta**2).sum(axis=1), theta
        found = kelvin.sample(energy, np.zeros((2, 3)), draws=10**7, warm_up=10, thin=1, on_interrupt="return", progress=False)
        print(found.finished, found.positions.shape[1] > 0, found.positions.shape[1] < 10**7, found)
    """)
    assert out.startswith("False True True") and "cut short" in out, err


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_an_interrupt_of_a_sampler_is_raised_otherwise():
    out, _, _ = interrupted("""
        import numpy as np, kelvin
        def energy(theta, step):
            if step == 100:
                print("begins", flush=True)
            return 0.5 * (theta**2).sum(axis=1), theta
        try:
            kelvin.sample(energy, np.zeros((2, 3)), draws=10**7, progress=False)
        except KeyboardInterrupt:
            print("interrupted")
    """)
    assert out == "interrupted\n"


def fit_and_predict(table, queue):
    X, y = table
    queue.put(kelvin.Regressor(**QUICK).fit(X, y).predict(X[:3]))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore")
def test_a_forked_process_fits_what_its_parent_fits(fitted, table):
    # The parent has used threads: a child that waited for them would wait for ever.
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=fit_and_predict, args=(table, queue)) for _ in range(2)]
    for child in children:
        child.start()
    found = [queue.get(timeout=120) for _ in children]
    for child in children:
        child.join(timeout=30)
        assert child.exitcode == 0
    for predicted in found:
        np.testing.assert_array_equal(predicted, fitted.predict(table[0][:3]))


class Enough(Exception):
    """What was to be seen during a fit was seen."""


def test_other_threads_go_on_during_a_fit(table):
    X, y = table
    counted, ended = 0, []

    def stops(*_):
        if counted >= 50:
            raise Enough

    def fit():
        # Minutes of work, which only a thread that counts beside it can end.
        try:
            kelvin.Regressor(**{**QUICK, "budget": 5_000_000, "progress": stops}).fit(X, y)
        except Enough as error:
            ended.append(error)

    worker = threading.Thread(target=fit)
    worker.start()
    while worker.is_alive():
        counted += 1
        time.sleep(0.001)
    worker.join()
    assert ended, "Python stood still while kelvin worked"


def test_progress_is_told(table):
    X, y = table
    told = []
    kelvin.Regressor(**{**QUICK, "budget": 100_000, "progress": lambda *moment: told.append(moment)}).fit(X, y)
    stages = {moment[0] for moment in told} - {None}
    assert stages and stages <= {"choosing β", "tuning the step size", "searched", "sampling", "scoring", "auditing", "done"}
    assert all(done <= steps for _, done, steps, *_ in told)


def test_an_error_of_a_progress_function_ends_the_fit(table):
    X, y = table

    def fails(*_):
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        kelvin.Regressor(**{**QUICK, "budget": 200_000, "progress": fails}).fit(X, y)


def test_bars_show_stages_and_tidy_up(capsys):
    from kelvin.progress import Line

    bar = Line()
    bar("sampling", 30, 120, 1000.0, 90.0, [])
    bar.close()
    shown = capsys.readouterr().err
    assert "sampling ━━━━━━┄" in shown and " 25 %" in shown and "1 min 30 s left" in shown and shown.endswith("\r")
