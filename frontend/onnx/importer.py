"""Import an ONNX model: check, report everything that is missing at once, convert node by node.

Initializers become constants; ``dim_param`` names become symbolic dims, one for each name.
Functions of the model are inlined first. External data is read from inside the model's own folder
only.
"""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx.inliner
from onnx import GraphProto, ModelProto, NodeProto, ValueInfoProto

from ...graphir import ops
from ...graphir.builder import BlockBuilder
from ...graphir.expr import Tuple, Var
from ...graphir.type import TensorType
from ...support.call_form import CallForm
from ...support.errors import BurnishError, FrontendError
from ...support.writer import NameTable
from ...tensorir.expr import Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ..imported import Imported
from . import (
    convert_einsum,
    convert_elementary,
    convert_elementwise,
    convert_index,
    convert_nn,
    convert_norm,
    convert_quantized,
    convert_reduce,
    convert_resize,
    convert_shape,
    convert_sort,
    convert_window,
)
from .initializers import bind_initializers
from .registry import REGISTRY, Context, import_dtype, node_name

_CONVERTERS = (
    convert_einsum,
    convert_elementary,
    convert_elementwise,
    convert_index,
    convert_nn,
    convert_norm,
    convert_quantized,
    convert_reduce,
    convert_resize,
    convert_shape,
    convert_sort,
    convert_window,
)
_OPERATOR_ROWS = ops
OLDEST_OPSET = 7


def import_onnx(model: str | Path | bytes | ModelProto) -> Imported:
    """Import a model from a path, its bytes, or a ModelProto.

    Raises FrontendError (a file that cannot be read, an opset that is too old, an input without a
    known rank or dtype) and UnsupportedOpError (all operators at once, with the node each was first
    seen at).
    """
    if isinstance(model, (str, Path)):
        model = Path(model).resolve()
    proto, base_dir, source = _load(model)
    opset = _opset(proto)
    if proto.functions:
        proto = onnx.inliner.inline_local_functions(proto)
    graph = proto.graph
    REGISTRY.check([(_operator(n), node_name(n)) for n in graph.node])
    builder = BlockBuilder()
    context = Context(builder, opset, base_dir)
    context.used = frozenset(
        [*(i for n in graph.node for i in n.input), *(o.name for o in graph.output)]
    )
    bind_initializers(context, graph, model)
    dims = _Dims()
    params = _bind_inputs(context, graph, dims)
    names = [v.name for v in graph.input if v.name not in {t.name for t in graph.initializer}]
    with builder.function("main", params):
        with builder.dataflow():
            for node in graph.node:
                _convert(context, node)
            where = "the model's output"
            outputs = [context.tensor(context.lookup(o.name, where), where) for o in graph.output]
            results = [o if isinstance(o, Var) else builder.emit_output(o) for o in outputs]
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    form = CallForm.plain(names, len(results), takes_dict=True)
    return Imported(
        builder.get(),
        form.names,
        form.flatten,
        form.unflatten,
        form=lambda: form,
        single_output=form.is_single,
        bare_tuple=form.is_tuple,
        dim_names=dims.names,
        source=source,
        variables={n: v.name for n, v in context.values.items() if isinstance(v, Var)},
    )


# -- the file --------------------------------------------------------------------------------
def _load(model: str | Path | bytes | ModelProto) -> tuple[ModelProto, str, str]:
    """(the model, the folder of its external data, what it is called)"""
    if isinstance(model, ModelProto):
        return model, "", "ONNX model"
    if isinstance(model, bytes):
        return _parse(model, "these bytes"), "", "ONNX bytes"
    path = Path(model)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise FrontendError(f"{path} cannot be read: {error.strerror}.") from error
    return _parse(data, str(path)), str(path.resolve().parent), path.name


def _parse(data: bytes, where: str) -> ModelProto:
    try:
        proto = onnx.load_model_from_string(data)
    except Exception as error:  # protobuf's own hierarchy differs between versions
        raise FrontendError(f"{where}: this is no ONNX model: {error}.") from error
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
    return int(opset)


def _operator(node: NodeProto) -> str:
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


# -- values ----------------------------------------------------------------------------------
def _bind_inputs(context: Context, graph: GraphProto, dims: _Dims) -> list[Var]:
    """A parameter for each input that is no initializer (old models list those too)."""
    names = NameTable()
    params: list[Var] = []
    for value in graph.input:
        if value.name in context.values:
            continue
        kind = _input_type(value, dims)
        params.append(Var(names.name(value.name, value.name), kind))
        context.values[value.name] = params[-1]
    return params


class _Dims:
    """Symbolic dims by the name the model gives them."""

    def __init__(self) -> None:
        self._names = NameTable()
        self._vars: dict[str, DimVar] = {}

    def get(self, name: str) -> DimVar:
        if name not in self._vars:
            self._vars[name] = DimVar(self._names.fresh(name))
        return self._vars[name]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple([v.name for v in self._vars.values()])


def _input_type(value: ValueInfoProto, dims: _Dims) -> TensorType:
    where = f"input {value.name!r}"
    if not value.type.HasField("tensor_type"):
        raise FrontendError(f"{where} is no tensor.")
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        raise FrontendError(
            f"{where} has no shape; export the model with one, or set it in graph.input. Dims may "
            "be symbolic."
        )
    shape: list[Expr] = []
    for i, d in enumerate(kind.shape.dim):
        if d.HasField("dim_value") and d.dim_value >= 0:
            shape.append(IntImm(d.dim_value))
            continue
        name = d.dim_param or f"{value.name}_dim{i}"
        if not isinstance(name, str):  # protobuf gives the bytes of what is no UTF-8
            raise FrontendError(f"{where}: the name of dim {i} is no text; the file is damaged.")
        shape.append(dims.get(name))
    return TensorType(tuple(shape), import_dtype(kind.elem_type, where))


def _convert(context: Context, node: NodeProto) -> None:
    """Bind the results of one node; every error says which node it was."""
    where = node_name(node)
    try:
        result = REGISTRY[_operator(node)](context, node)
    except BurnishError as error:
        if where not in str(error):
            raise error.note(f"while importing {where}") from None
        raise
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        # attributes of a wrong kind, axes out of range: the model breaks ONNX's rules
        raise FrontendError(f"{where} is not valid ONNX: {error}.") from error
    results = result if isinstance(result, (list, tuple)) else [result]
    for name, value in zip(node.output, results, strict=False):
        if name:
            context.values[name] = value
