"""Files of images: their pixels and labels in the shards, what is made of them, and what is refused."""

import gzip
import struct
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

import write_images
from tfglm.config import DesignConfig, Layout, SelectionConfig, load_layout
from tfglm.data.dictionary import merge
from tfglm.data.header import read_header
from tfglm.data.images import Images
from tfglm.data.ingest import ingest
from tfglm.data.shards import BLOCK_ROWS, IngestedFile
from tfglm.design.build import build_design
from tfglm.design.design import Design
from tfglm.errors import UserError
from tfglm.networks import sources
from tfglm.networks.rows import RESPONSE
from tfglm.results import predict

RANDOM = np.random.default_rng(1)
IMAGES = RANDOM.integers(0, 256, (BLOCK_ROWS + 900, 5, 3), dtype=np.uint8)
LABELS = RANDOM.integers(3, 7, len(IMAGES))


def ingested(folder: Path, name: str = "pictures", split=None, columns=("label", "image"), **arrays) -> IngestedFile:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.npz"
    np.savez_compressed(path, **(arrays or {"images": IMAGES, "labels": LABELS}))
    settings = SelectionConfig.model_validate({"split": split or {"train": "TRUE"}, "columns": list(columns)})
    ingest(path, name, {"images": load_layout("images")}, settings, folder / name)
    return IngestedFile.load(folder / name / "manifest.json")


def pixels_of(file: IngestedFile, split: str) -> tuple[np.ndarray, np.ndarray]:
    """The images of a split, [images, pixels], and their labels, in the order of the shards."""
    shards = [shard for shard in file.manifest.shards if shard.split == split]
    labels = np.append(0, file.values("label").to_numpy())
    pixels = [file.stored(shard, "image").view(np.uint8).reshape(shard.rows, -1) for shard in shards]
    return np.concatenate(pixels), np.concatenate([labels[file.stored(shard, "label")] for shard in shards])


def in_order(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    rows = np.column_stack([images.reshape(len(images), -1), labels])
    return rows[np.lexsort(rows.T)]


def test_shards_have_the_pixels_as_bytes_beside_the_labels(tmp_path):
    split = {"train": "random < 0.8", "predict": "random >= 0.8"}
    file = ingested(tmp_path, split=split)
    column = file.column("image")
    assert (column.kind, column.dtype, column.shape, column.coded) == ("image", "(5,3)u1", (5, 3), False)
    rows = file.predicted_rows() - 1
    pixels, labels = pixels_of(file, "predict")
    np.testing.assert_array_equal(pixels, IMAGES[rows].reshape(len(rows), 15))
    np.testing.assert_array_equal(labels, LABELS[rows])
    others = np.setdiff1d(np.arange(len(IMAGES)), rows)
    assert len(rows) > 1000 and len(others) > 7000
    np.testing.assert_array_equal(in_order(*pixels_of(file, "train")), in_order(IMAGES[others], LABELS[others]))
    sizes = [(file.folder / shard.path / "image").stat().st_size for shard in file.manifest.shards]
    assert sum(sizes) == IMAGES.size
    known = merge([file]).columns["image"]
    assert (known.kind, known.minimum, known.maximum) == ("image", 0, 255)
    assert known.mean == pytest.approx(IMAGES[others].mean()) and known.variance == pytest.approx(IMAGES[others].var())
    assert merge([file]).columns["label"].levels == [3, 4, 5, 6]


def test_a_file_as_keras_has_it_says_what_is_for_training(tmp_path):
    arrays = {
        "x_train": IMAGES[:70],
        "y_train": LABELS[:70],
        "x_test": IMAGES[70:90, ..., None],
        "y_test": LABELS[70:90, None],
    }
    file = ingested(tmp_path, split={"train": "part = 'train'", "evaluate": "part = 'test'"}, **arrays)
    np.testing.assert_array_equal(in_order(*pixels_of(file, "train")), in_order(IMAGES[:70], LABELS[:70]))
    np.testing.assert_array_equal(in_order(*pixels_of(file, "evaluate")), in_order(IMAGES[70:90], LABELS[70:90]))
    assert read_header(tmp_path / "pictures.npz") == ["image", "label", "part"]


def test_a_damaged_image_is_refused(tmp_path):
    file = ingested(tmp_path)
    shard = file.manifest.shards[0]
    path = file.folder / shard.path / "image"
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    with pytest.raises(UserError, match="the shard has changed since it was written, in block"):
        file.stored(shard, "image")


def design(
    file: IngestedFile, formula: str = "label ~ image", family: str = "multinomial", section="networks", **keys
) -> Design:
    settings = DesignConfig.model_validate({"formula": formula, "family": family, **keys})
    return build_design("digits", settings, merge([file]), [file], section=section)


def test_a_network_reads_pixels_from_0_to_1_row_by_row(tmp_path):
    file = ingested(tmp_path, split={"train": "random < 0.5", "predict": "TRUE"})
    of_images = design(file)
    assert of_images.numeric_by_name["image"].shape == (5, 3) and of_images.size == 16
    assert Design.from_json(of_images.as_json) == of_images
    units = sources.units(of_images.to_predict, [file], "predict", None)
    numbers = np.concatenate([units.read(number)[0].numbers for number in range(len(units))])
    expected = IMAGES[file.predicted_rows() - 1].reshape(-1, 15) / 255
    np.testing.assert_allclose(numbers[:, :15], expected, rtol=1e-6)
    trained = sources.units(of_images, [file], "train", None)
    labels = np.concatenate([trained.train(number).numbers[:, RESPONSE] for number in range(len(trained))])
    assert np.unique(labels).tolist() == [0, 1, 2, 3]


WRONG = {
    "no images": ({"pictures": IMAGES}, r"has no array `images`, nor `x_train`; it has pictures"),
    "numbers": ({"images": IMAGES / 255.0}, r"`images` holds float64; write pixels as uint8, from 0 to 255"),
    "colours": ({"images": np.zeros((4, 8, 8, 3), np.uint8)}, r"should be grey images, .* has the shape 4 x 8 x 8 x 3"),
    "none": ({"images": np.zeros((0, 8, 8), np.uint8)}, r"has the shape 0 x 8 x 8"),
    "too large": ({"images": np.zeros((1, 100, 50), np.uint8)}, r"100 x 50 pixels, and 2,304 are the most"),
    "too few labels": ({"images": IMAGES, "labels": LABELS[1:]}, r"has 9,092 images and `labels` 9,091 labels"),
    "labels of decimals": ({"images": IMAGES, "labels": LABELS + 0.5}, r"`labels` should be whole numbers or texts"),
    "one part with labels": (
        {"x_train": IMAGES, "y_train": LABELS, "x_test": IMAGES},
        r"only one of `x_train` and `x_test` has labels",
    ),
    "parts of two sizes": (
        {"x_train": IMAGES, "x_test": np.zeros((4, 8, 8), np.uint8)},
        r"has images of 5 x 3 and 8 x 8 pixels; all must have one size",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_arrays_that_are_no_images_are_refused_by_name(case, tmp_path):
    arrays, message = WRONG[case]
    path = tmp_path / "wrong.npz"
    np.savez(path, **arrays)
    with pytest.raises(UserError, match=f"wrong.npz: .*{message}"):
        Images.load(path)


def test_a_file_that_is_no_archive_is_refused(tmp_path):
    path = tmp_path / "wrong.npz"
    for content in (b"", b"PK\x03\x04 and no more", b"label,image\n"):
        path.write_bytes(content)
        with pytest.raises(UserError, match=r"wrong.npz: is damaged or cut short"):
            read_header(path)


def test_images_of_another_size_are_refused_by_name(tmp_path):
    file = ingested(tmp_path)
    other = ingested(tmp_path, "others", images=np.zeros((9, 8, 8), np.uint8), labels=np.arange(9))
    with pytest.raises(UserError, match=r"pictures.npz have 5 x 3 pixels, those in .*others.npz 8 x 8"):
        merge([file, other])
    to_score = ingested(
        tmp_path, "new", {"train": "FALSE", "predict": "TRUE"}, ["image"], images=np.zeros((9, 3, 5), np.uint8)
    )
    message = r"new.npz: the images in `image` have 3 x 5 pixels, and network `digits` reads 5 x 3"
    with pytest.raises(UserError, match=message):
        sources.units(design(file).to_predict, [to_score], "predict", None)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"formula": "label ~ C(image)"}, "`image` is an image; write its plain name in the formula"),
        ({"formula": "label ~ log(image)"}, "`image` is an image; write its plain name in the formula"),
        ({"formula": "image ~ label"}, "`image` is an image; write its plain name in the formula"),
        ({"weights": "image"}, "digits.weights: `image` is an image"),
        (
            {"section": "models", "family": "gaussian"},
            "models.digits.formula: `image` is an image, and a regression would",
        ),
    ],
)
def test_an_image_stands_in_the_formula_of_a_network_alone(tmp_path, keys, message):
    with pytest.raises(UserError, match=message):
        design(ingested(tmp_path), **keys)


def test_an_image_does_not_tell_rows_apart(tmp_path):
    file = ingested(tmp_path)
    with pytest.raises(UserError, match=r"networks.digits.identity: `image` is an image, which no table can hold"):
        predict.check_identity("networks.digits", file, ["label", "image"])


def test_no_image_is_derived(tmp_path):
    path = tmp_path / "pictures.npz"
    np.savez(path, images=IMAGES[:9], labels=LABELS[:9])
    raw = {"split": {"train": "TRUE"}, "derive": {"again": "image"}, "columns": ["label", "again"]}
    with pytest.raises(UserError, match=r"data.derive.again: gives neither a number nor a text nor a date"):
        ingest(path, "p", {"images": load_layout("images")}, SelectionConfig.model_validate(raw), tmp_path / "p")


def test_a_table_has_no_images(tmp_path):
    (tmp_path / "table.csv").write_text("label,image\n1,2\n")
    layout = Layout.model_validate({"columns": {"label": "integer", "image": "image"}})
    settings = SelectionConfig.model_validate({"split": {"train": "TRUE"}, "columns": ["label", "image"]})
    with pytest.raises(
        UserError, match=r"table.csv: `image` has the type image in the layout, and images are read from .npz"
    ):
        ingest(tmp_path / "table.csv", "table", {"mine": layout}, settings, tmp_path / "table")


def idx(values: np.ndarray) -> bytes:
    return bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def test_files_as_mnist_has_them_become_an_archive(tmp_path):
    labels = LABELS.astype(np.uint8)
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx(IMAGES)))
    (tmp_path / "labels").write_bytes(idx(labels))
    arguments = Namespace(images=tmp_path / "images.gz", labels=tmp_path / "labels", output=tmp_path / "mnist.npz")
    write_images.main(arguments)
    (part,) = Images.load(tmp_path / "mnist.npz").parts
    np.testing.assert_array_equal(part.pixels, IMAGES)
    np.testing.assert_array_equal(part.labels, labels)
    (tmp_path / "labels").write_bytes(idx(labels)[:-1])
    with pytest.raises(SystemExit, match="labels: is no idx file of labels in bytes, or is cut short"):
        write_images.main(arguments)
    (tmp_path / "images.gz").write_bytes(gzip.compress(idx(IMAGES))[:-20])
    with pytest.raises(SystemExit, match=r"images.gz: cannot be read"):
        write_images.main(arguments)


def test_the_digits_of_scikit_learn_use_all_greys(tmp_path):
    write_images.main(Namespace(images=None, labels=None, output=tmp_path / "digits.npz"))
    images = Images.load(tmp_path / "digits.npz")
    (part,) = images.parts
    assert images.shape == (8, 8) and len(part.pixels) == 1797
    assert len(np.unique(part.pixels)) == 17 and (part.pixels.min(), part.pixels.max()) == (0, 255)
    assert np.unique(part.labels).tolist() == list(range(10))
