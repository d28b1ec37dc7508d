"""Import an ONNX model: check, report everything that is missing at once, convert node by node.

Initializers become constants; ``dim_param`` names become symbolic dims. External data is read from
inside the model's own folder only.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
from onnx import ModelProto, NodeProto, ValueInfoProto

from ...graphir.builder import BlockBuilder
from ...graphir.expr import Constant, Tuple, Var
from ...graphir.type import TensorType
from ...support.errors import ArityError, BurnishError, FrontendError, nearest
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ..imported import Imported
from . import convert_elementwise, convert_nn, convert_reduce, convert_shape
from .registry import REGISTRY, Context, import_dtype, node_name, tensor_constant

_CONVERTERS = (convert_elementwise, convert_nn, convert_reduce, convert_shape)
OLDEST_OPSET = 7


def import_onnx(model: str | Path | bytes | ModelProto) -> Imported:
    """Import a model from a path, its bytes, or a ModelProto.

    Raises FrontendError (a file that cannot be read, an opset that is too old, an input without a known
    rank or dtype) and UnsupportedOpError (all operators at once, with the node each was first seen at).
    """
    proto, base_dir, source = _load(model)
    opset = _opset(proto)
    graph = proto.graph
    REGISTRY.check([(_operator(n), node_name(n)) for n in graph.node])
    builder = BlockBuilder()
    context = Context(builder, opset)
    context.base_dir = base_dir
    for tensor in graph.initializer:
        _check_external(tensor, base_dir)
        context.values[tensor.name] = tensor_constant(tensor, f"initializer {tensor.name!r}", base_dir)
    dims: dict[str, DimVar] = {}
    params: list[Var] = []
    for value in graph.input:
        if value.name in context.values:
            continue
        var = Var(builder.unique(_identifier(value.name)), _input_type(value, dims))
        params.append(var)
        context.values[value.name] = var
    names = [v.name for v in graph.input if not isinstance(context.values[v.name], Constant)]
    with builder.function("main", params):
        with builder.dataflow():
            for node in graph.node:
                _convert(context, node)
            outputs = [context.tensor(context.values[o.name], graph.node[-1]) for o in graph.output]
            results = [o if isinstance(o, Var) else builder.emit_output(o) for o in outputs]
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    return Imported(
        builder.get(),
        tuple([p.name for p in params]),
        _flattener(names),
        tuple,
        single_output=len(graph.output) == 1,
        dim_names=tuple(dims),
        source=source,
    )


def _load(model: str | Path | bytes | ModelProto) -> tuple[ModelProto, str, str]:
    if isinstance(model, ModelProto):
        return model, "", "ONNX model"
    if isinstance(model, bytes):
        proto, base_dir, source = _parse(model, "these bytes"), "", "ONNX bytes"
    else:
        path = Path(model)
        try:
            data = path.read_bytes()
        except OSError as error:
            raise FrontendError(f"{path} cannot be read: {error.strerror}.") from error
        proto, base_dir, source = _parse(data, str(path)), str(path.resolve().parent), path.name
    return proto, base_dir, source


def _parse(data: bytes, where: str) -> ModelProto:
    try:
        proto = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own hierarchy differs between versions
        raise FrontendError(f"{where}: this is no ONNX model: {error}") from error
    if not proto.graph.output:
        raise FrontendError(f"{where}: this is no ONNX model: its graph has no output.")
    return proto


def _opset(proto: ModelProto) -> int:
    versions = {o.domain: o.version for o in proto.opset_import}
    opset = versions.get("", versions.get("ai.onnx"))
    if opset is None:
        raise FrontendError("the model names no version of the ai.onnx operators.")
    if opset < OLDEST_OPSET:
        raise FrontendError(
            f"the model is of opset {opset}; burnish reads {OLDEST_OPSET} and later. "
            "Convert it with onnx.version_converter.convert_version."
        )
    return opset


def _operator(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def _convert(context: Context, node: NodeProto) -> None:
    try:
        result = REGISTRY[_operator(node)](context, node)
    except BurnishError as error:
        raise error.note(f"while importing {node_name(node)}") from None
    results = result if isinstance(result, (list, tuple)) else [result]
    for name, value in zip(node.output, results, strict=False):
        if name:
            context.values[name] = value


def _input_type(value: ValueInfoProto, dims: dict[str, DimVar]) -> TensorType:
    kind = value.type.tensor_type
    where = f"input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise FrontendError(f"{where} is no tensor.")
    if not kind.HasField("shape"):
        raise FrontendError(f"{where} has no shape; give it one with onnx.shape_inference or at export.")
    shape: list[Expr] = []
    for i, d in enumerate(kind.shape.dim):
        if d.HasField("dim_value"):
            shape.append(IntImm(d.dim_value))
        else:
            name = _identifier(d.dim_param) if d.dim_param else f"{_identifier(value.name)}_dim{i}"
            shape.append(dims.setdefault(name, DimVar(name)))
    return TensorType(tuple(shape), import_dtype(kind.elem_type, where))


def _identifier(name: str) -> str:
    """A name as a Python identifier."""
    text = "".join(c if c.isalnum() or c == "_" else "_" for c in name)
    return text if text and not text[0].isdigit() else f"_{text}"


def _check_external(tensor: onnx.TensorProto, base_dir: str) -> None:
    """External data must lie inside the model's folder, symbolic links resolved."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return
    where = f"initializer {tensor.name!r}"
    if not base_dir:
        raise FrontendError(f"{where} keeps its data in another file; pass the model's path instead of its bytes.")
    location = next((e.value for e in tensor.external_data if e.key == "location"), "")
    folder = Path(base_dir).resolve()
    path = (folder / location).resolve()
    if not path.is_relative_to(folder):
        raise FrontendError(f"{where}: its data file {location!r} lies outside the model's folder.")
    if not path.is_file():
        raise FrontendError(f"{where}: its data file {location!r} is missing.")


def _flattener(names: list[str]) -> Any:
    def flatten(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping):
            args, kwargs = (), args[0]
        unknown = [k for k in kwargs if k not in names]
        if unknown:
            raise ArityError(
                f"the model has no input {unknown[0]!r}; it has {', '.join(names)}.{nearest(unknown[0], names)}"
            )
        given = dict(zip(names, args, strict=False)) | dict(kwargs)
        if len(args) + len(kwargs) != len(names) or len(given) != len(names):
            raise ArityError(
                f"the model takes {len(names)} input{'s' if len(names) != 1 else ''} ({', '.join(names)}); "
                f"got {len(args) + len(kwargs)}."
            )
        return [given[n] for n in names]

    return flatten
