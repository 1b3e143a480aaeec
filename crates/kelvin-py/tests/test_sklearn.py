"""scikit-learn's own checks of an estimator, all of them."""

import kelvin
from sklearn.utils.estimator_checks import parametrize_with_checks

#: Fits of a tenth of a second.
SHORT = {"hidden": 8, "chains": 2, "budget": 600, "progress": False, "n_jobs": 1, "settings": {"selection.epochs": 300}}


def expected_failures(_):
    """What nothing random that divides its rows can pass, as scikit-learn says of several estimators of its own."""
    return {
        "check_sample_weight_equivalence_on_dense_data": "other rows are held out of 15 rows with weights than of the 30 that they stand for"
    }


@parametrize_with_checks([kelvin.Regressor(**SHORT), kelvin.Classifier(**SHORT)], expected_failed_checks=expected_failures)
def test_check(estimator, check):
    check(estimator)
