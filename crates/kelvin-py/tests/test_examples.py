"""What documentation shows is what runs: doctests, the README's example, notebooks."""

import doctest
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import kelvin
from conftest import skipped

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]


def modules():
    return sorted(module.name for module in pkgutil.iter_modules(kelvin.__path__) if module.name != "_kelvin")


@pytest.mark.parametrize("name", [""] + modules())
def test_examples_of_docstrings(name):
    module = importlib.import_module(f"kelvin.{name}" if name else "kelvin")
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    left_out = []
    for example in finder.find(module):
        needs_torch = any("torch" in line.source for line in example.examples)
        if needs_torch and not has("torch"):
            left_out.append(example.name)
        else:
            runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
    if left_out:
        skipped("torch", f"PyTorch is not installed: the examples of {', '.join(left_out)} are not run")


def has(package):
    return importlib.util.find_spec(package) is not None


def test_every_public_thing_says_what_it_is():
    for name in kelvin.__all__:
        assert (getattr(kelvin, name).__doc__ or "").strip(), name


def run_apart(script: str, folder: Path) -> str:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_readme_shows_what_runs_here(tmp_path):
    text = (HERE / "readme_example.py").read_text(encoding="utf-8")
    shown = text.split("# README begins\n")[1].split("# README ends")[0].strip()
    for page in ("README.md", "crates/kelvin-py/README.md", "docs/src/guide/python.md"):
        assert f"```python\n{shown}\n```" in (ROOT / page).read_text(encoding="utf-8"), f"{page} shows something else"
    assert "[" in run_apart(text, tmp_path)


def cells(notebook: Path):
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield "".join(cell["source"])


@pytest.mark.parametrize("name", ["table_to_decision", "a_tempered_cnn"])
def test_notebooks_run(name, tmp_path):
    if name == "a_tempered_cnn":
        if not has("torch"):
            skipped("torch", "PyTorch is not installed: its notebook is not run")
    run_apart("\n\n".join(cells(HERE.parent / "notebooks" / f"{name}.ipynb")), tmp_path)
