"""Loading the data set: IDX files, .npz files, downloads and drawings, and every way it fails."""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from burnish.models import fashion_mnist
from burnish.models.fashion_mnist import FILES, WEIGHT_SHAPES, load
from burnish.support.errors import DataError

TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS = FILES


def idx(values: np.ndarray) -> bytes:
    header = struct.pack(">HBB", 0, 8, values.ndim) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.astype(np.uint8).tobytes()


def contents(count: int = 3) -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (2 * count, 28, 28))
    labels = np.arange(2 * count) % 10
    values = (images[:count], labels[:count], images[count:], labels[count:])
    return {name: idx(v) for name, v in zip(FILES, values, strict=True)}


def write_idx(
    folder: Path, replaced: dict[str, bytes] | None = None, *, packed: bool = False
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in {**contents(), **(replaced or {})}.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (folder / name).write_bytes(data)


def failure(folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        load(folder)
    return str(caught.value)


# -- IDX ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("inside", ["", "FashionMNIST/raw"])
def test_idx_files_are_found_packed_or_not(tmp_path: Path, inside: str, packed: bool) -> None:
    write_idx(tmp_path / inside, packed=packed)
    data = load(tmp_path)
    assert data.images.shape == (3, 28, 28)
    assert data.labels.tolist() == [3, 4, 5]
    assert data.train_labels is not None
    assert data.train_labels.tolist() == [0, 1, 2]
    assert data.images.flags.writeable
    assert data.weights is None
    assert data.source == f"the Fashion-MNIST files in {tmp_path / inside}"
    assert data.class_names[8] == "Bag"


def test_the_training_set_may_be_absent_but_not_half_of_it(tmp_path: Path) -> None:
    write_idx(tmp_path)
    (tmp_path / TRAIN_IMAGES).unlink()
    assert failure(tmp_path) == f"{tmp_path / TRAIN_IMAGES} (or {TRAIN_IMAGES}.gz) is missing."
    (tmp_path / TRAIN_LABELS).unlink()
    assert load(tmp_path).train_images is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "unpack requires a buffer of 4 bytes"),
        (b"\0\0\x08\x03\0\0", "unpack requires"),
        (
            idx(np.zeros((2, 28, 28)))[:-1],
            "the header says (2, 28, 28), the file holds 1567 values",
        ),
        (b"\0\0\x0d\x01\0\0\0\x01\0", "the header says (1,), the file holds 1 values"),
    ],
)
def test_a_corrupt_idx_file_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    write_idx(tmp_path, {TEST_IMAGES: data})
    message = failure(tmp_path)
    assert message.startswith(f"{tmp_path / TEST_IMAGES} is no IDX file of unsigned bytes: ")
    assert reason in message


def test_a_corrupt_gzip_file_is_named(tmp_path: Path) -> None:
    write_idx(tmp_path, packed=True)
    path = tmp_path / f"{TEST_LABELS}.gz"
    for data in (b"no gzip", path.read_bytes()[:-4], path.read_bytes()[:10] + b"\xff" * 20):
        path.write_bytes(data)
        assert f"{path} is no IDX file" in failure(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (TEST_IMAGES, np.zeros((3, 27, 28)), "images [N, 28, 28], found uint8 (3, 27, 28)"),
        (TEST_LABELS, np.zeros(4), "expected 3 labels from 0 to 9, found uint8 (4,)"),
        (TRAIN_LABELS, np.full(3, 10), "expected 3 labels from 0 to 9"),
    ],
)  # fmt: skip
def test_files_must_fit_each_other(
    tmp_path: Path, name: str, values: np.ndarray, message: str
) -> None:
    write_idx(tmp_path, {name: idx(values)})
    assert message in failure(tmp_path)


def test_an_empty_folder_is_no_data_set(tmp_path: Path) -> None:
    message = failure(tmp_path)
    assert message.startswith(f"{tmp_path} holds neither FashionMNIST/raw/*-ubyte[.gz] nor")
    assert "drawn garments" in message


# -- .npz --------------------------------------------------------------------------------------
def write_npz(folder: Path, labels: Any = None, weights: dict[str, Any] | None = None) -> None:
    images = np.zeros((4, 28, 28), np.uint8)
    given = np.arange(4) if labels is None else labels
    np.savez(folder / "fashion_mnist_900.npz", images=images, labels=given)
    if weights is not None:
        np.savez(folder / "fashion_mnist_mlp.npz", **weights)


def test_npz_files_with_and_without_weights(tmp_path: Path) -> None:
    write_npz(tmp_path)
    data = load(tmp_path)
    assert data.labels.dtype == np.uint8
    assert data.weights is None
    assert data.source.startswith("4 Fashion-MNIST images in ")
    write_npz(tmp_path, weights={k: np.ones(s, np.float64) for k, s in WEIGHT_SHAPES.items()})
    weights = load(tmp_path).weights
    assert weights is not None
    assert {k: (a.shape, str(a.dtype)) for k, a in weights.items()} == {
        k: (s, "float32") for k, s in WEIGHT_SHAPES.items()
    }


def test_corrupt_npz_files_are_named(tmp_path: Path) -> None:
    path = tmp_path / "fashion_mnist_900.npz"
    write_npz(tmp_path)
    whole = path.read_bytes()
    np.savez(path, images=np.zeros((4, 28, 28), np.uint8))
    contents_without_labels = path.read_bytes()
    for data in (b"", b"no zip file", whole[:300], contents_without_labels):
        path.write_bytes(data)
        assert f"{path} is no .npz file with images, labels: " in failure(tmp_path)


def test_an_npz_of_objects_is_not_unpickled(tmp_path: Path) -> None:
    write_npz(tmp_path, labels=np.array([{}, 1, 2, 3], dtype=object))
    assert "Object arrays cannot be loaded" in failure(tmp_path)


def test_labels_and_weights_of_a_wrong_kind_are_refused(tmp_path: Path) -> None:
    write_npz(tmp_path, labels=np.array([0, 1, 2, -1]))
    assert "labels from 0 to 9" in failure(tmp_path)
    write_npz(tmp_path, weights={k: np.zeros(3) for k in WEIGHT_SHAPES})
    assert "expected the weights {'w0': (128, 784)" in failure(tmp_path)


# -- drawn, downloaded -------------------------------------------------------------------------
def test_without_a_folder_garments_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[tuple[int, int]] = []

    def draw(count: int, *, seed: int) -> tuple[np.ndarray, np.ndarray]:
        counts.append((count, seed))
        return np.zeros((count, 28, 28), np.uint8), np.zeros(count, np.uint8)

    monkeypatch.setattr(fashion_mnist, "draw_garments", draw)
    data = load(seed=7)
    assert counts == [(900, 8), (4000, 7)]
    assert len(data.images) == 900
    assert "drawn by burnish itself" in data.source


@pytest.fixture
def mirror(monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Files a stand-in for urlopen serves; their checksums are the expected ones."""
    files = {f"{name}.gz": gzip.compress(data, mtime=0) for name, data in contents().items()}
    digests = {n.removesuffix(".gz"): hashlib.md5(d).hexdigest() for n, d in files.items()}
    for name, digest in digests.items():
        monkeypatch.setitem(FILES, name, digest)

    def urlopen(url: str, timeout: float) -> Any:
        name = url.rsplit("/", 1)[1]
        if name not in files:
            raise urllib.error.URLError("no route to host")
        return io.BytesIO(files[name])

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return files


def test_a_download_is_kept_and_not_repeated(tmp_path: Path, mirror: dict[str, bytes]) -> None:
    first = load(tmp_path, download=True)
    assert first.labels.tolist() == [3, 4, 5]
    mirror.clear()
    assert np.array_equal(load(tmp_path, download=True).images, first.images)


def test_a_damaged_file_is_fetched_again(tmp_path: Path, mirror: dict[str, bytes]) -> None:
    load(tmp_path, download=True)
    (tmp_path / "FashionMNIST" / "raw" / f"{TEST_IMAGES}.gz").write_bytes(b"damaged")
    assert load(tmp_path, download=True).images.shape == (3, 28, 28)


def test_without_a_network_the_error_says_what_to_do(
    tmp_path: Path, mirror: dict[str, bytes]
) -> None:
    mirror.clear()
    with pytest.raises(DataError) as caught:
        load(tmp_path, download=True)
    message = str(caught.value)
    assert message.startswith(f"{TRAIN_IMAGES}.gz cannot be downloaded: https://")
    assert message.count("no route to host") == len(fashion_mnist.MIRRORS)
    assert message.endswith("Name a folder with --data instead.")


def test_a_wrong_checksum_is_no_data(tmp_path: Path, mirror: dict[str, bytes]) -> None:
    mirror[f"{TRAIN_IMAGES}.gz"] = b"something else"
    with pytest.raises(DataError, match=f"the checksum of {TRAIN_IMAGES}.gz is wrong"):
        load(tmp_path, download=True)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, mirror: dict[str, bytes]) -> None:
    (tmp_path / "FashionMNIST").write_text("a file")
    with pytest.raises(DataError, match=r"FashionMNIST/raw cannot be written"):
        load(tmp_path, download=True)
