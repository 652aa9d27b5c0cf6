"""Ratings of films by users, shaped like MovieLens 25M, whose public counts are 25,000,095 half-star ratings by 162,541 users (at
least 20 each, 71 in the median, 154 in the mean) of 59,047 films (6 in the median, 423 in the mean, 81,491 at most).

    python benchmarks/ratings.py ratings.csv --scale 0.1

writes a tenth of the ratings, users and films. The columns are `user_id`, `film_id`, `rating`, `age`, the years since the release
of the film, and `evening`, 1 or 0.
"""

import argparse
from pathlib import Path

import numpy as np
import polars as pl

RATINGS, USERS, FILMS = 25_000_095, 162_541, 59_047
FEWEST, MEDIAN_USER, SPREAD_OF_USERS = 20, 60.0, 1.35
SPREAD_OF_FILMS, LARGEST_SHARE = 3.0, 0.006
"""The standard deviations of log degrees, and the largest share of one film in the ratings before repeated ones are left out."""

SD_USER, SD_FILM, SD_ROW = 0.43, 0.50, 0.85
"""Standard deviations of the effects and of a row, in stars, before ratings become half stars."""


def frame(scale: float = 1.0, seed: int = 1) -> pl.DataFrame:
    """This share of the ratings, the same ones for the same seed."""
    random = np.random.default_rng(seed)
    ratings, users, films = (round(scale * number) for number in (RATINGS, USERS, FILMS))
    degrees = np.maximum(MEDIAN_USER * np.exp(SPREAD_OF_USERS * random.normal(size=users)), FEWEST)
    degrees = np.minimum(degrees, films / 2)
    shares = np.exp(SPREAD_OF_FILMS * random.normal(size=films))
    for _ in range(50):
        shares = np.minimum(shares / shares.sum(), LARGEST_SHARE / min(scale, 1.0) ** 0.5)
    ends_of_users, ends_of_films = np.cumsum(degrees / degrees.sum()), np.cumsum(shares / shares.sum())
    # Each film has a rating at least. A pair that is drawn again does not count.
    pairs = first = np.arange(films) + films * random.integers(users, size=films)
    while len(pairs) < ratings:
        more = 2 * (ratings - len(pairs)) + 1000
        user = np.searchsorted(ends_of_users, random.random(more)).clip(0, users - 1)
        film = np.searchsorted(ends_of_films, random.random(more)).clip(0, films - 1)
        pairs = np.unique(np.concatenate([pairs, user * films + film]))
    others = random.permutation(np.setdiff1d(pairs, first, assume_unique=True))
    pairs = random.permutation(np.concatenate([first, others[: ratings - films]]))
    user, film = np.divmod(pairs, films)
    age = np.round(random.gamma(1.3, 9.0, ratings), 1)
    evening = (random.random(ratings) < 0.4).astype(np.int8)
    stars = 3.55 + random.normal(0, SD_USER, users)[user] + random.normal(0, SD_FILM, films)[film]
    stars += 0.004 * age - 0.02 * evening + random.normal(0, SD_ROW, ratings)
    rating = np.clip(np.round(2 * stars) / 2, 0.5, 5.0)
    return pl.DataFrame({"user_id": user, "film_id": film, "rating": rating, "age": age, "evening": evening})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    table = frame(arguments.scale)
    table.write_csv(arguments.path)
    for name in ("user_id", "film_id"):
        counts = table[name].value_counts()["count"]
        print(
            f"{len(counts):,} levels of {name}, {counts.min():,} ratings at least, {counts.median():,.0f} in the median, ",
            end="",
        )
        print(f"{counts.mean():,.0f} in the mean, {counts.max():,} at most")


if __name__ == "__main__":
    main()
