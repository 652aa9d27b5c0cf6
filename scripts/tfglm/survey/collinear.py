"""Covariates that nearly determine each other: the rows could not show which of them has an effect."""

from collections.abc import Collection, Sequence

import numpy as np
import polars as pl
import scipy.sparse

MOST_ROWS = 20_000
"""Drawn at random from more."""

LARGEST_VIF = 100.0
"""Largest VIF of a number in a first regression: the other covariates then explain 99 % of it."""

MUCH_LARGER = 10.0
"""Times the factor of a number without a further term: what that term is left out for."""

SINGULAR = 1e-9
"""Share of the variance of a number below which what is left of it is rounding error."""


def obstacle(rows: pl.DataFrame, factors: Collection[str]) -> str | None:
    """Why the last of some covariates would tell nothing beside the others, or leave them nothing to tell; None if it may
    join. The rows lack no value; `factors` are the covariates that are such."""
    *others, last = rows.columns
    if last in factors:
        levels = rows[last].n_unique()
        for other in others:
            if other in factors:
                pairs = rows.select(other, last).n_unique()
                if pairs == levels:
                    return f"each of its values has the same {other}, so their effects could not be distinguished"
                if pairs == rows[other].n_unique():
                    return f"determined by {other}"
    after = inflation(rows, factors)
    if last in factors:
        # A number that the others nearly determine anyway is in nobody's way.
        before = inflation(rows.select(others), factors)
        after = {name: size for name, size in after.items() if size > MUCH_LARGER * before[name]}
    else:
        after = {last: after[last]}
    worst = max(after, key=after.__getitem__, default="")
    size = after.get(worst, 1.0)
    if size <= LARGEST_VIF:
        return None
    how = (
        "determined by the other terms" if np.isinf(size) else f"nearly determined by the other terms (VIF {size:,.0f})"
    )
    return how if worst == last else f"with it {worst} would be {how}"


def inflation(rows: pl.DataFrame, factors: Collection[str]) -> dict[str, float]:
    """The variance inflation factor of each number among covariates that would share a formula: 1 / (1 - R²) of its
    regression on all others, where each row has the same weight; infinite where they determine it. Factors have none. The
    rows lack no value."""
    numbers = [name for name in rows.columns if name not in factors]
    if not numbers:
        return {}
    if len(rows) > MOST_ROWS:
        rows = rows[np.sort(np.random.default_rng(1).choice(len(rows), MOST_ROWS, replace=False))]
    values = rows.select(pl.col(numbers).cast(pl.Float64)).to_numpy()
    # A number that does not vary in the rows drawn has no variance to inflate.
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    # The residuals of each number in a least-squares fit on the factors; some indicators may be aliased.
    indicators = _indicators(rows, [name for name in rows.columns if name in factors])
    inverse = np.linalg.pinv((indicators.T @ indicators).toarray(), SINGULAR, hermitian=True)
    left = values - indicators @ (inverse @ (indicators.T @ values))
    products = left.T @ left / len(rows)
    unexplained = np.ones(len(numbers))
    for place in np.flatnonzero(spread > 0):
        others = np.delete(np.arange(len(numbers)), place)
        within, beside = products[np.ix_(others, others)], products[others, place]
        explained = beside @ np.linalg.pinv(within, SINGULAR, hermitian=True) @ beside
        unexplained[place] = products[place, place] - explained
    return {
        name: 1 / share if share > SINGULAR else np.inf
        for name, share in zip(numbers, unexplained.tolist(), strict=True)
    }


def unexplained(rows: pl.DataFrame, response: str, factors: Collection[str]) -> float:
    """The share of the variance of a column that a linear regression on all others leaves; rows without missing values."""
    return 1 / inflation(rows, [name for name in rows.columns if name in factors])[response]


def _indicators(rows: pl.DataFrame, factors: Sequence[str]) -> scipy.sparse.csr_array:
    """A column for each level of each factor but its first, and a constant."""
    count = np.arange(len(rows))
    blocks = [scipy.sparse.csr_array(np.ones((len(rows), 1)))]
    for name in factors:
        codes = (rows[name].rank("dense") - 1).to_numpy().astype(np.int64)
        levels = scipy.sparse.csr_array((np.ones(len(rows)), (count, codes)), shape=(len(rows), int(codes.max()) + 1))
        blocks.append(levels[:, 1:])
    return scipy.sparse.csr_array(scipy.sparse.hstack(blocks))
