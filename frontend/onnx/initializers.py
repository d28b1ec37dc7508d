"""The initializers of an ONNX model as weights, and where their values can be read once more.

What the compiler needs of a weight it copies into the program, in another layout. So no array is
held for who might ask for the weight as it was in the file: it is read again from there.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto

from ...graphir.weights import Source, sample_of
from ...support.aligned import aligned_copy
from .narrow import NARROW
from .registry import Context, Narrow, densified, values_of

Model: TypeAlias = Path | bytes | ModelProto


def bind_initializers(context: Context, graph: GraphProto, model: Model | None) -> None:
    """Bind each initializer to a constant of its name; ``model`` is None for a graph inside of
    another. Raises FrontendError for one that cannot be read."""
    for sparse in graph.sparse_initializer:
        name = sparse.values.name
        array, dtype = densified(sparse, f"initializer {name!r}")
        context.values[name] = context.builder.weights.add(name, aligned_copy(array), dtype)
    with _contents(model) as contents:
        end = 0
        for tensor in graph.initializer:
            where = f"initializer {tensor.name!r}"
            array, dtype = values_of(tensor, where, context.base_dir)
            read: Callable[[], np.ndarray] | None = None
            if tensor.data_location == TensorProto.EXTERNAL:
                own = TensorProto()  # a part of a model holds the whole
                own.CopyFrom(tensor)
                read = partial(_read, own, where, context.base_dir)
            elif isinstance(model, ModelProto):
                read = partial(_read, tensor, where)
            elif (raw := tensor.raw_data) and contents is not None and model is not None:
                # Tensors mostly stand in the order in which they are listed.
                place = max(contents.find(raw, end), 0) or contents.find(raw)
                end = place + len(raw)
                header = {"data_type": tensor.data_type, "dims": tuple(tensor.dims)}
                read = partial(_read_at, model, place, len(raw), header, where)
            source = None if read is None else Source(read, sample_of(array))
            made = context.builder.weights.add(tensor.name, aligned_copy(array), dtype, source)
            is_narrow = tensor.data_type in NARROW
            context.values[tensor.name] = Narrow(made, tensor.data_type) if is_narrow else made


@contextmanager
def _contents(model: Model | None) -> Iterator[bytes | mmap.mmap | None]:
    """The bytes of a model, those of a file without reading it; None for one that has none."""
    if not isinstance(model, Path):
        yield model if isinstance(model, bytes) else None
        return
    with model.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        yield data


def _read(tensor: TensorProto, where: str, base_dir: str = "") -> np.ndarray:
    return values_of(tensor, where, base_dir)[0]


def _read_at(
    model: Path | bytes, place: int, size: int, header: Mapping[str, Any], where: str
) -> np.ndarray:
    """The values of a tensor whose bytes stand at a place of the model."""
    with model.open("rb") if isinstance(model, Path) else BytesIO(model) as file:
        file.seek(place)
        return _read(TensorProto(**header, raw_data=file.read(size)), where)
