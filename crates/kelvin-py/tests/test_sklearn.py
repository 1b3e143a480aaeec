"""scikit-learn's own checks of an estimator, all of them."""

import kelvin
from sklearn.utils.estimator_checks import parametrize_with_checks

#: Fits of a tenth of a second.
SHORT = {"hidden": 8, "chains": 2, "budget": 600, "progress": False, "n_jobs": 1, "settings": {"selection.epochs": 300}}


@parametrize_with_checks([kelvin.Regressor(**SHORT), kelvin.Classifier(**SHORT)])
def test_check(estimator, check):
    check(estimator)
