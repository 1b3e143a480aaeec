"""Tables of the scores: negative log-likelihoods, mean ranks with their error over tables, coverage and seconds."""
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


def ranks(scores: pandas.DataFrame) -> pandas.DataFrame:
    """Rank by NLL in every split, averaged over the splits of a table."""
    wide = scores.pivot_table(index=["table", "split"], columns="method", values="nll")
    return wide.rank(axis=1).groupby("table").mean()


def rank_summary(scores: pandas.DataFrame, own: str) -> pandas.DataFrame:
    """Mean rank with its error (bootstrap over tables), and how far kelvin is ahead with the error of that."""
    table_ranks = ranks(scores)
    generator = numpy.random.default_rng(0)
    picks = generator.integers(len(table_ranks), size=(NUM_RESAMPLES, len(table_ranks)))
    resampled = table_ranks.to_numpy()[picks].mean(axis=1)
    place = list(table_ranks.columns).index(own)
    behind = resampled - resampled[:, [place]]
    summary = pandas.DataFrame(
        {
            "mean rank": table_ranks.mean(),
            "±": resampled.std(axis=0),
            "behind kelvin": table_ranks.mean() - table_ranks.mean().iloc[place],
            "± ": behind.std(axis=0),
            "best on": (table_ranks.rank(axis=1) == 1).sum(),
            "in 90 %": by_table(scores, "coverage").mean() * 100,
            "median s": by_table(scores, "seconds").median(),
        }
    )
    return summary.sort_values("mean rank")


def markdown(frame: pandas.DataFrame, digits: int, head: str) -> str:
    """A Markdown table; of scores of tables the smallest of a row in bold."""
    lines = [f"| {head} | " + " | ".join(frame.columns) + " |", "|---|" + "---:|" * frame.shape[1]]
    for name, row in frame.iterrows():
        best = row.min()
        cells = ("–" if numpy.isnan(value) else f"**{value:.{digits}f}**" if value == best and head == "table" else f"{value:.{digits}f}" for value in row)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def report(scores: pandas.DataFrame, own: str) -> str:
    """All tables as Markdown."""
    scores = common_scores(scores, own)
    splits = scores.groupby("table")["split"].nunique()
    parts = [
        f"{len(splits)} tables, {int(splits.sum())} splits.",
        markdown(rank_summary(scores, own), 2, "method"),
        "Negative log-likelihood of a test row, in the target's own units (mean over splits; smaller is better):",
        markdown(by_table(scores, "nll"), 3, "table"),
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
