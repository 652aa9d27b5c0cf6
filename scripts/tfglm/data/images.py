"""Files of images: archives of NumPy arrays (.npz) with grey images and their labels.

The arrays are `images`, uint8 [images, height, width], and `labels` [images]; files to score may lack labels. Or they are
`x_train`, `y_train`, `x_test` and `y_test`, as in Keras' MNIST; then the test rows follow the training rows, and the column
`part` is train or test. A row has those of the columns `image`, `label` and `part` that the file provides.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from tfglm.data.blocks import InputBlock
from tfglm.data.packing import reported
from tfglm.errors import UserError

BLOCK_IMAGES = 2**13
"""Images that are encoded together."""

MOST_PIXELS = 48 * 48
"""Most pixels of an image. Each pixel is a number of the design, and reading a design takes time quadratic in their number:
3 s for so many."""

ARRAYS = {"": ("images", "labels"), "train": ("x_train", "y_train"), "test": ("x_test", "y_test")}
"""Names of the pixels and of the labels, by part."""


@dataclass(frozen=True)
class ImageArrays:
    """Some images: pixels uint8 [images, height, width], and labels [images], if they are known."""

    name: str
    pixels: np.ndarray
    labels: np.ndarray | None


@dataclass(frozen=True)
class Images:
    """All images of a file, in memory, and their height and width."""

    parts: tuple[ImageArrays, ...]
    shape: tuple[int, int]

    @classmethod
    def load(cls, path: Path) -> "Images":
        """Load a file. Raises UserError if it cannot be read, or if its arrays have the wrong names, types or shapes."""
        with reported(path), np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in arrays_in(path, archive.files)}
        parts = [
            part_of(path, part, of_pixels, of_labels, arrays)
            for part, (of_pixels, of_labels) in ARRAYS.items()
            if of_pixels in arrays
        ]
        shapes = {part.pixels.shape[1:] for part in parts}
        if len(shapes) > 1:
            sizes = " and ".join(sorted(f"{height} x {width}" for height, width in shapes))
            raise UserError(f"{path}: has images of {sizes} pixels; all must have one size")
        return cls(tuple(parts), shapes.pop())

    def blocks(self) -> Iterator[InputBlock]:
        """The rows as `blocks.parquet_blocks` has them."""
        first = 1
        for part in self.parts:
            for start in range(0, len(part.pixels), BLOCK_IMAGES):
                pixels = np.ascontiguousarray(part.pixels[start : start + BLOCK_IMAGES])
                count, kind = len(pixels), pa.binary(pixels[0].size)
                columns = {"image": pa.FixedSizeBinaryArray.from_buffers(kind, count, [None, pa.py_buffer(pixels)])}
                if part.labels is not None:
                    columns["label"] = pl.Series(part.labels[start : start + count]).to_arrow()
                if part.name:
                    columns["part"] = pl.Series([part.name] * count).to_arrow()
                yield InputBlock(pa.RecordBatch.from_pydict(columns), first)
                first += count


def header(path: Path) -> list[str]:
    """The columns of the rows of a file of images. Raises UserError if it has none."""
    with reported(path), np.load(path, allow_pickle=False) as archive:
        names = arrays_in(path, archive.files)
    part, labels = ("part" if "images" not in names else ""), names & {"labels", "y_train", "y_test"}
    return ["image", *(["label"] if labels else []), *([part] if part else [])]


def arrays_in(path: Path, names: list[str]) -> set[str]:
    """Return the names of the arrays to read. Raises UserError if there are no images, or if only some have labels."""
    known = set(ARRAYS[""]) if "images" in names else {name for part in ("train", "test") for name in ARRAYS[part]}
    read = known & set(names)
    if not read & {"images", "x_train", "x_test"}:
        raise UserError(
            f"{path}: has no array `images`, nor `x_train`; it has {', '.join(sorted(names)) or 'none'}\n"
            f"  write one with numpy.savez_compressed(path, images=..., labels=...)"
        )
    labelled = {of_labels in read for of_pixels, of_labels in ARRAYS.values() if of_pixels in read}
    if len(labelled) > 1:
        raise UserError(f"{path}: only one of `x_train` and `x_test` has labels; add `y_train` and `y_test`")
    return read


def part_of(path: Path, part: str, of_pixels: str, of_labels: str, arrays: Mapping[str, np.ndarray]) -> ImageArrays:
    """The images and labels of these names. Raises UserError if they do not go together."""
    pixels = checked_pixels(path, of_pixels, arrays[of_pixels])
    if of_labels not in arrays:
        return ImageArrays(part, pixels, None)
    labels = checked_labels(path, of_labels, arrays[of_labels])
    if len(pixels) != len(labels):
        raise UserError(
            f"{path}: `{of_pixels}` has {len(pixels):,} images and `{of_labels}` {len(labels):,} labels; write one for each"
        )
    return ImageArrays(part, pixels, labels)


def checked_pixels(path: Path, name: str, pixels: np.ndarray) -> np.ndarray:
    """Pixels as [images, height, width]. Raises UserError if they are not that."""
    if pixels.ndim == 4 and pixels.shape[3] == 1:
        pixels = pixels[..., 0]
    if pixels.ndim != 3 or not pixels.size:
        raise UserError(
            f"{path}: `{name}` should be grey images, [images, height, width], and has the shape "
            f"{' x '.join(map(str, pixels.shape))}"
        )
    if pixels.dtype != np.uint8:
        raise UserError(f"{path}: `{name}` holds {pixels.dtype}; write pixels as uint8, from 0 to 255")
    height, width = pixels.shape[1:]
    if height * width > MOST_PIXELS:
        raise UserError(
            f"{path}: `{name}` has images of {height} x {width} pixels, and {MOST_PIXELS:,} are the most; make them smaller"
        )
    return pixels


def checked_labels(path: Path, name: str, labels: np.ndarray) -> np.ndarray:
    """Labels as [images]. Raises UserError if they are neither whole numbers nor texts."""
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1 or labels.dtype.kind not in "iuU":
        raise UserError(
            f"{path}: `{name}` should be whole numbers or texts, one for each image, and is {labels.dtype} of the shape "
            f"{' x '.join(map(str, labels.shape))}"
        )
    return labels
