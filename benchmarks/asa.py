"""Synthetic flights in the schema of ASA Data Expo 2009, with its quirks, at any size, and with known coefficients.

Whether a flight arrives 15 minutes late or more follows a logistic model in carrier, origin, destination, month, weekday,
hour and distance, whose coefficients `truth` gives. All else is made up to look like the real files: see `QUIRKS`.
"""

import argparse
import datetime
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

QUIRKS = """
- Missing is `NA`, and empty in CancellationCode from June 2003 on. Times are hhmm without padding, up to 2400.
- Cancelled: DepTime, ArrTime, delays and taxi times are NA. Diverted: DepDelay is there, ArrDelay is not.
- TailNum, AirTime and taxi times are NA until 1994, the causes of delay until June 2003; a few distances are NA.
- TailNum of 2001 and 2002 holds bytes that are not UTF-8. DepDelay goes from -1410 to 2601.
- Carriers such as `PA (1)`, some of them for a few years only. Distance is a function of origin and destination.
"""

# Rows of the real files.
ROWS = {
    1987: 1_311_826, 1988: 5_202_096, 1989: 5_041_200, 1990: 5_270_893, 1991: 5_076_925, 1992: 5_092_157,
    1993: 5_070_501, 1994: 5_180_048, 1995: 5_327_435, 1996: 5_351_983, 1997: 5_411_843, 1998: 5_384_721,
    1999: 5_527_884, 2000: 5_683_047, 2001: 5_967_780, 2002: 5_271_359, 2003: 6_488_540, 2004: 7_129_270,
    2005: 7_140_596, 2006: 7_141_922, 2007: 7_453_215, 2008: 7_009_728,
}  # fmt: skip

# Code: share of the flights, first and last year.
CARRIERS = {
    "DL": (14, 1987, 2008), "WN": (13, 1987, 2008), "AA": (12, 1987, 2008), "US": (11, 1987, 2008),
    "UA": (11, 1987, 2008), "NW": (8, 1987, 2008), "CO": (7, 1987, 2008), "MQ": (4, 2001, 2008), "OO": (4, 2003, 2008),
    "HP": (3, 1987, 2005), "TW": (3, 1987, 2001), "XE": (3, 2003, 2008), "AS": (2.5, 1987, 2008), "EV": (2, 2003, 2008),
    "OH": (1.5, 2003, 2008), "FL": (1.5, 2003, 2008), "EA": (3, 1987, 1991), "YV": (1, 2006, 2008), "B6": (1, 2003, 2008),
    "PI": (3, 1987, 1989), "DH": (0.8, 2003, 2005), "9E": (0.7, 2007, 2008), "F9": (0.5, 2005, 2008),
    "HA": (0.4, 2003, 2008), "TZ": (0.4, 2003, 2006), "PA (1)": (1.5, 1987, 1991), "PS": (1, 1987, 1988),
    "AQ": (0.2, 2001, 2008), "ML (1)": (0.3, 1991, 1991),
}  # fmt: skip
HUBS = [
    "ORD", "ATL", "DFW", "LAX", "STL", "DEN", "PHX", "DTW", "PIT", "MSP", "BOS", "LGA", "EWR", "SFO", "CLT", "IAH", "SEA",
    "MCO", "LAS", "DCA", "PHL", "SLC", "CLE", "BWI", "SAN",
]  # fmt: skip
AIRPORTS = 320
CHUNK = 500_000
COLUMNS = [
    "Year", "Month", "DayofMonth", "DayOfWeek", "DepTime", "CRSDepTime", "ArrTime", "CRSArrTime", "UniqueCarrier",
    "FlightNum", "TailNum", "ActualElapsedTime", "CRSElapsedTime", "AirTime", "ArrDelay", "DepDelay", "Origin",
    "Dest", "Distance", "TaxiIn", "TaxiOut", "Cancelled", "CancellationCode", "Diverted", "CarrierDelay",
    "WeatherDelay", "NASDelay", "SecurityDelay", "LateAircraftDelay",
]  # fmt: skip
FOREIGN = {"ä": b"\xe4", "å": b"\xe5", "æ": b"\xe6"}
TAILS = [*(f"N5{letter}" for letter in FOREIGN), *(f"N{number}" for number in range(3, 5100))]


@dataclass(frozen=True)
class World:
    """What all flights have in common. Effects are on the log odds of being late; `share`, `x` and `y` (miles) by airport."""

    airports: np.ndarray
    share: np.ndarray
    x: np.ndarray
    y: np.ndarray
    carriers: np.ndarray
    carrier: np.ndarray
    origin: np.ndarray
    dest: np.ndarray
    month: np.ndarray
    weekday: np.ndarray
    intercept: float = -2.6
    hour: float = 0.06
    mile: float = 0.0001

    @classmethod
    def of(cls, seed: int) -> "World":
        random = np.random.default_rng([seed, 0])
        letters = np.array(list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        others = {"".join(code) for code in random.choice(letters, (3 * AIRPORTS, 3))} - set(HUBS)
        airports = np.array([*HUBS, *sorted(others)[: AIRPORTS - len(HUBS)]])
        share = 1 / (np.arange(AIRPORTS) + 8) ** 1.2
        return cls(
            airports=airports,
            share=share / share.sum(),
            x=random.uniform(0, 2600, AIRPORTS),
            y=random.uniform(0, 1200, AIRPORTS),
            carriers=np.array(list(CARRIERS)),
            carrier=random.normal(0, 0.3, len(CARRIERS)),
            origin=random.normal(0, 0.25, AIRPORTS),
            dest=random.normal(0, 0.25, AIRPORTS),
            month=0.25 * np.cos((np.arange(12) - 0.5) * np.pi / 3) + random.normal(0, 0.05, 12),
            weekday=np.array([0.0, -0.05, 0.05, 0.2, 0.25, -0.15, 0.05]),
        )


def truth(seed: int) -> pl.DataFrame:
    """term, level, coefficient of `late ~ carrier + origin + dest + C(month) + C(weekday) + dep_hour + distance`, a categorical
    level against the first one in sorted order."""
    world = World.of(seed)
    months, weekdays = [np.array([str(number + 1) for number in range(size)]) for size in (12, 7)]
    terms = {
        "carrier": (world.carriers, world.carrier),
        "origin": (world.airports, world.origin),
        "dest": (world.airports, world.dest),
        "C(month)": (months, world.month),
        "C(weekday)": (weekdays, world.weekday),
    }
    rows = [("dep_hour", "", world.hour), ("distance", "", world.mile)]
    for term, (levels, effects) in terms.items():
        first = effects[np.argmin(levels)]
        rows += [(term, str(level), float(effect - first)) for level, effect in zip(levels, effects, strict=True)]
    return pl.DataFrame(rows, ["term", "level", "coefficient"], orient="row")


def hhmm(minutes: np.ndarray) -> np.ndarray:
    """Minutes after midnight as a time of day; midnight is 2400."""
    minutes = minutes % 1440
    times = minutes // 60 * 100 + minutes % 60
    return np.where(times == 0, 2400, times)


def flights(world: World, random: np.random.Generator, days: np.ndarray) -> pl.DataFrame:
    """One flight for each of `days` (datetime64[D], in order)."""
    rows = len(days)
    months = days.astype("datetime64[M]")
    year = int(str(days[0])[:4])
    month = months.astype(int) % 12
    weekday = (days.astype(int) + 3) % 7  # 1970-01-01 was a Thursday
    share = np.array([share * (first <= year <= last) for share, first, last in CARRIERS.values()])
    carrier = random.choice(len(share), rows, p=share / share.sum())
    origin, dest = (random.choice(AIRPORTS, rows, p=world.share) for _ in range(2))
    dest = np.where(dest == origin, (dest + 1) % AIRPORTS, dest)
    across, along = world.x[origin] - world.x[dest], world.y[origin] - world.y[dest]
    distance = np.maximum(30, np.hypot(across, along)).astype(np.int32)
    departure = random.integers(60, 288, rows) * 5  # minutes, from 5:00 on
    departure[random.random(rows) < 0.002] = 1440
    eta = (
        world.intercept
        + world.carrier[carrier]
        + world.origin[origin]
        + world.dest[dest]
        + world.month[month]
        + world.weekday[weekday]
        + world.hour * (departure // 60 % 24)
        + world.mile * distance
    )
    late = random.random(rows) < 1 / (1 + np.exp(-eta))
    arr_delay = np.where(late, 15 + random.exponential(35, rows), 14 - random.exponential(14, rows)).astype(np.int32)
    arr_delay = np.where(late, arr_delay, np.clip(arr_delay, -90, 14))
    dep_delay = arr_delay - random.integers(-10, 12, rows).astype(np.int32)
    odd = random.random(rows)
    dep_delay[odd < 2e-6] = -1410
    dep_delay[odd > 1 - 2e-6] = 2601
    planned = (30 + distance / 7.5).astype(np.int32)
    taxi_in, taxi_out = random.integers(2, 15, rows, dtype=np.int32), random.integers(5, 30, rows, dtype=np.int32)
    elapsed = planned + arr_delay - dep_delay
    fate = random.random(rows)
    cancelled, diverted = fate < 0.018, fate > 0.998
    old, causes = year < 1995, days >= np.datetime64("2003-06-01")
    foreign = (random.random(rows) < 0.001) & (year in (2001, 2002))
    tail = random.integers(100, 5100, rows)
    every, arrived = np.ones(rows, bool), ~(cancelled | diverted)
    taxied = arrived & (not old)
    delayed = arrived & causes & (arr_delay >= 15)
    part = random.integers(0, 5, rows)

    def text(names: list[str], codes: np.ndarray) -> pl.Series:
        return pl.Series(names).gather(codes)

    def where(there: np.ndarray, values: np.ndarray | pl.Series) -> pl.Series:
        return pl.select(pl.when(pl.Series(there)).then(pl.Series(values))).to_series()

    columns = [
        (every, np.full(rows, year, np.int16)),
        (every, (month + 1).astype(np.int8)),
        (every, (days - months).astype(np.int64).astype(np.int8) + np.int8(1)),
        (every, (weekday + 1).astype(np.int8)),
        (~cancelled, hhmm(departure + dep_delay)),
        (every, hhmm(departure)),
        (arrived, hhmm(departure + dep_delay + elapsed)),
        (every, hhmm(departure + planned)),
        (every, text(list(CARRIERS), carrier)),
        (every, random.integers(1, 7000, rows, dtype=np.int16)),
        (~cancelled & (not old), text(TAILS, np.where(foreign, tail % len(FOREIGN), tail))),
        (arrived, elapsed),
        (every, planned),
        (taxied, np.maximum(10, elapsed - taxi_in - taxi_out)),
        (arrived, arr_delay),
        (~cancelled, dep_delay),
        (every, text(world.airports.tolist(), origin)),
        (every, text(world.airports.tolist(), dest)),
        (random.random(rows) > 0.0005, distance),
        (taxied, taxi_in),
        (taxied, taxi_out),
        (every, cancelled.astype(np.int8)),
        (causes, text(["", *"ABCD"], np.where(cancelled, 1 + part % 4, 0))),
        (every, diverted.astype(np.int8)),
        *(((arrived & causes), np.where(delayed & (part == number), arr_delay, 0)) for number in range(5)),
    ]
    return pl.DataFrame([where(*each).alias(name) for name, each in zip(COLUMNS, columns, strict=True)])


def days_of(year: int, rows: int) -> np.ndarray:
    """The days of so many flights of a year, in order; 1987 begins in October."""
    first = np.datetime64(f"{year}-10-01" if year == 1987 else f"{year}-01-01")
    length = (np.datetime64(f"{year + 1}-01-01") - first).astype(int)
    return first + (np.arange(rows) * length // rows).astype("timedelta64[D]")


def chunks(year: int, rows: int, seed: int) -> Iterator[bytes]:
    """One year as CSV, in pieces."""
    world, days = World.of(seed), days_of(year, rows)
    yield (",".join(COLUMNS) + "\n").encode()
    for number, start in enumerate(range(0, rows, CHUNK)):
        table = flights(world, np.random.default_rng([seed, year, number]), days[start : start + CHUNK])
        text = io.BytesIO()
        table.write_csv(text, include_header=False, null_value="NA", quote_style="never")
        data = text.getvalue()
        for letter, byte in FOREIGN.items() if year in (2001, 2002) else ():
            data = data.replace(letter.encode(), byte)
        yield data


def write(folder: Path, rows: int, years: range, seed: int) -> list[Path]:
    """Write one file a year, `rows` in all, in the proportions of the real ones; files that are there are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = sum(ROWS[year] for year in years)
    paths = []
    for year in years:
        path = folder / f"{year}.csv"
        if not path.exists():
            partial = path.with_suffix(".partial")
            with partial.open("wb") as file:
                file.writelines(chunks(year, max(1, rows * ROWS[year] // whole), seed))
            partial.rename(path)
        paths.append(path)
    truth(seed).write_csv(folder / "truth.csv")
    return paths


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=sum(ROWS.values()), help="in all files together")
    parser.add_argument("--years", default="1987-2008", help="first and last, or one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, required=True, help="folder to write YYYY.csv and truth.csv to")
    arguments = parser.parse_args()
    first, _, last = arguments.years.partition("-")
    started = datetime.datetime.now(tz=datetime.UTC)
    written = write(arguments.output, arguments.rows, range(int(first), int(last or first) + 1), arguments.seed)
    seconds = (datetime.datetime.now(tz=datetime.UTC) - started).total_seconds()
    size = sum(path.stat().st_size for path in written)
    print(f"{len(written)} files, {size / 1e6:,.0f} MB, {size / 1e6 / seconds:,.0f} MB/s")
