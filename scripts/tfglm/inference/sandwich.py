"""The covariance that is robust to a wrong variance of independent rows: HC0 to HC3."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.sparse

from tfglm.inference.block_diagonal import BlockDiagonal
from tfglm.inference.bread import BreadRows
from tfglm.inference.covariance import Covariance


@dataclass(frozen=True, eq=False, kw_only=True)
class Sandwich(Covariance):
    """`correction` * I^-1 M I^-1, where M = sum of f s_i s_i' over rows, with the score s_i and the leverage h_i of a row.

    The blocks of M are `meat_dense` [q, q], `meat_mixed` [q, m] and, as its values, `meat_diagonal`. `correction` and f are

    - HC0: 1 and 1 (White 1980)
    - HC1: n / (n - p) and 1
    - HC2: 1 and 1 / (1 - h_i) (Horn, Horn and Duncan 1975)
    - HC3: 1 and 1 / (1 - h_i)^2 (MacKinnon and White, Journal of Econometrics 29, 1985)

    A row with a frequency counts as so many rows, each with its own leverage.
    """

    meat_dense: np.ndarray
    meat_mixed: np.ndarray
    meat_diagonal: np.ndarray

    kind: ClassVar[str] = "sandwich"

    def of(self, transform: scipy.sparse.csr_array) -> np.ndarray:
        on_dense, on_eliminated = self.bread.times(transform)
        half = on_dense @ self.meat_mixed
        crossed = half @ on_eliminated.T
        square = on_dense @ self.meat_dense @ on_dense.T + self._eliminated_meat.times(on_eliminated) @ on_eliminated.T
        result = self.correction * (square + crossed + crossed.T)
        return result + self.dispersion * self._prior.of(on_dense, on_eliminated) if self._prior else result

    def _variances(self, rows: BreadRows, classical: np.ndarray, bias: np.ndarray) -> np.ndarray:
        within, between = self._reduced_meat
        robust = np.einsum("ij,ij->i", rows.on_dense @ within, rows.on_dense)
        if len(self.bread.diagonal):
            robust += 2 * np.einsum("ij,ij->i", rows.on_dense, rows.alone @ between.T)
            robust += self._eliminated_meat.squares(rows.alone)
        return self.correction * robust + bias

    @cached_property
    def _eliminated_meat(self) -> BlockDiagonal:
        return BlockDiagonal(self.meat_diagonal)

    @cached_property
    def _reduced_meat(self) -> tuple[np.ndarray, np.ndarray]:
        """(I, -loadings) M (I, -loadings)' [q, q] and (I, -loadings) M (0, I)' [q, m]."""
        loadings = self.bread.loadings
        scaled = self._eliminated_meat.times(loadings)
        crossed = self.meat_mixed @ loadings.T
        return self.meat_dense - crossed - crossed.T + scaled @ loadings.T, self.meat_mixed - scaled
