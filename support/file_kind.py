"""What a file that is not what was expected seems to be, by its first bytes, and what to do with it
then: errors say so. Nothing is decided by it.
"""

from __future__ import annotations

from pathlib import Path

HEAD_BYTES = 512
"""How much of a file tells."""

_SAVE = "Compile it and save it: burnish compile {0} -o FILE.burnish, or model.save(FILE)."
_EXPORT = "Export the model with torch.onnx.export, or compile it in Python: {0}."
_KINDS: tuple[tuple[int, bytes, str, str], ...] = (
    (
        *(0, b"BURNISH\n", "a model saved by burnish"),
        "burnish.load and the commands run, bench, profile and serve take it.",
    ),
    (
        *(0, b"version https://git-lfs", "a pointer of Git LFS, whose file was not fetched"),
        "Fetch it: git lfs pull.",
    ),
    (0, b"\x93NUMPY", "a NumPy array (.npy)", "Commands take it as --input."),
    (0, b"SQLite format 3\0", "an SQLite database", "The commands of burnish db read it."),
    (4, b"TFL3", "a TensorFlow Lite model", "Convert it to ONNX with tf2onnx."),
    (0, b"\x89HDF", "an HDF5 file, perhaps of Keras", "Convert its model to ONNX with tf2onnx."),
    (0, b"GGUF", "a GGUF file of weights", "Export the model that they belong to to ONNX."),
    (0, b"\x1f\x8b", "compressed by gzip", "Unpack it first: gunzip."),
)
"""Where some bytes stand, what files that have them there are, and what to do."""


def kind_of_file(path: Path | str, head: bytes) -> tuple[str, str]:
    """(what it seems to be, what to do with it, if anything) of a file that begins with ``head``,
    its first ``HEAD_BYTES`` bytes at most."""
    if not head:
        return "empty", ""
    for place, mark, kind, advice in _KINDS:
        if head[place : place + len(mark)] == mark:
            return kind, advice
    if head[:4] == b"PK\x03\x04":
        return _kind_of_archive(Path(path).suffix)
    if head[:1] == b"\x80" and head[1:2] <= b"\x05":
        return "a pickle, such as torch.save once wrote", _EXPORT.format("burnish.compile(module)")
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") < 1 << 40:
        return "a safetensors file of weights", _EXPORT.format("burnish.compile(module)")
    if is_onnx(head):
        return "an ONNX model, it seems", _SAVE.format(path)
    try:
        head[: HEAD_BYTES - 4].decode()
    except UnicodeDecodeError:
        return "of no kind that is known here", ""
    return ("of no kind that is known here" if b"\0" in head else "text"), ""


def is_onnx(head: bytes) -> bool:
    """Whether a file may be an ONNX model: it begins with the version of its IR, a field of one
    byte, and then another field."""
    return len(head) > 2 and head[0] == 8 and 3 <= head[1] < 32


def _kind_of_archive(suffix: str) -> tuple[str, str]:
    """Of a zip archive."""
    if suffix == ".pt2":
        return "an exported program of torch.export.save", _EXPORT.format(
            "burnish.compile(torch.export.load(FILE))"
        )
    if suffix in (".npz", ".keras"):
        return f"a zip archive ({suffix})", ""
    return "a zip archive, such as torch.save writes of weights or modules", _EXPORT.format(
        "burnish.compile(module)"
    )


__all__ = ["HEAD_BYTES", "is_onnx", "kind_of_file"]
