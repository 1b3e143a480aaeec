"""The README's Python section: `test_examples.py` runs it, and compares it with the README."""

import numpy as np

rng = np.random.default_rng(0)
X = rng.uniform(-2, 2, (300, 3))
y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=300)
X, Xt, y, yt = X[:250], X[250:], y[:250], y[250:]

# README begins
import kelvin

m = kelvin.Regressor(hidden=64, beta="auto", chains=4, random_state=0, device="auto").fit(X, y)
mean, std = m.predict(Xt, return_std=True)
lo, hi = m.predict_interval(Xt, 0.9)          # exact quantiles of the mixture over draws
noise, doubt, _ = m.uncertainty(Xt)           # aleatoric and epistemic standard deviation
print(m.beta_, m.predictor_, m.warnings_)     # read the warnings before you believe the rest
m.save("model")                               # kelvin.load("model"), `kelvin predict model`
# README ends

assert np.sqrt(np.mean((mean - yt) ** 2)) < 0.3
assert ((lo < yt) & (yt < hi)).mean() > 0.7
assert np.array_equal(kelvin.load("model").predict(Xt), mean)
np.testing.assert_allclose(noise**2 + doubt**2, std**2)
