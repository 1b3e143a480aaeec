"""Predictive distributions of test rows and their scores, in the target's own units."""
from dataclasses import dataclass

import numpy
from scipy.special import logsumexp
from scipy.stats import norm

COVERAGE_LOW, COVERAGE_HIGH = 0.05, 0.95


@dataclass
class NormalMixture:
    """Equal parts of Gaussians: means and standard deviations of shape (parts, rows); one part is a Gaussian."""

    means: numpy.ndarray
    stds: numpy.ndarray

    def log_density(self, y: numpy.ndarray) -> numpy.ndarray:
        return logsumexp(norm.logpdf(y, self.means, self.stds), axis=0) - numpy.log(len(self.means))

    def log_probability(self, low: numpy.ndarray, high: numpy.ndarray) -> numpy.ndarray:
        """log P(low < Y < high), from the tail that the interval lies in: far out, too, where both cumulative probabilities are 1."""
        above = low > self.means
        large = numpy.where(above, norm.logsf(low, self.means, self.stds), norm.logcdf(high, self.means, self.stds))
        small = numpy.where(above, norm.logsf(high, self.means, self.stds), norm.logcdf(low, self.means, self.stds))
        return logsumexp(large + numpy.log1p(-numpy.exp(small - large)), axis=0) - numpy.log(len(self.means))

    def cumulative(self, y: numpy.ndarray) -> numpy.ndarray:
        return norm.cdf(y, self.means, self.stds).mean(axis=0)

    def mean(self) -> numpy.ndarray:
        return self.means.mean(axis=0)

    def quantile(self, level: float) -> numpy.ndarray:
        """By bisection between the parts' own quantiles."""
        parts = norm.ppf(level, self.means, self.stds)
        low, high = parts.min(axis=0), parts.max(axis=0)
        for _ in range(60):
            middle = (low + high) / 2
            below = self.cumulative(middle) < level
            low, high = numpy.where(below, middle, low), numpy.where(below, high, middle)
        return (low + high) / 2

    def crps(self, y: numpy.ndarray) -> numpy.ndarray:
        """E|Y − y| − ½ E|Y − Y'|, exact for mixtures of Gaussians."""
        between = mean_absolute(self.means[:, None] - self.means[None], numpy.hypot(self.stds[:, None], self.stds[None]))
        return mean_absolute(self.means - y, self.stds).mean(axis=0) - between.mean(axis=(0, 1)) / 2


def mean_absolute(mean: numpy.ndarray, std: numpy.ndarray) -> numpy.ndarray:
    """E|Z| of a Gaussian Z."""
    return mean * (2 * norm.cdf(mean / std) - 1) + 2 * std * norm.pdf(mean / std)


def number_scores(prediction: NormalMixture, y: numpy.ndarray, counts: bool, interval: tuple | None = None) -> dict[str, float]:
    """Scores of predicted numbers. Of counts, the log density is that of the unit interval around the count (below ½: of zero)."""
    low, high = interval or (prediction.quantile(COVERAGE_LOW), prediction.quantile(COVERAGE_HIGH))
    if counts:
        log_density = prediction.log_probability(numpy.where(y > 0, y - 0.5, -numpy.inf), y + 0.5)
    else:
        log_density = prediction.log_density(y)
    return {
        "nll": -log_density.mean(),
        "crps": prediction.crps(y).mean(),
        "error": float(numpy.sqrt(numpy.mean((prediction.mean() - y) ** 2))),
        "coverage": float(numpy.mean((low <= y) & (y <= high))),
        "width": float(numpy.mean(high - low)),
    }


def class_scores(probabilities: numpy.ndarray, y: numpy.ndarray) -> dict[str, float]:
    """Log loss, Brier score (in the place of the CRPS) and accuracy (as `error`: one minus it)."""
    probabilities = numpy.clip(probabilities, 1e-15, 1.0)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    own = probabilities[numpy.arange(len(y)), y]
    brier = numpy.sum(probabilities**2, axis=1) - 2 * own + 1
    return {"nll": -numpy.log(own).mean(), "crps": brier.mean(), "error": float(numpy.mean(probabilities.argmax(axis=1) != y)), "coverage": float("nan"), "width": float("nan")}
