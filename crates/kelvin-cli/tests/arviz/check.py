"""Opens exports of `kelvin` with the real ArviZ, NumPy and TensorBoard, and compares their numbers with kelvin's own.

    python check.py path/to/kelvin

Works with ArviZ 0.x and 1.x. Runs small experiments in a temporary folder; exits with 1 at the first difference.
"""
import csv
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path

import arviz
import numpy
import xarray

# Rounding of sums in another order; both sides compute in f64.
CLOSE = 1e-10


def kelvin(*arguments):
    command = [KELVIN, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def close(found, expected, what, tolerance=CLOSE):
    found, expected = numpy.asarray(found, dtype=float), numpy.asarray(expected, dtype=float)
    assert found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}"
    apart = numpy.max(numpy.abs(found - expected) / (1 + numpy.abs(expected)), initial=0.0)
    assert apart <= tolerance, f"{what}: {apart:.3g} apart\n{found}\n{expected}"


def log_mean_exp(values, axes):
    largest = values.max(axis=axes, keepdims=True)
    mean = numpy.mean(numpy.exp(values - largest), axis=axes, keepdims=True)
    return numpy.squeeze(largest + numpy.log(mean), axis=axes)


def opened_store(store):
    """What `arviz.from_zarr` gives; with zarr 3, ArviZ 0.x refuses and names the way around that is taken here."""
    try:
        return arviz.from_zarr(str(store))
    except ImportError:
        return arviz.InferenceData.from_datatree(xarray.open_datatree(str(store), engine="zarr"))


def groups_of(opened):
    """Group names and datasets, of InferenceData (0.x) or a DataTree (1.x)."""
    if isinstance(opened, getattr(xarray, "DataTree", ())):
        return {name: node.to_dataset() for name, node in opened.children.items()}
    return {name: opened[name] for name in opened.groups()}


def diagnostics(dataset):
    """R̂ and ESS of the potential energy, as ArviZ computes them."""
    energy = dataset["potential_energy"]
    if arviz.__version__.startswith("0."):
        one = arviz.convert_to_dataset({"energy": energy.values})
        of = lambda result: float(result["energy"])
    else:
        one = arviz.convert_to_datatree({"energy": energy.values})
        of = lambda result: float((result["posterior"] if "posterior" in result else result)["energy"])
    return {
        "rhat": of(arviz.rhat(one, method="rank")),
        "bulk_ess": of(arviz.ess(one, method="bulk")),
        # kelvin follows R's posterior: the smaller of the 5 % and 95 % quantiles. ArviZ 1.x has other defaults.
        "tail_ess": of(arviz.ess(one, method="tail", prob=(0.05, 0.95))),
    }


def check_arviz(store, results, row, folder):
    opened = opened_store(store)
    groups = groups_of(opened)
    expected = {"posterior", "sample_stats", "posterior_predictive", "log_likelihood", "observed_data", "constant_data"}
    assert set(groups) == expected, set(groups)
    posterior, stats = groups["posterior"], groups["sample_stats"]
    method, beta = row["method"], row["beta"]
    chains = [chain for chain in results["chains"] if chain["method"] == method and chain["beta"] == beta]
    shape = (len(chains), row["num_draws"] // len(chains))
    assert posterior["potential_energy"].dims == ("chain", "draw")
    assert posterior["potential_energy"].shape == shape
    assert list(posterior["chain"].values) == list(range(shape[0]))
    assert list(posterior["draw"].values) == list(range(shape[1]))
    for group, name in [("posterior", "potential_energy"), ("sample_stats", "kinetic_temperature"),
                        ("sample_stats", "configurational_temperature")]:
        close(groups[group][name], [chain[name] for chain in chains], name, 0)
    close(posterior["log_beta"], numpy.full(shape, math.log(beta)), "log_beta")
    assert groups["constant_data"]["beta"].values.tolist() == [beta] * len(chains)
    dim = sum(size for _, size in results["problem"]["tensors"])
    close(stats["energy"], posterior["potential_energy"] + 0.5 * dim * stats["kinetic_temperature"], "energy")
    assert stats["diverging"].dtype == bool and not stats["diverging"].any()
    assert (stats["step_size"] > 0).all()
    assert posterior.attrs["inference_library"] == "kelvin" and posterior.attrs["seed"] == results["sampling"]["seed"]

    # The weights, against the safetensors file read by hand.
    for index, chain in enumerate(chains):
        bytes_ = (folder / "draws" / f"{chain['name']}.safetensors").read_bytes()
        size = int.from_bytes(bytes_[:8], "little")
        header = json.loads(bytes_[8:8 + size])
        for name, _ in results["problem"]["tensors"]:
            if name not in posterior:
                continue
            start, end = header[name]["data_offsets"]
            stored = numpy.frombuffer(bytes_[8 + size + start:8 + size + end], "<f4").reshape(header[name]["shape"])
            assert numpy.array_equal(posterior[name][index].values, stored), name
            assert posterior[name].dims[2:] == tuple(f"{name}_dim_{axis}" for axis in range(stored.ndim - 1))

    # R̂ and ESS are ours.
    ours = {name: row["measured"][name] for name in ["rhat", "bulk_ess", "tail_ess"]}
    theirs = diagnostics(posterior)
    for name in ours:
        close(theirs[name], ours[name], f"{name} of {store.name}")

    # The log predictive density follows from the log likelihoods.
    likelihood = groups["log_likelihood"]
    kind = "regression" if "regression" in row["test"] else "classification"
    for variable, model in [("y", "standard"), ("y_tempered", "tempered")]:
        assert likelihood[variable].dims == ("chain", "draw", "row")
        lpd = log_mean_exp(likelihood[variable].values, (0, 1)).mean()
        close(lpd, row["test"][kind][model]["lpd"], f"LPD {model}")

    # Observed and predicted values, against the table of predictions.
    predicted, observed = groups["posterior_predictive"], groups["observed_data"]["y"]
    with open(folder / "predictions" / f"{method}.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = lambda name: [float(line[name]) for line in rows]
    assert observed["row"].values.tolist() == [int(float(line["row"])) for line in rows]
    if kind == "regression":
        close(observed, column("truth"), "observed")
        close(predicted["mean"].mean(("chain", "draw")), column("mean"), "mean")
        # Replicated answers scatter as the predictive distribution does: 5 standard errors of the mean over all.
        for variable, sd in [("y", "sd_sm"), ("y_tempered", "sd_tm")]:
            apart = (predicted[variable] - numpy.array(column("mean"))) / numpy.array(column(sd))
            count = predicted[variable].size
            assert abs(float(apart.mean())) < 5 / math.sqrt(count), variable
            assert abs(float((apart ** 2).mean()) - 1) < 10 / math.sqrt(count), variable
        assert groups["constant_data"]["feature"].values.tolist() == results["problem"]["features"]
        assert groups["constant_data"]["x"].dims == ("row", "feature")
    else:
        close(observed, column("label"), "labels", 0)
        names = [f"p{label}_sm" for label in range(len(results["problem"]["classes"]))]
        mean = predicted["probability"].mean(("chain", "draw"))
        close(mean, numpy.array([column(name) for name in names]).T, "probabilities", 1e-6)
        assert predicted["class"].values.tolist() == results["problem"]["classes"]
        # Replicated classes are as frequent as their probabilities say: 6 standard errors at most.
        for label in range(len(names)):
            share, variance = mean[:, label].mean(), (predicted["probability"][..., label] * (1 - predicted["probability"][..., label])).mean()
            found = (predicted["y"] == label).mean()
            assert abs(float(found - share)) <= 6 * math.sqrt(float(variance) / predicted["y"].size) + 1e-6, label
    return groups


def check_npz(path, groups):
    arrays = numpy.load(path)
    for group, dataset in groups.items():
        for name, values in dataset.data_vars.items():
            assert numpy.array_equal(arrays[f"{group}/{name}"], values.values), f"{group}/{name}"
        for name, values in dataset.coords.items():
            assert numpy.array_equal(arrays[f"coordinates/{name}"], values.values), name
    attributes = json.loads(arrays["attributes"].item())
    assert attributes["inference_library"] == "kelvin"


def check_csv(folder, groups):
    posterior = groups["posterior"]
    with open(folder / "draws.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    shape = posterior["potential_energy"].shape
    assert len(rows) == shape[0] * shape[1]
    energies = numpy.array([float(row["potential_energy"]) for row in rows]).reshape(shape)
    assert numpy.array_equal(energies, posterior["potential_energy"].values)
    name = next(name for name in posterior.data_vars if name.endswith(".bias"))
    weights = numpy.array([float(row[f"{name}[0]"]) for row in rows], dtype=numpy.float32).reshape(shape)
    assert numpy.array_equal(weights, posterior[name].values[..., 0]), name


def check_tensorboard(folder, results):
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        print("no tensorboard: event files are not opened")
        return
    for chain in results["chains"]:
        events = EventAccumulator(str(folder / f"chain-{chain['name']}"))
        events.Reload()
        scalars = events.Scalars("potential_energy")
        first, every = results["sampling"]["burn_in_steps"], results["sampling"]["cycle_steps"]
        assert [scalar.step for scalar in scalars] == [first + (i + 1) * every for i in range(len(scalars))]
        close([scalar.value for scalar in scalars], chain["potential_energy"], "events", 1e-6)
        ratio = [value / chain["sampler_temperature"] for value in chain["kinetic_temperature"]]
        close([scalar.value for scalar in events.Scalars("kinetic_temperature_ratio")], ratio, "ratio", 1e-6)
    for search in results["searches"]:
        events = EventAccumulator(str(folder / f"search-{search['repetition'] + 1}"))
        events.Reload()
        betas = events.Scalars("search/beta")
        assert [scalar.step for scalar in betas] == [visit["step"] for visit in search["path"]]
        close([scalar.value for scalar in betas], [visit["beta"] for visit in search["path"]], "search", 1e-6)


def check_run(folder):
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    for row in results["rows"]:
        if row["method"] not in ("bayes", "chosen"):
            continue
        out = folder / "exports"
        for format_ in ["arviz", "npz", "csv"]:
            kelvin("export", folder, "--format", format_, "--method", row["method"])
        groups = check_arviz(out / f"{row['method']}.zarr", results, row, folder)
        check_npz(out / f"{row['method']}.npz", groups)
        check_csv(out / f"{row['method']}-csv", groups)
        measured = row["measured"]
        print(f"ok {results['name']} {row['method']}: R̂ {measured['rhat']:.3f}, ESS {measured['bulk_ess']:.1f}, "
              f"{measured['tail_ess']:.1f} of {row['num_draws']} draws")
    kelvin("export", folder, "--format", "tensorboard")
    check_tensorboard(folder / "exports" / "tensorboard", results)
    kelvin("verify", folder)


def main():
    print(f"ArviZ {arviz.__version__}, xarray {xarray.__version__}, NumPy {numpy.__version__}")
    with tempfile.TemporaryDirectory() as temporary:
        here = Path(temporary)
        # Numbers; chains of an odd length; classes of images.
        kelvin("run", "concrete", "--quick", "--quiet", "--device", "cpu", "--out", here / "concrete")
        check_run(here / "concrete")
        short = [f"--set={setting}" for setting in
                 ["selection.epochs=400", "sampler.ramp_start=100", "sampler.ramp_end=150", "sampler.burn_in=200",
                  "sampler.cycle=10", "sampler.epochs=570", "run.chains=3"]]
        kelvin("run", "concrete", "--quiet", "--device", "cpu", *short, "--out", here / "odd")
        check_run(here / "odd")
        tiny = [f"--set={setting}" for setting in
                ["data.train_images=256", "data.validation_images=32", "data.test_images=40", "selection.epochs=4",
                 "selection.checkpoints=4", "sampler.ramp_start=0", "sampler.ramp_end=1", "sampler.burn_in=2",
                 "sampler.cycle=1", "sampler.epochs=14"]]
        kelvin("run", "stripes", "--quiet", "--device", "cpu", *tiny, "--out", here / "stripes")
        check_run(here / "stripes")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    KELVIN = sys.argv[1]
    main()
