"""What estimators predict, keep and refuse."""

import json
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import kelvin
from conftest import QUICK, skipped


def test_a_regressor_predicts_with_its_uncertainty(fitted, table):
    X, y = table
    mean, std = fitted.predict(X, return_std=True)
    assert np.abs(mean - y).mean() < 0.2 and (std > 0.05).all()
    low, high = fitted.predict_interval(X, 0.9)
    assert (low < mean).all() and (mean < high).all()
    assert 0.75 < ((low < y) & (y < high)).mean() <= 1.0
    aleatoric, epistemic, total = fitted.uncertainty(X)
    np.testing.assert_allclose(aleatoric**2 + epistemic**2, total**2, rtol=1e-12)
    np.testing.assert_array_equal(total, std)
    quantiles = fitted.predict_quantiles(X[:5], [0.05, 0.5, 0.95])
    np.testing.assert_allclose(quantiles[:, [0, 2]].T, fitted.predict_interval(X[:5], 0.9), rtol=1e-12)
    assert (np.diff(quantiles, axis=1) > 0).all()
    # Far from all rows, draws disagree.
    with pytest.warns(kelvin.KelvinWarning):
        assert fitted.uncertainty([[9.0, -9.0]]).epistemic[0] > 2 * epistemic.max()


def test_a_classifier_predicts_probabilities(classified, table):
    X, y = table
    probabilities = classified.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, rtol=1e-12)
    assert list(classified.classes_) == ["high", "low", "middle"]
    assert (classified.predict(X) == np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))).mean() > 0.8
    aleatoric, epistemic, total = classified.uncertainty(X)
    entropy = -(probabilities * np.log(np.maximum(probabilities, 1e-300))).sum(axis=1)
    np.testing.assert_allclose(total, entropy, atol=1e-9)
    assert (aleatoric > 0).all() and (epistemic >= 0).all()


def test_several_targets_are_predicted_together(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = table
    both = np.stack([y, 100.0 + 30.0 * X[:, 0]], axis=1)
    m = kelvin.Regressor(**QUICK).fit(X, both)
    mean, std = m.predict(X, return_std=True)
    assert mean.shape == std.shape == both.shape
    assert np.abs(mean - both).mean(axis=0)[1] < 10.0 and (std > 0).all()
    low, high = m.predict_interval(X[:5], 0.9)
    quantiles = m.predict_quantiles(X[:5], [0.05, 0.95])
    assert quantiles.shape == (5, 2, 2)
    np.testing.assert_allclose(quantiles[:, 0], low, rtol=1e-12)
    assert (low < mean[:5]).all() and (mean[:5] < high).all()
    assert m.uncertainty(X).epistemic.shape == both.shape
    assert m.score(X, both) > 0.5
    assert m.results_["problem"]["target"] == ["y0", "y1"]
    m.save(tmp_path / "model")
    np.testing.assert_array_equal(kelvin.load(tmp_path / "model").predict(X), mean)
    named = kelvin.Regressor(**QUICK).fit(X, pandas.DataFrame(both, columns=["strength", "slump"]))
    assert named.results_["problem"]["target"] == ["strength", "slump"]
    np.testing.assert_array_equal(named.predict(X), mean)
    with pytest.raises(kelvin.InputError, match="two columns called `a`"):
        kelvin.Regressor(**QUICK).fit(X, pandas.DataFrame(both, columns=["a", "a"]))
    with pytest.raises(kelvin.KelvinError, match="is for one target"):
        kelvin.Regressor(**{**QUICK, "likelihood": "poisson"}).fit(X, np.round(np.abs(both)))


def test_the_same_seed_gives_the_same_bits_with_any_number_of_threads(fitted, table):
    X, y = table
    again = kelvin.Regressor(**QUICK, n_jobs=1).fit(X, y)
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))
    other = kelvin.Regressor(**{**QUICK, "random_state": 1}).fit(X, y)
    assert (other.predict(X) != fitted.predict(X)).any()


def test_the_model_that_predicts_can_be_asked_for(fitted, table, tmp_path):
    X, y = table
    assert "β = 1" in fitted.predictor_
    linear = kelvin.Regressor(**{**QUICK, "model": "linear"}).fit(X, y)
    assert "ridge" in linear.predictor_
    np.testing.assert_allclose(np.diff(linear.predict([[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]]), 2), 0.0, atol=1e-5)
    assert pickle.loads(pickle.dumps(linear)).predictor_ == linear.predictor_
    fitted.save(tmp_path / "model")
    assert "β" in kelvin.load(tmp_path / "model", model="beta-star").predictor_
    with pytest.raises(kelvin.InputError, match="there is no model \"best of all\""):
        kelvin.Regressor(**{**QUICK, "model": "best of all"}).fit(X, y)


def test_a_beta_that_is_given_is_the_one_that_predicts(table):
    X, y = table
    cold = kelvin.Regressor(**{**QUICK, "model": "best", "beta": 50.0}).fit(X, y)
    assert cold.beta_ == 50.0 and "β̂*" in cold.predictor_
    assert {row["beta"] for row in cold.results_["rows"] if row["method"] == "chosen"} == {50.0}
    with pytest.raises(kelvin.InputError, match="beta must be"):
        kelvin.Regressor(**QUICK, beta="cold").fit(X, y)
    with pytest.raises(ValueError, match="selection.beta"):
        kelvin.Regressor(**QUICK, beta=1e30).fit(X, y)


def test_models_are_saved_loaded_and_pickled(fitted, classified, table, tmp_path):
    X, _ = table
    for number, model in enumerate([fitted, classified]):
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        model.save(tmp_path / str(number))
        loaded = kelvin.load(tmp_path / str(number))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        assert loaded.get_params()["hidden"] == 16 and loaded.beta_ == model.beta_
        with pytest.raises(kelvin.KelvinError, match="not empty"):
            model.save(tmp_path / str(number))
    np.testing.assert_array_equal(kelvin.load(tmp_path / "1").classes_, classified.classes_)
    (tmp_path / "0" / "model.json").write_text("{}")
    with pytest.raises(kelvin.KelvinError, match="damaged"):
        kelvin.load(tmp_path / "0")
    with pytest.raises(kelvin.KelvinError, match="no fitted model"):
        kelvin.load(tmp_path / "nowhere")


def test_a_pickle_cannot_write_outside_its_folder(fitted):
    files = dict(fitted.model_.files())
    files["../outside"] = b"x"
    with pytest.raises(kelvin.KelvinError, match="no name of a file"):
        kelvin._kelvin.Model.from_files(files)


def test_they_work_in_pipelines_searches_and_jobs(table):
    X, y = table
    model = make_pipeline(StandardScaler(), kelvin.Regressor(**{**QUICK, "budget": 400}, n_jobs=1))
    assert model.fit(X, y).score(X, y) > 0.8
    search = GridSearchCV(kelvin.Regressor(**{**QUICK, "budget": 400}, n_jobs=1), {"hidden": [4, 16]}, cv=2, n_jobs=2)
    search.fit(X, y)
    assert search.best_params_["hidden"] in (4, 16) and search.best_estimator_.beta_ > 0
    assert len(cross_val_score(clone(model), X, y, cv=2)) == 2


def test_the_report_and_what_notebooks_show(fitted, tmp_path):
    page = fitted.report(tmp_path / "page.html")
    assert page.startswith("<!DOCTYPE html") and (tmp_path / "page.html").read_text(encoding="utf-8") == page
    shown = fitted._repr_mimebundle_()["text/html"]
    assert "β̂* =" in shown and "test LPD" in shown and "2-16-1" in shown
    assert "Regressor" in kelvin.Regressor()._repr_html_()
    assert json.dumps(fitted.results_["beta_star"]) == json.dumps(fitted.beta_)


def test_draws_are_arrays_of_chains_and_draws(fitted):
    groups = fitted.draws()
    kernel = next(values for values in groups["posterior"].values() if values.shape[2:] == (2, 16))
    assert kernel.shape[0] == 2 and kernel.shape[1] > 1
    assert groups["sample_stats"]["potential_energy"].shape == kernel.shape[:2]
    assert fitted.to_arviz() is not None


def test_a_fit_in_a_folder_is_a_run_folder(table, tmp_path):
    X, y = table
    model = kelvin.Regressor(**QUICK, folder=tmp_path / "run").fit(X, y)
    assert (tmp_path / "run" / "report.html").exists() and (tmp_path / "run" / "model.json").exists()
    loaded = kelvin.load(tmp_path / "run", model="bayes")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    with pytest.raises(kelvin.KelvinError):
        kelvin.Regressor(**QUICK, folder=tmp_path / "run", random_state=9).fit(X, y)


def test_few_rows_are_fitted_and_too_few_are_refused(table):
    X, y = table
    for rows in (4, 10, 19):
        assert kelvin.Regressor(**{**QUICK, "budget": 200}).fit(X[:rows], y[:rows]).predict(X).shape == (160,)
    with pytest.raises(ValueError, match="minimum of 4"):
        kelvin.Regressor(**QUICK).fit(X[:2], y[:2])


def test_frames_keep_their_names(table):
    pandas = pytest.importorskip("pandas")
    X, y = table
    frame = pandas.DataFrame(X, columns=["left", "right"])
    model = kelvin.Regressor(**QUICK).fit(frame, y)
    assert list(model.feature_names_in_) == ["left", "right"]
    np.testing.assert_array_equal(model.predict(frame), model.predict(frame[["left", "right"]]))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["right", "left"]])


def mixed(pandas, rows):
    """A frame as people have it: numbers, words, truths, dates, and cells that say nothing."""
    rng = np.random.default_rng(3)
    size, colour = rng.uniform(0, 4, rows), rng.choice(["red", "green", "blue"], rows)
    frame = pandas.DataFrame(
        {
            "size": np.where(rng.random(rows) < 0.1, np.nan, size),
            "colour": pandas.Series(colour, dtype="category"),
            "new": rng.random(rows) < 0.5,
            "day": pandas.to_datetime("2024-01-01") + pandas.to_timedelta(rng.integers(0, 300, rows), unit="D"),
            "same": 7,
        }
    )
    return frame, size + 2.0 * (colour == "red") + 0.1 * rng.normal(size=rows)


def test_frames_with_words_and_gaps_are_taken_as_files_are(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame, y = mixed(pandas, 200)
    model = kelvin.Regressor(**QUICK).fit(frame, y)
    assert model.score(frame, y) > 0.6
    assert list(model.feature_names_in_) == list(frame.columns) and "same" not in model.model_.feature_names
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kelvin.load(tmp_path / "model").predict(frame), model.predict(frame))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(frame), model.predict(frame))
    # A word that nobody has seen is a level of its own, and a frame of words only cannot do without the others.
    assert np.isfinite(model.predict(frame.assign(colour="violet"))).all()
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["colour"]])
    with pytest.raises(kelvin.InputError, match="`size` holds an infinite number"):
        kelvin.Regressor(**QUICK).fit(frame.assign(size=np.inf), y)
    try:
        import polars
    except ImportError:
        skipped("polars", "polars is not installed")
    other = polars.DataFrame({name: frame[name].astype(str).tolist() if name == "colour" else frame[name].tolist() for name in frame})
    again = kelvin.Regressor(**QUICK).fit(other, y)
    np.testing.assert_array_equal(again.predict(other), model.predict(frame))


def test_gaps_in_arrays_are_missing_cells(table):
    X, y = table
    with_gaps = X.copy()
    with_gaps[::7, 0] = np.nan
    model = kelvin.Regressor(**QUICK).fit(with_gaps, y)
    assert np.isfinite(model.predict(with_gaps)).all() and model.score(with_gaps, y) > 0.6


def test_columns_may_be_called_anything(table):
    pandas = pytest.importorskip("pandas")
    X, y = table
    for names in (["a;b;c", 'with "quotes", and commas'], ["y", "y_"], ["1", "2"]):
        model = kelvin.Regressor(**{**QUICK, "budget": 400}).fit(pandas.DataFrame(X, columns=names), y)
        assert model.model_.feature_names == names


def test_classes_may_be_called_anything(table):
    X, y = table
    for classes in (["NA", "?"], ["10", "9"], [True, False], [2.0, 1.0], ["", " "]):
        labels = np.array(classes)[(y > 0).astype(int)]
        model = kelvin.Classifier(**{**QUICK, "budget": 1000}).fit(X, labels)
        assert (model.predict(X) == labels).mean() > 0.8 and set(model.classes_) == set(classes)
        assert len(model.model_.class_names) == 2


def test_weights_count_rows(table):
    """Rows of two lines that contradict each other: the one whose rows weigh more is found."""
    X, y = table
    two, answers = np.concatenate([X, X]), np.concatenate([y, -y])
    is_first = np.arange(len(two)) < len(X)
    settings = {**QUICK, "likelihood": "gaussian", "settings": {"model.noise_variance": 0.1}}
    for first, second in [(1.0, 0.02), (0.02, 1.0)]:
        weights = np.where(is_first, first, second)
        found = kelvin.Regressor(**settings).fit(two, answers, sample_weight=weights).predict(X)
        expected = y if first > second else -y
        assert np.abs(found - expected).mean() < 0.35, (first, np.abs(found - expected).mean())
        labels = np.where(answers > 0, "up", "down")
        found = kelvin.Classifier(**QUICK).fit(two, labels, sample_weight=weights).predict(X)
        assert (found == np.where(expected > 0, "up", "down")).mean() > 0.85


def test_a_weight_of_nothing_leaves_a_row_out_and_equal_weights_of_one_are_none(fitted, classified, table):
    X, y = table
    np.testing.assert_array_equal(kelvin.Regressor(**QUICK).fit(X, y, np.ones(len(X))).predict(X), fitted.predict(X))
    more, answers = np.concatenate([X, X[:9]]), np.concatenate([y, 100 + y[:9]])
    weights = np.concatenate([np.ones(len(X)), np.zeros(9)])
    found = kelvin.Regressor(**QUICK).fit(more, answers, sample_weight=weights)
    np.testing.assert_array_equal(found.predict(X), fitted.predict(X))
    labels = np.where(y > 0.5, "high", np.where(y < -0.5, "low", "middle"))
    found = kelvin.Classifier(**QUICK).fit(more, np.concatenate([labels, ["never"] * 9]), sample_weight=weights)
    np.testing.assert_array_equal(found.predict_proba(X), classified.predict_proba(X))


def test_weights_that_make_no_sense_are_told(table, tmp_path):
    X, y = table
    for weights, message in [
        (np.ones(3), "inconsistent"),
        (np.ones((len(X), 2)), "one number or one for each row"),
        (np.where(np.arange(len(X)) == 5, -1.0, 1.0), "negative in row 5"),
        (np.full(len(X), np.nan), "NaN"),
        (np.full(len(X), 1e39), "larger than 32 bits hold in row 0"),
        (np.zeros(len(X)), "0 rows have a sample_weight above zero"),
    ]:
        with pytest.raises(ValueError, match=message):
            kelvin.Regressor(**QUICK).fit(X, y, sample_weight=weights)
    # Other weights are other data: a run folder of these is not gone on with.
    run = {**QUICK, "budget": 400, "folder": tmp_path / "run"}
    kelvin.Regressor(**run).fit(X, y, sample_weight=np.full(len(X), 2.0))
    with pytest.raises(kelvin.KelvinError):
        kelvin.Regressor(**run).fit(X, y, sample_weight=np.full(len(X), 3.0))


def test_what_makes_no_sense_is_told(fitted, table):
    X, y = table
    for settings, message in [
        ({"settings": {"model.noise": 1}}, "did you mean `model.noise_variance`"),
        ({"settings": {"run.seed": 3}}, "random_state"),
        ({"sampler": "nuts"}, "sampler must be"),
        ({"budget": "soon"}, "budget must be"),
        ({"device": "tpu"}, "device must be"),
        ({"likelihood": "cauchy"}, "likelihood"),
        ({"settings": {"run.most_hours": 1e-9}}, "most_hours"),
        ({"settings": ["model.noise_variance"]}, "settings must be a dict"),
        ({"hidden": "64"}, "hidden must be a width as 64"),
        ({"hidden": 6.5}, "whole number from 1 to 65536, got 6.5"),
        ({"hidden": [16, -3]}, "whole number from 1 to 65536, got -3"),
        ({"chains": 0}, "chains must be a whole number"),
        ({"chains": "four"}, "chains must be a whole number"),
        ({"random_state": -1}, "random_state must be a whole number"),
        ({"beta": None}, "beta must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"progress": "bar"}, "progress must be"),
        ({"quick": "yes"}, "quick must be True or False"),
        ({"folds": -1}, "folds must be"),
        ({"likelihood": "poisson"}, "\"poisson\" is for counts"),
    ]:
        with pytest.raises(kelvin.KelvinError, match=message):
            kelvin.Regressor(**{**QUICK, **settings}).fit(X, y)
    with pytest.raises(ValueError, match="only one class"):
        kelvin.Classifier(**QUICK).fit(X, np.ones(len(X), dtype=int))
    with pytest.raises(kelvin.InputError, match="level must be"):
        fitted.predict_interval(X, 90)
    with pytest.raises(kelvin.InputError, match="a probability must be"):
        fitted.predict_quantiles(X, [0.5, 1.5])
    assert fitted.predict_quantiles(X, 0.5).shape == (len(X), 1)
    with pytest.raises(kelvin.InputError, match="first of them row 2"):
        kelvin.Classifier(**QUICK).fit(X, np.array(["a", "b", None, "a"] * 40, dtype=object))
    with pytest.raises(kelvin.InputError, match="from a frame of pandas or polars"):
        fitted.predict([["a", "b"]])


def test_arguments_are_named_as_python_names_them(table, tmp_path):
    """Not as the program's flags are."""
    X, y = table
    (tmp_path / "file").write_text("")
    for ask, argument in [
        (lambda: kelvin.run("cifar10"), "data_dir=\"DIR\""),
        (lambda: kelvin.Regressor(**QUICK, folder=tmp_path / "file").fit(X, y), "folder="),
        (lambda: kelvin.Regressor(**QUICK).fit(np.ones((20, 2)), np.arange(20.0)), "keep one;"),
    ]:
        with pytest.raises(kelvin.KelvinError) as raised:
            ask()
        assert argument in str(raised.value) and "--" not in str(raised.value), raised.value
    with pytest.warns(kelvin.KelvinWarning) as told:
        short = kelvin.Regressor(**{**QUICK, "budget": 200}).fit(X, y)
    assert short.warnings_ and not any("--" in text for text in short.warnings_ + [str(note.message) for note in told])


def test_a_gpu_that_is_not_there_is_told_before_anything_else(table):
    try:
        kelvin.Regressor(**{**QUICK, "budget": 200}, device="cuda").fit(*table)
    except kelvin.KelvinError as error:
        absent = str(error)
    else:
        return skipped("gpu-absent", "there is a GPU here")
    assert "device=\"cuda\"" in absent and "device=\"cpu\" runs on the processor" in absent
    # Its data are not there either.
    with pytest.raises(kelvin.KelvinError, match="device=\"cuda\""):
        kelvin.run("cifar10", device="cuda")


def test_presets_are_run_in_their_folder(tmp_path):
    run = kelvin.run("concrete", quick=True, budget=400, folder=tmp_path / "run", progress=False, settings={"selection.epochs": 200})
    assert run.results["name"] == "concrete-quick" and run.beta == run.results["beta_star"]
    assert (run.folder / "report.html").exists()
    assert isinstance(kelvin.load(run.folder), kelvin.Regressor)
    assert kelvin.load(run.folder, model="bayes").predict(np.zeros((1, 8))).shape == (1,)
    with pytest.raises(kelvin.InputError, match="concrete"):
        kelvin.run("concret")
