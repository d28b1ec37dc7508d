"""The Open Inference protocol (KServe v2): requests to arrays, arrays to responses.

Bytes in, bytes out; nothing here knows of HTTP, of models or of threads. All that a request says is
checked, and nothing of it is evaluated. With the binary extension a body is JSON, as long as a
header says, then the tensors' bytes one behind the other, little-endian, in the order of the JSON.

Arrays are NumPy's, which has no bfloat16: of such a tensor they hold the bits, as uint16.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ...support.dtype import DType, bfloat16_bits
from ...support.errors import RequestError
from ...vm.storage import storage_dtype
from ...vm.tensor import Tensor

DATATYPES = {
    "bool": "BOOL",
    **{
        f"{sign}int{bits}": f"{sign}int{bits}".upper()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    },
    "bfloat16": "BF16",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
}
"""What the protocol calls dtypes."""

MAX_SIZE = 2**62


@dataclass(frozen=True)
class TensorForm:
    """An input or output of a model: sizes as texts, ``"batch"`` or ``"784"``."""

    name: str
    dtype: str
    shape: tuple[str, ...]

    def describe(self) -> dict[str, Any]:
        """Its metadata; sizes that vary are -1."""
        sizes = [int(text) if text.isdecimal() else -1 for text in self.shape]
        return {"name": self.name, "datatype": DATATYPES[self.dtype], "shape": sizes}

    @property
    def storage(self) -> np.dtype[Any]:
        """The dtype of its arrays."""
        return storage_dtype(DType(self.dtype))

    def stored(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers as its arrays hold them."""
        is_bits = self.dtype == "bfloat16"
        return bfloat16_bits(numbers) if is_bits else numbers.astype(self.storage)

    def numbers(self, stored: np.ndarray) -> np.ndarray:
        """The numbers that one of its arrays holds."""
        is_bits = self.dtype == "bfloat16"
        return Tensor(np.ascontiguousarray(stored), "bfloat16").float32() if is_bits else stored


@dataclass(frozen=True)
class InferRequest:
    """What was asked: inputs in the model's order; (name, binary) of each output wanted."""

    id: str | None
    arrays: tuple[np.ndarray, ...]
    outputs: tuple[tuple[str, bool], ...]


def parse_request(
    body: bytes,
    header_length: str | None,
    inputs: Sequence[TensorForm],
    outputs: Sequence[TensorForm],
) -> InferRequest:
    """A request for a model of these inputs and outputs; ``header_length`` is the header
    Inference-Header-Content-Length. Raises RequestError."""
    length = _header_length(header_length, len(body))
    known = _mapping(_parse_json(body[:length]), "the body")
    given: dict[str, Mapping[str, Any]] = {}
    for item in _listed(known, "inputs"):
        name = _name(item, "an input")
        if name in given:
            raise RequestError(f"input {name!r} is given twice.")
        given[name] = item
    _check_names(given, inputs)
    arrays: dict[str, np.ndarray] = {}
    forms, position = {form.name: form for form in inputs}, length
    for name, item in given.items():
        arrays[name], position = _read_tensor(item, forms[name], body, position)
    if position != len(body):
        raise RequestError(
            f"{len(body) - position} bytes are left behind the inputs: the sizes in the JSON and "
            "the body do not agree."
        )
    id_ = known.get("id")
    if id_ is not None and not isinstance(id_, str):
        raise RequestError(f"id: expected a string, found {_kind(id_)}.")
    in_order = tuple([arrays[form.name] for form in inputs])
    return InferRequest(id_, in_order, _wanted(known, [form.name for form in outputs]))


def format_response(
    model: str,
    request: InferRequest,
    results: Mapping[str, np.ndarray],
    outputs: Sequence[TensorForm],
) -> tuple[bytes, dict[str, str]]:
    """(body, headers) of the answer. Raises RequestError for a value that JSON cannot carry."""
    described, tail = [], []
    forms = {form.name: form for form in outputs}
    for name, binary in request.outputs:
        form, value = forms[name], results[name]
        item: dict[str, Any] = {
            "name": name,
            "datatype": DATATYPES[form.dtype],
            "shape": list(value.shape),
        }
        if binary:
            tail.append(value.tobytes())
            item["parameters"] = {"binary_data_size": value.nbytes}
        else:
            value = form.numbers(value)
            if value.dtype.kind == "f" and not np.isfinite(value).all():
                raise RequestError(
                    f"output {name!r} has infinities or NaN, which JSON cannot carry: ask for it "
                    "with binary_data.",
                )
            item["data"] = value.ravel().tolist()
        described.append(item)
    answer: dict[str, Any] = {"model_name": model, "outputs": described}
    if request.id is not None:
        answer["id"] = request.id
    head = json.dumps(answer, allow_nan=False).encode()
    if not tail:
        return head, {"content-type": "application/json"}
    headers = {
        "content-type": "application/octet-stream",
        "inference-header-content-length": str(len(head)),
    }
    return b"".join([head, *tail]), headers


def _header_length(text: str | None, size: int) -> int:
    if text is None:
        return size
    if not (text.isascii() and text.isdecimal()) or len(text) > 18 or int(text) > size:
        raise RequestError(
            f"Inference-Header-Content-Length: expected at most the body's {size} bytes, found "
            f"{text[:40]!r}."
        )
    return int(text)


def _parse_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the request is no JSON: {error}") from error


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise RequestError(f"{what}: expected a JSON object, found {_kind(value)}.")
    return value


def _listed(known: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = known.get(key)
    if not isinstance(value, list):
        raise RequestError(f"{key}: expected a list of tensors, found {_kind(value)}.")
    return [_mapping(item, f"{key}[{i}]") for i, item in enumerate(value)]


def _name(item: Mapping[str, Any], what: str) -> str:
    name = item.get("name")
    if not isinstance(name, str):
        raise RequestError(f"name of {what}: expected a string, found {_kind(name)}.")
    return name


def _check_names(given: Mapping[str, Any], inputs: Sequence[TensorForm]) -> None:
    names = [form.name for form in inputs]
    if set(given) != set(names):
        found = ", ".join(sorted(given))[:200] or "none"
        raise RequestError(f"expected the inputs {', '.join(names)}; found {found}.")


def _read_tensor(
    item: Mapping[str, Any], form: TensorForm, body: bytes, position: int
) -> tuple[np.ndarray, int]:
    """The array, and where the next one's bytes begin."""
    what, datatype = f"input {form.name!r}", DATATYPES[form.dtype]
    if item.get("datatype") != datatype:
        raise RequestError(
            f"{what}: expected datatype {datatype}, found {str(item.get('datatype'))[:40]!r}."
        )
    shape = _shape(item.get("shape"), form, what)
    parameters = _mapping(item.get("parameters", {}), f"parameters of {what}")
    size = parameters.get("binary_data_size")
    dtype = form.storage
    if size is None:
        return _from_json(item.get("data"), form, shape, what), position
    if "data" in item:
        raise RequestError(f"{what} has both data and binary_data_size: give one of them.")
    expected = prod(shape) * dtype.itemsize
    if type(size) is not int or size != expected:
        raise RequestError(
            f"{what}: {datatype}{list(shape)} has {expected} bytes, not {size!r:.40}."
        )
    if position + size > len(body):
        raise RequestError(f"{what}: the body ends {position + size - len(body)} bytes too early.")
    flat = np.frombuffer(body, np.uint8, size, position).copy()
    if dtype == np.bool_ and (flat > 1).any():
        raise RequestError(f"{what}: a byte of BOOL is neither 0 nor 1.")
    return flat.view(dtype).reshape(shape), position + size


def _shape(sizes: Any, form: TensorForm, what: str) -> tuple[int, ...]:
    fits = (
        isinstance(sizes, list)
        and len(sizes) == len(form.shape)
        and all(type(n) is int and 0 <= n <= MAX_SIZE for n in sizes)
        and all(not t.isdecimal() or int(t) == n for t, n in zip(form.shape, sizes, strict=True))
    )
    if not fits:
        raise RequestError(
            f"{what}: expected shape [{', '.join(form.shape)}], found {json.dumps(sizes)[:200]}."
        )
    return tuple(sizes)


_KINDS = {"b": "b", "i": "iu", "u": "iu", "f": "iuf"}
"""Kind of a dtype to those that JSON's values may have."""


def _from_json(data: Any, form: TensorForm, shape: tuple[int, ...], what: str) -> np.ndarray:
    datatype, kind = DATATYPES[form.dtype], "f" if "float" in form.dtype else form.storage.kind
    if not isinstance(data, list):
        raise RequestError(f"{what}: expected data, a list; found {_kind(data)}.")
    try:
        found = np.asarray(data)
    except (ValueError, OverflowError, RecursionError) as error:
        raise RequestError(f"{what}: its data is not of one shape: {error}") from error
    if found.size != prod(shape) or found.ndim not in (1, len(shape)):
        raise RequestError(f"{what}: shape {list(shape)} does not fit {found.size} values.")
    if found.ndim > 1 and found.shape != shape:
        raise RequestError(
            f"{what}: expected shape {list(shape)}, its data has {list(found.shape)}."
        )
    if not found.size:
        return np.zeros(shape, form.storage)
    if found.dtype.kind not in _KINDS[kind]:
        raise RequestError(f"{what}: its data are not all values of {datatype}.")
    if kind in "iu":
        limits = np.iinfo(form.storage)
        if int(found.min()) < limits.min or int(found.max()) > limits.max:
            raise RequestError(f"{what}: a value is out of the range of {datatype}.")
    with np.errstate(over="ignore"):
        converted = form.stored(found).reshape(shape)
    if kind == "f" and not np.isfinite(form.numbers(converted)).all():
        raise RequestError(
            f"{what}: a value is not finite in {datatype}; send such as binary data."
        )
    return converted


def _wanted(known: Mapping[str, Any], names: Sequence[str]) -> tuple[tuple[str, bool], ...]:
    parameters = _mapping(known.get("parameters", {}), "parameters")
    default = parameters.get("binary_data_output", False) is True
    if not known.get("outputs"):
        return tuple([(name, default) for name in names])
    wanted: dict[str, bool] = {}
    for item in _listed(known, "outputs"):
        name = _name(item, "an output")
        if name not in names or name in wanted:
            why = "is asked for twice" if name in wanted else "is none of " + ", ".join(names)
            raise RequestError(f"output {name[:80]!r} {why}.")
        own = _mapping(item.get("parameters", {}), f"parameters of output {name!r}")
        wanted[name] = own.get("binary_data", default) is True
    return tuple(wanted.items())


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


__all__ = ["DATATYPES", "InferRequest", "TensorForm", "format_response", "parse_request"]
