"""What ONNX's reference evaluator computes, value by value, to verify a compiled model against.

It is written in NumPy and slow: some thousand times slower than a compiled convolution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper
from onnx.checker import ValidationError
from onnx.external_data_helper import load_external_data_for_model
from onnx.reference import ReferenceEvaluator

from ...support.errors import BurnishError, FrontendError
from ..imported import Imported
from ..reference import NodeValue, Reference
from .importer import import_onnx, load_proto


def onnx_reference(
    source: str | Path | bytes | ModelProto,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    fallback: str | None = None,
) -> Reference:
    """The values of a call of a model whose inputs and outputs are tensors.

    Raises what importing raises, and FrontendError where the evaluator fails.
    """
    proto = _proto(source)
    imported: Imported | None
    try:
        imported = import_onnx(source, fallback=fallback)
    except FrontendError:
        imported = None  # its program depends on values, or its inputs have no shapes of their own
    held = {i.name for i in proto.graph.initializer}
    names = [v.name for v in proto.graph.input if v.name not in held]
    given = _by_name(names, args, kwargs)
    feeds = {name: _as_array(x) for name, x in given.items()}
    try:
        known: Any = ReferenceEvaluator(proto).run(None, feeds, intermediate=True)
    except Exception as error:  # whatever an operator of the evaluator raises
        raise FrontendError(
            f"ONNX's reference evaluator fails on this model: {type(error).__name__}: {error}"
        ) from error
    outputs = [known[o.name] for o in proto.graph.output]
    if not all(isinstance(x, np.ndarray) for x in outputs):
        raise FrontendError("verify compares tensors; this model gives sequences or optionals.")
    values = [
        NodeValue(name, node.op_type, f"node {node.name!r}" if node.name else "", _stored(x))
        for node in proto.graph.node
        for name in node.output
        if name and isinstance(x := known.get(name), np.ndarray)
    ]
    # A program takes bfloat16 as the call had it: the evaluator's is of a package of its own.
    inputs = [given[n] if x.dtype.name == "bfloat16" else x for n, x in feeds.items()]
    return Reference(
        "ONNX's reference evaluator", imported, inputs, [_stored(x) for x in outputs], values
    )


def _proto(source: str | Path | bytes | ModelProto) -> ModelProto:
    """The model with its external data. Raises FrontendError."""
    proto, folder, name = load_proto(source)
    if folder:
        try:
            load_external_data_for_model(proto, folder)
        except (OSError, ValidationError) as error:
            raise FrontendError(f"{name}: its external data cannot be read: {error}") from error
    return proto


def _by_name(
    names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The inputs of a call, which took them: by position, by keyword, or as one dict."""
    if len(args) == 1 and isinstance(args[0], Mapping):
        return dict(args[0])
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _as_array(x: Any) -> np.ndarray:
    """An input as the evaluator takes it."""
    if hasattr(x, "detach"):
        x = x.detach().cpu()
    if isinstance(x, np.ndarray):
        return x
    if str(getattr(x, "dtype", "")).endswith("bfloat16"):
        # Exact both ways: NumPy itself has no such dtype, the evaluator's package has.
        wide = x.float().numpy() if hasattr(x, "float") else x.float32()
        return wide.astype(helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
    try:
        return np.asarray(x)
    except TypeError as error:
        raise BurnishError(f"verify: an input is no array for NumPy: {error}") from error


def _stored(x: np.ndarray) -> np.ndarray:
    """A value as the IR keeps it: bfloat16 as uint16."""
    return x.view(np.uint16) if x.dtype.name == "bfloat16" else x
