"""Write the .npz file of images and labels that the workflow reads: the digits of scikit-learn, or MNIST from its own files."""

import argparse
import gzip
import sys
import zlib
from pathlib import Path

import numpy as np

DIMENSIONS = {3: "images", 1: "labels"}
UNSIGNED_BYTE = 8


def main(arguments: argparse.Namespace) -> None:
    if arguments.images:
        if not arguments.labels:
            sys.exit("error: --images: name the file of their labels too, with --labels")
        images, labels = read_idx(arguments.images, 3), read_idx(arguments.labels, 1)
    else:
        images, labels = digits()
    np.savez_compressed(arguments.output, images=images, labels=labels)
    print(f"{arguments.output}: {len(images):,} images of {images.shape[1]} x {images.shape[2]} pixels")


def digits() -> tuple[np.ndarray, np.ndarray]:
    """The 1,797 handwritten digits of 8 x 8 pixels inside scikit-learn, whose 17 levels of grey become 0 to 255."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    return np.round(bunch.images * (255 / 16)).astype(np.uint8), bunch.target.astype(np.uint8)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """The array in a file as MNIST has them: two zeros, the type, the number of dimensions, their sizes as big-endian integers of
    four bytes, the values. Ends the program if the file is not that."""
    try:
        content = path.read_bytes()
        content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError, zlib.error) as error:
        sys.exit(f"error: {path}: cannot be read: {error}")
    shape = np.frombuffer(content[4 : 4 + 4 * dimensions], ">u4").tolist()
    values = np.frombuffer(content[4 + 4 * dimensions :], np.uint8)
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, dimensions]) or np.prod(shape) != len(values):
        sys.exit(f"error: {path}: is no idx file of {DIMENSIONS[dimensions]} in bytes, or is cut short; fetch it again")
    return values.reshape(shape)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--images", type=Path, help="idx file of images, such as train-images-idx3-ubyte.gz; without: the digits"
    )
    parser.add_argument("--labels", type=Path, help="idx file of their labels, such as train-labels-idx1-ubyte.gz")
    parser.add_argument("--output", type=Path, required=True, help=".npz file to write")
    main(parser.parse_args())
