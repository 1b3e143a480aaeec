"""Tables of the scores: negative log-likelihoods with their errors over splits, mean ranks with their error over tables, coverage and seconds."""
import numpy
import pandas

from .catalogue import TABLES

NUM_RESAMPLES = 10_000


def common_scores(scores: pandas.DataFrame, own: str) -> pandas.DataFrame:
    """Peers and the kelvin of this name; only the (table, split) pairs that every method has, so that all are judged on the same rows."""
    scores = scores[~scores["method"].str.startswith("kelvin") | (scores["method"] == own)]
    methods = scores["method"].nunique()
    return scores.groupby(["table", "split"]).filter(lambda rows: rows["method"].nunique() == methods)


def by_table(scores: pandas.DataFrame, score: str) -> pandas.DataFrame:
    """Means over splits: a row for a table (in the catalogue's order), a column for a method."""
    means = scores.pivot_table(index="table", columns="method", values=score, aggfunc="mean")
    return means.reindex([table.name for table in TABLES if table.name in means.index])


def errors_over_splits(scores: pandas.DataFrame, score: str) -> pandas.DataFrame:
    """Standard errors of the same means."""
    errors = scores.pivot_table(index="table", columns="method", values=score, aggfunc="sem")
    return errors.reindex_like(by_table(scores, score))


def with_error(text: str, error: float, digits: int) -> str:
    """Of one split there is none."""
    return text if numpy.isnan(error) else f"{text} ± {error:.{digits}f}"


def margins(scores: pandas.DataFrame, own: str) -> pandas.DataFrame:
    """Per table: kelvin's NLL less that of the best other method (by its mean), split by split on the same rows."""
    wide = scores.pivot_table(index=["table", "split"], columns="method", values="nll")
    others = by_table(scores, "nll").drop(columns=own).idxmin(axis=1)
    rows = {}
    for table, best in others.items():
        differences = wide.loc[table, own] - wide.loc[table, best]
        rows[table] = {"best other": best, "kelvin less it": with_error(f"{differences.mean():+.3f}", differences.sem(), 3), "splits ahead": f"{(differences < 0).sum()} of {len(differences)}"}
    return pandas.DataFrame(rows).T


def ranks(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Rank by NLL in every split, averaged over the splits of a table."""
    wide = scores.pivot_table(index=["table", "split"], columns="method", values="nll")
    return wide.rank(axis=1).groupby("table").mean()


def rank_summary(scores: pandas.DataFrame, own: str) -> pandas.DataFrame:
    """Mean rank with its errors (bootstrap over tables; between splits of all tables), and how far kelvin is ahead with the error of that over tables."""
    table_ranks = ranks(scores)
    generator = numpy.random.default_rng(0)
    picks = generator.integers(len(table_ranks), size=(NUM_RESAMPLES, len(table_ranks)))
    resampled = table_ranks.to_numpy()[picks].mean(axis=1)
    place = list(table_ranks.columns).index(own)
    behind = resampled - resampled[:, [place]]
    of_splits = scores.pivot_table(index=["table", "split"], columns="method", values="nll").rank(axis=1).groupby("split").mean()
    summary = pandas.DataFrame(
        {
            "mean rank": table_ranks.mean(),
            "±": resampled.std(axis=0),
            "± splits": of_splits.sem(),
            "behind kelvin": table_ranks.mean() - table_ranks.mean().iloc[place],
            "± ": behind.std(axis=0),
            "best on": (table_ranks.rank(axis=1) == 1).sum(),
            "in 90 %": by_table(scores, "coverage").mean() * 100,
            "median s": by_table(scores, "seconds").median(),
        }
    )
    return summary.sort_values("mean rank")


def markdown(frame: pandas.DataFrame, digits: int, head: str, errors: pandas.DataFrame | None = None) -> str:
    """A Markdown table; of scores of tables the smallest of a row in bold, with their errors where these are given."""

    def cell(name: str, column: str, value: float, best: float) -> str:
        if isinstance(value, str):
            return value
        if numpy.isnan(value):
            return "–"
        text = f"**{value:.{digits}f}**" if value == best and head == "table" else f"{value:.{digits}f}"
        return text if errors is None else with_error(text, errors.loc[name, column], digits)

    lines = [f"| {head} | " + " | ".join(frame.columns) + " |", "|---|" + "---:|" * frame.shape[1]]
    for name, row in frame.iterrows():
        best = min((value for value in row if not isinstance(value, str)), default=numpy.nan)
        lines.append(f"| {name} | " + " | ".join(cell(name, column, value, best) for column, value in row.items()) + " |")
    return "\n".join(lines)


def report(scores: pandas.DataFrame, own: str) -> str:
    """All tables as Markdown."""
    scores = common_scores(scores, own)
    splits = scores.groupby("table")["split"].nunique()
    parts = [
        f"{len(splits)} tables, {int(splits.sum())} splits.",
        markdown(rank_summary(scores, own), 2, "method"),
        "kelvin beside the best other method of each table, negative log-likelihood of a test row (mean of the differences ± standard error over splits):",
        markdown(margins(scores, own), 3, "table"),
        "Negative log-likelihood of a test row, in the target's own units (mean over splits ± standard error; smaller is better):",
        markdown(by_table(scores, "nll"), 3, "table", errors_over_splits(scores, "nll")),
        "CRPS (classes: Brier score):",
        markdown(by_table(scores, "crps"), 4, "table"),
        "RMSE (classes: share of wrong classes):",
        markdown(by_table(scores, "error"), 4, "table"),
        "Share of test rows inside their 90 % interval, in per cent:",
        markdown(by_table(scores, "coverage").dropna() * 100, 1, "numbers and counts"),
        "Seconds to fit and predict:",
        markdown(by_table(scores, "seconds"), 1, "seconds"),
    ]
    return "\n\n".join(parts)
