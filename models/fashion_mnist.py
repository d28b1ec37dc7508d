"""Fashion-MNIST, from wherever it is to be had: files, a download, or drawn by ourselves.

``load(data_dir)`` looks for the IDX files of the data set in torchvision's folder layout
(``DIR/FashionMNIST/raw``, gzipped or not), then for ``fashion_mnist_900.npz``; with
``download=True`` it fetches the originals, checked by their MD5. Otherwise it uses ``garments``:
ten classes drawn with NumPy, so that everything runs without a network. Nothing is normalised here.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import struct
import urllib.error
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np

from ..support.config import flag
from ..support.errors import DataError
from .garments import draw_garments

CLASS_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

MIRRORS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
FILES = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
"""The four files and the MD5 of their gzipped originals."""
WEIGHT_SHAPES = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
_UNREADABLE = (
    ValueError, KeyError, OSError, EOFError, struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(frozen=True)
class FashionMNIST:
    """``images`` uint8 [N, 28, 28] and ``labels`` uint8 [N] of the test set; a training set and
    trained ``weights`` (w0, b0, w1, b1 of the MLP) where the source has them."""

    images: np.ndarray
    labels: np.ndarray
    source: str
    """Where it came from, in words."""
    train_images: np.ndarray | None = None
    train_labels: np.ndarray | None = None
    weights: dict[str, np.ndarray] | None = None
    class_names: tuple[str, ...] = CLASS_NAMES


def load(
    data_dir: str | Path | None = None, *, download: bool = False, seed: int = 0
) -> FashionMNIST:
    """The data set from a folder, by default that of BURNISH_DATA; without one, drawn garments
    (4000 to train on, 900 to test).

    ``download=True`` fetches what the folder (``data`` unless named) does not hold yet. Raises
    DataError for files that are corrupt, absent from a named folder, or cannot be fetched.
    """
    data_dir = data_dir or flag("BURNISH_DATA")
    if download:
        folder = Path(data_dir or "data")
        fetch(folder)
        return _from_idx(folder / "FashionMNIST" / "raw")
    if data_dir is None:
        return _drawn(seed)
    folder = Path(data_dir)
    for raw in (folder / "FashionMNIST" / "raw", folder):
        if any(_is_there(raw, name) for name in FILES):
            return _from_idx(raw)
    if (folder / "fashion_mnist_900.npz").exists():
        return _from_npz(folder)
    raise DataError(
        f"{folder} holds neither FashionMNIST/raw/*-ubyte[.gz] nor fashion_mnist_900.npz. "
        "Name a folder that does, or pass --download, or neither to use drawn garments."
    )


def _drawn(seed: int) -> FashionMNIST:
    images, labels = draw_garments(900, seed=seed + 1)
    train_images, train_labels = draw_garments(4000, seed=seed)
    source = "garments drawn by burnish itself (no --data was given)"
    return FashionMNIST(images, labels, source, train_images, train_labels)


# -- IDX files ---------------------------------------------------------------------------------
def _is_there(folder: Path, name: str) -> bool:
    return (folder / name).exists() or (folder / f"{name}.gz").exists()


def _read_idx(folder: Path, name: str) -> np.ndarray:
    """An IDX file of unsigned bytes: 0 0 8 rank, the sizes (big-endian uint32), the values."""
    path = folder / name
    if not _is_there(folder, name):
        raise DataError(f"{path} (or {name}.gz) is missing.")
    path = path if path.exists() else folder / f"{name}.gz"
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        zero, kind, ndim = struct.unpack(">HBB", data[:4])
        shape = struct.unpack(f">{ndim}I", data[4 : 4 + 4 * ndim])
        values = np.frombuffer(bytearray(data), np.uint8, offset=4 + 4 * ndim)
        if zero != 0 or kind != 8 or values.size != prod(shape):
            raise ValueError(f"the header says {shape}, the file holds {values.size} values")
        return values.reshape(shape)
    except _UNREADABLE as error:
        raise DataError(f"{path} is no IDX file of unsigned bytes: {error}.") from error


def _from_idx(raw: Path) -> FashionMNIST:
    """The test set, and the training set unless both of its files are absent."""
    train_names, test_names = tuple(FILES)[:2], tuple(FILES)[2:]
    images, labels = (_read_idx(raw, name) for name in test_names)
    _check(images, labels, str(raw))
    source = f"the Fashion-MNIST files in {raw}"
    if not any(_is_there(raw, name) for name in train_names):
        return FashionMNIST(images, labels, source)
    train_images, train_labels = (_read_idx(raw, name) for name in train_names)
    _check(train_images, train_labels, str(raw))
    return FashionMNIST(images, labels, source, train_images, train_labels)


# -- .npz files --------------------------------------------------------------------------------
def _from_npz(folder: Path) -> FashionMNIST:
    """``fashion_mnist_900.npz`` (images, labels), and the weights in ``fashion_mnist_mlp.npz``."""
    path, mlp = folder / "fashion_mnist_900.npz", folder / "fashion_mnist_mlp.npz"
    images, labels = _read_npz(path, ("images", "labels"))
    _check(images, labels, str(path))
    weights: dict[str, np.ndarray] | None = None
    if mlp.exists():
        arrays = _read_npz(mlp, tuple(WEIGHT_SHAPES))
        weights = {k: a.astype(np.float32) for k, a in zip(WEIGHT_SHAPES, arrays, strict=True)}
        found = {k: a.shape for k, a in weights.items()}
        if found != WEIGHT_SHAPES:
            raise DataError(f"{mlp}: expected the weights {WEIGHT_SHAPES}, found {found}.")
    source = f"{len(images)} Fashion-MNIST images in {path}"
    return FashionMNIST(images, labels.astype(np.uint8), source, weights=weights)


def _read_npz(path: Path, names: tuple[str, ...]) -> list[np.ndarray]:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            return [data[name] for name in names]
    except (*_UNREADABLE, TypeError, AttributeError) as error:
        raise DataError(f"{path} is no .npz file with {', '.join(names)}: {error}.") from error


def _check(images: np.ndarray, labels: np.ndarray, where: str) -> None:
    if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise DataError(
            f"{where}: expected uint8 images [N, 28, 28], found {images.dtype} {images.shape}."
        )
    wrong = labels.shape != images.shape[:1] or labels.dtype.kind not in "iu"
    if wrong or (labels.size and not 0 <= int(labels.min()) <= int(labels.max()) <= 9):
        raise DataError(
            f"{where}: expected {len(images)} labels from 0 to 9, found {labels.dtype} "
            f"{labels.shape}."
        )


# -- download ----------------------------------------------------------------------------------
def fetch(folder: Path) -> None:
    """Download the four originals into ``folder/FashionMNIST/raw``; each is checked by its MD5.

    Files that are there and whole are kept. Raises DataError where no mirror answers with the right
    contents, or the folder cannot be written.
    """
    raw = folder / "FashionMNIST" / "raw"
    try:
        raw.mkdir(parents=True, exist_ok=True)
        for name, digest in FILES.items():
            path = raw / f"{name}.gz"
            if not path.exists() or _md5(path.read_bytes()) != digest:
                path.write_bytes(_fetch_one(f"{name}.gz", digest))
    except OSError as error:
        raise DataError(f"{raw} cannot be written: {error.strerror}.") from error


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _fetch_one(name: str, digest: str) -> bytes:
    reasons = []
    for mirror in MIRRORS:
        try:
            with urllib.request.urlopen(mirror + name, timeout=30) as response:
                data: bytes = response.read()
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reasons.append(f"{mirror}: {error}")
            continue
        if _md5(data) == digest:
            return data
        reasons.append(f"{mirror}: the checksum of {name} is wrong")
    raise DataError(
        f"{name} cannot be downloaded: {'; '.join(reasons)}. Name a folder with --data instead."
    )
