"""Fashion-MNIST, from wherever it is to be had: files, a download, or drawn by ourselves.

``load(data_dir)`` looks for the four IDX files of the data set in torchvision's folder layout
(``DIR/FashionMNIST/raw``, gzipped or not), then for ``fashion_mnist_900.npz``; with
``download=True`` it fetches the originals, checked by their MD5. Otherwise it uses ``garments``:
ten classes drawn with NumPy, so that everything runs without a network.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.errors import BurnishError
from .garments import draw_garments

CLASS_NAMES = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip

MIRRORS = (
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
)
FILES = {
    "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
}
"""The four files and the MD5 of their gzipped originals."""


class DataError(BurnishError, ValueError):
    """Data files that are missing, corrupt or do not fit each other."""


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
    """The data set; raises DataError for files that are corrupt, or absent from a named folder."""
    if download:
        folder = Path(data_dir or "data")
        fetch(folder)
        return _from_idx(folder / "FashionMNIST" / "raw")
    if data_dir is None:
        images, labels = draw_garments(4000, seed=seed)
        test_images, test_labels = draw_garments(900, seed=seed + 1)
        return FashionMNIST(
            test_images,
            test_labels,
            "garments drawn by burnish itself (no --data was given)",
            images,
            labels,
        )
    folder = Path(data_dir)
    for raw in (folder / "FashionMNIST" / "raw", folder):
        if any((raw / (name + end)).exists() for name in FILES for end in ("", ".gz")):
            return _from_idx(raw)
    if (folder / "fashion_mnist_900.npz").exists():
        return _from_npz(folder)
    raise DataError(
        f"{folder} holds neither FashionMNIST/raw/*-ubyte[.gz] nor fashion_mnist_900.npz. "
        "Name a folder that does, or pass --download, or neither to use drawn garments."
    )


def _read_idx(folder: Path, name: str) -> np.ndarray:
    path = folder / name
    packed = path.with_name(name + ".gz")
    if not path.exists() and not packed.exists():
        raise DataError(f"{path} (or {packed.name}) is missing.")
    try:
        data = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
        zero, kind, ndim = struct.unpack(">HBB", data[:4])
        shape = struct.unpack(f">{ndim}I", data[4 : 4 + 4 * ndim])
        values = np.frombuffer(data, np.uint8, offset=4 + 4 * ndim)
        if zero != 0 or kind != 8 or values.size != int(np.prod(shape)):
            raise ValueError(f"header says {shape}, the file holds {values.size} values")
        return values.reshape(shape)
    except (ValueError, struct.error, OSError, EOFError) as error:
        raise DataError(f"{path} is no IDX file of unsigned bytes: {error}.") from error


def _from_idx(raw: Path) -> FashionMNIST:
    arrays = [_read_idx(raw, name) for name in FILES]
    for images, labels in (arrays[:2], arrays[2:]):
        _check(images, labels, str(raw))
    return FashionMNIST(
        arrays[2], arrays[3], f"the Fashion-MNIST files in {raw}", arrays[0], arrays[1]
    )


def _from_npz(folder: Path) -> FashionMNIST:
    path = folder / "fashion_mnist_900.npz"
    weights: dict[str, np.ndarray] | None = None
    try:
        with np.load(path, allow_pickle=False) as data:
            images, labels = data["images"], data["labels"]
        mlp = folder / "fashion_mnist_mlp.npz"
        if mlp.exists():
            with np.load(mlp, allow_pickle=False) as data:
                weights = {key: data[key].astype(np.float32) for key in ("w0", "b0", "w1", "b1")}
    except (ValueError, KeyError, OSError, EOFError) as error:
        raise DataError(f"{folder}: the .npz files cannot be read: {error}.") from error
    _check(images, labels, str(path))
    return FashionMNIST(
        images, labels, f"{len(images)} Fashion-MNIST images in {path}", weights=weights
    )


def _check(images: np.ndarray, labels: np.ndarray, where: str) -> None:
    if images.ndim != 3 or images.shape[1:] != (28, 28) or images.dtype != np.uint8:
        raise DataError(
            f"{where}: expected uint8 images [N, 28, 28], found {images.dtype} {images.shape}."
        )
    if labels.shape != images.shape[:1] or (labels.size and int(labels.max()) > 9):
        raise DataError(f"{where}: expected {len(images)} labels below 10, found {labels.shape}.")


def fetch(folder: Path) -> None:
    """Download the four originals into ``folder/FashionMNIST/raw``; each is checked by its MD5."""
    raw = folder / "FashionMNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, digest in FILES.items():
        path = raw / (name + ".gz")
        if (
            path.exists()
            and hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest() == digest
        ):
            continue
        path.write_bytes(_fetch_one(name + ".gz", digest))


def _fetch_one(name: str, digest: str) -> bytes:
    reasons = []
    for mirror in MIRRORS:
        try:
            with urllib.request.urlopen(mirror + name, timeout=30) as response:
                data: bytes = response.read()
        except (urllib.error.URLError, OSError) as error:
            reasons.append(f"{mirror}: {error}")
            continue
        if hashlib.md5(data, usedforsecurity=False).hexdigest() == digest:
            return data
        reasons.append(f"{mirror}: the checksum of {name} is wrong")
    raise DataError(
        f"{name} cannot be downloaded: {'; '.join(reasons)}. Name a folder with --data instead."
    )
