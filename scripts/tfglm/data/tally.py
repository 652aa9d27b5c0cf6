"""Rows that agree in some columns: their keys, and what is summed of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from tfglm.config import CollapseConfig
from tfglm.data import folds, tally_loops
from tfglm.data.dictionary import Dictionary, training_values
from tfglm.data.encoding import code_type
from tfglm.data.shards import IngestedFile

WORD = 2**62
"""Combinations of values that a word of a key numbers."""


@dataclass
class KeyTally:
    """The distinct keys, int64 [words, room], the first `count` of which are filled, and the sums over the rows of each
    key, [room]."""

    words: int
    room: int = 2**16
    count: int = 0
    sums: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.keys = np.empty((self.words, self.room), np.int64)
        self._places = np.full(2 * self.room, -1, np.int32)

    def numbers(self, keys: np.ndarray) -> np.ndarray:
        """The number of the key of each row, int32 [rows]; `keys` are int64 [words, rows], some blocks of rows at most."""
        while self.count + keys.shape[1] > self.room:
            self._grow()
        numbers = np.empty(keys.shape[1], np.int32)
        self.count = tally_loops.number(keys, self.keys, self.count, self._places, numbers)
        return numbers

    def _grow(self) -> None:
        self.keys = np.concatenate([self.keys, np.empty_like(self.keys)], axis=1)
        self.sums = {name: np.concatenate([sums, np.zeros_like(sums)]) for name, sums in self.sums.items()}
        self.room *= 2
        self._places = np.full(2 * self.room, -1, np.int32)
        tally_loops.place(self.keys, 0, self.count, self._places)

    def of(self, name: str) -> np.ndarray:
        """Some sums, by name."""
        return self.sums.setdefault(name, np.zeros(self.room))


@dataclass(frozen=True)
class Keys:
    """How the key of a row is made: the distinct values of each column, with their rows, and the word that each belongs to."""

    values: dict[str, pl.DataFrame]
    sizes: dict[str, int]
    word: dict[str, int]

    @classmethod
    def of(cls, settings: CollapseConfig, files: Sequence[IngestedFile], dictionary: Dictionary) -> "Keys":
        """Each number is the number of a value, from 1; 0 means no value. Or it is the number of a fold."""
        values = {
            name: training_values(files, name, dictionary.columns[name].kind, dictionary.required)
            for name in settings.columns
        }
        sizes = {name: len(table) + 1 for name, table in values.items()} | {
            folds.stored_name(response, number): number
            for response, numbers in settings.folds.items()
            for number in numbers
        }
        word, number, product = {}, 0, 1
        for name, size in sizes.items():
            if product * size > WORD:
                number, product = number + 1, 1
            word[name], product = number, product * size
        return cls(values, sizes, word)

    @property
    def words(self) -> int:
        return max(self.word.values(), default=0) + 1

    def tables(self, file: IngestedFile) -> dict[str, np.ndarray]:
        """The number of each code of a file among the values, from 1, by column; 0 for none."""
        tables = {}
        for name, known in self.values.items():
            codes = file.values(file.codes(name).name).cast(known.schema["value"]).alias("value").to_frame()
            numbered = known.select("value").with_row_index("number", 1)
            numbers = codes.join(numbered, on="value", how="left", maintain_order="left")["number"]
            tables[name] = np.append(0, numbers.fill_null(0).to_numpy()).astype(np.int64)
        return tables

    def joined(self, numbers: Mapping[str, np.ndarray], rows: int) -> np.ndarray:
        """The keys of rows with these numbers by column, int64 [words, rows]."""
        keys = np.zeros((self.words, rows), np.int64)
        for name, size in self.sizes.items():
            key = keys[self.word[name]]
            key *= size
            key += numbers[name]
        return keys

    def numbers(self, keys: np.ndarray) -> dict[str, np.ndarray]:
        """The numbers of `joined`, in their smallest types."""
        rest, numbers = keys.copy(), {}
        for name, size in reversed(self.sizes.items()):
            rest[self.word[name]], of_column = np.divmod(rest[self.word[name]], size)
            numbers[name] = of_column.astype(code_type(size - 1))
        return numbers
