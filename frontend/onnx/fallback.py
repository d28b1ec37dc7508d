"""Nodes that ONNX's reference evaluator runs, as environment functions: ``fallback="onnx"``.

    y = Scaler(x)   ->   y = R.call_dps_packed("onnx.ai.onnx.ml.Scaler.0", x)

The types of the results are those that onnx infers. Sizes that it does not infer are asked of a
call, which keeps its results until the memory for them is there:

    n = R.call_dps_packed("onnx.Foo.1", x)       runs the node, and gives the sizes of its results
    R.bind_size(n[0], [u])
    y = R.call_dps_packed("onnx.Foo.2", x, n)    copies what was kept into a tensor of u elements
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import NodeProto, ValueInfoProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from ...graphir.dim import dim_equal, static_value, substitute_dim
from ...graphir.expr import Atom, Constant
from ...graphir.type import TensorType
from ...support.dtype import DType
from ...support.errors import EnvironmentFunctionError, FrontendError
from ...tensorir.expr import Expr, IntImm
from ...tensorir.visitor import free_vars
from ..fallback import FallbackCalls
from .data_sizes import size_of
from .registry import DTYPES, MOST_SIZES, Context, Value, node_name
from .term import Term

_NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_EXAMPLE = 2
"""What a symbolic dim is where a node runs once to see what its results are."""

Shape = list[Expr | None]
"""Of a result; None is a size that a call tells."""


class Fallback(FallbackCalls):
    """The nodes of one program that run in ONNX's reference evaluator."""

    def __init__(self, opsets: Mapping[str, int]) -> None:
        super().__init__("onnx", "ONNX's reference evaluator")
        self._opsets = opsets
        self._dims: list[Expr] = []
        """Symbolic dims that onnx was told about, which knows them as d0, d1 ..."""

    def can_run(self, node: NodeProto) -> bool:
        """Whether the evaluator has the node's operator, and no graphs are inside of it."""
        if any(a.HasField("g") or a.graphs for a in node.attribute):
            return False
        try:
            ReferenceEvaluator(self._model(node, {}))
        except Exception:  # it has several, of no common class
            return False
        return True

    def emit(self, context: Context, node: NodeProto, operator: str) -> list[Value]:
        """Emit the call of a node. Raises FrontendError for operands and results that are no
        tensors of our dtypes, and for nodes whose results are not seen before a call."""
        where = node_name(node)
        operands = {n: context.tensor(context.lookup(n, where), where) for n in node.input if n}
        kinds = {n: context.type(a) for n, a in operands.items()}
        run = _Node(self._model(node, kinds), where, [str(k.dtype) for k in kinds.values()])
        results = self._results(context, node, operands, run)
        atoms, types = list(operands.values()), _known(results)
        is_open = types is None
        if types is None:
            count = IntImm(sum(len(shape) for shape, _ in results))
            kind = TensorType((count,), DType("int64"))
            (sizes,) = self.emit_call(context.builder, operator, run.sizes, atoms, [kind])
            # As an operand it keeps the second call behind the first.
            atoms.append(sizes)
            types = _bound(context, node, Term(context, sizes), results)
        function = run.kept if is_open else run.results
        made = iter(self.emit_call(context.builder, operator, function, atoms, types))
        self.note(operator, where, types)
        return [next(made) if o else None for o in node.output]

    # -- types ---------------------------------------------------------------------------------
    def _results(
        self, context: Context, node: NodeProto, operands: Mapping[str, Atom], run: _Node
    ) -> list[tuple[Shape, DType]]:
        """The results by onnx's inference; where that does not say how many dims there are, by
        what the node gives for zeros."""
        kinds = {n: context.type(a) for n, a in operands.items()}
        model = self._model(node, kinds)
        model.graph.initializer.extend(
            numpy_helper.from_array(context.array(a), n)
            for n, a in operands.items()
            if isinstance(a, Constant) and 0 < _elements(a) <= MOST_SIZES and a.type.dtype in _PLAIN
        )
        try:
            known = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
        except Exception as error:
            raise FrontendError(f"{run.where}: onnx infers no types for it: {error}") from error
        example: list[Any] | None = None
        found: list[tuple[Shape, DType]] = []
        for i, value in enumerate(known.graph.output):
            tensor = value.type.tensor_type
            if tensor.HasField("shape") and tensor.elem_type in DTYPES:
                found.append(([self._dim(d) for d in tensor.shape.dim], DTYPES[tensor.elem_type]))
                continue
            if example is None:
                example = run.example([_zeros(k) for k in kinds.values()])
            dtype = _dtype_of(example[i])
            if dtype is None:
                raise FrontendError(
                    f"{run.where}: ONNX's reference evaluator gives {value.name!r} as "
                    f"{_called(example[i])}; expected a tensor of {', '.join(DTYPES.values())}."
                )
            found.append(([None] * example[i].ndim, dtype))
        return found

    def _dim(self, dim: Any) -> Expr | None:
        if dim.HasField("dim_value"):
            return IntImm(dim.dim_value)
        names = {f"d{i}": d for i, d in enumerate(self._dims)}
        return names.get(dim.dim_param)

    def _model(self, node: NodeProto, kinds: Mapping[str, TensorType]) -> onnx.ModelProto:
        """A model of this node alone."""
        inputs = [self._info(name, kind) for name, kind in kinds.items()]
        outputs = [ValueInfoProto(name=o) for o in node.output if o]
        graph = helper.make_graph([node], "node", inputs, outputs)
        opsets = [helper.make_opsetid(domain, v) for domain, v in self._opsets.items()]
        return helper.make_model(graph, opset_imports=opsets)

    def _info(self, name: str, kind: TensorType) -> ValueInfoProto:
        dims: list[int | str] = []
        for dim in kind.shape:
            known = static_value(dim)
            if known is None:
                place = next((i for i, d in enumerate(self._dims) if dim_equal(d, dim)), None)
                if place is None:
                    place = len(self._dims)
                    self._dims.append(dim)
            dims.append(f"d{place}" if known is None else known)
        return helper.make_tensor_value_info(name, _NUMBERS[kind.dtype], dims)


def _known(results: Sequence[tuple[Shape, DType]]) -> list[TensorType] | None:
    """The types of results whose sizes are all known."""
    found: list[TensorType] = []
    for shape, dtype in results:
        dims = [d for d in shape if d is not None]
        if len(dims) < len(shape):
            return None
        found.append(TensorType(tuple(dims), dtype))
    return found


def _bound(
    context: Context, node: NodeProto, sizes: Term, results: Sequence[tuple[Shape, DType]]
) -> list[TensorType]:
    """The types of results, all sizes of which stand in a row; those that are not known get
    names."""
    found: list[TensorType] = []
    at = 0
    for shape, dtype in results:
        dims: list[Expr] = []
        for dim in shape:
            dims.append(size_of(context, sizes.at(0, at), node) if dim is None else dim)
            at += 1
        found.append(TensorType(tuple(dims), dtype))
    return found


class _Node:
    """One node as functions of the program's memory: inputs first, then outputs to write."""

    def __init__(self, model: onnx.ModelProto, where: str, dtypes: Sequence[str]) -> None:
        self._names = [v.name for v in model.graph.input]
        self._evaluator = ReferenceEvaluator(model)
        self._dtypes, self.where = dtypes, where
        self._held = threading.local()

    def _run(self, arrays: Sequence[Any]) -> list[Any]:
        given = [_as_onnx(x, kind) for x, kind in zip(arrays, self._dtypes, strict=True)]
        found: Any = self._evaluator.run(None, dict(zip(self._names, given, strict=True)))
        return [np.asarray(x) if isinstance(x, np.generic) else x for x in found]

    def example(self, arrays: Sequence[np.ndarray]) -> list[Any]:
        """What the node gives for these operands. Raises FrontendError where it fails."""
        try:
            return self._run(arrays)
        except Exception as error:  # whatever an operator of the evaluator raises
            raise FrontendError(
                f"{self.where}: onnx does not infer what it gives, and it does not run on zeros "
                f"either: {type(error).__name__}: {error}"
            ) from error

    def results(self, *tensors: Any) -> None:
        """Run, and copy the results."""
        self._copy(self._run(self._operands(tensors)), tensors[len(self._names) :])

    def sizes(self, *tensors: Any) -> None:
        """Run, keep the results for ``kept``, and write all their sizes into one vector."""
        self._held.results = found = self._run(self._operands(tensors))
        row = [n for x in found for n in np.shape(x)]
        out = tensors[-1].data
        if len(row) != out.size:
            raise EnvironmentFunctionError(
                f"{self.where} gave results of {len(row)} dims together; expected {out.size}, as "
                "it gives for zeros."
            )
        out[...] = row

    def kept(self, *tensors: Any) -> None:
        """Copy what the last run of this thread has left; its sizes are the last operand."""
        found, self._held.results = self._held.results, None
        self._copy(found, tensors[len(self._names) + 1 :])

    def _operands(self, tensors: Sequence[Any]) -> list[Any]:
        return [t.data for t in tensors[: len(self._names)]]

    def _copy(self, found: Sequence[Any], outs: Sequence[Any]) -> None:
        for out, value in zip(outs, found, strict=True):
            if _dtype_of(value) != out.dtype or value.shape != out.shape:
                raise EnvironmentFunctionError(
                    f"{self.where} gave {_called(value)}; expected a tensor of shape "
                    f"{tuple(out.shape)} and {out.dtype}, which onnx inferred."
                )
            out.data[...] = value.view(np.uint16) if out.dtype == "bfloat16" else value


_PLAIN = frozenset(DTYPES.values()) - {"bfloat16"}


def _elements(constant: Constant) -> int:
    count = 1
    for size in constant.shape:
        count *= size
    return count


def _zeros(kind: TensorType) -> np.ndarray:
    values = {v: IntImm(_EXAMPLE) for v in free_vars(kind.shape)}
    shape = [static_value(substitute_dim(d, values)) or 0 for d in kind.shape]
    return np.zeros(shape, "uint16" if kind.dtype == "bfloat16" else str(kind.dtype))


def _as_onnx(x: Any, dtype: str) -> np.ndarray:
    """An array of the program as the evaluator takes it."""
    return np.asarray(x.view(ml_dtypes.bfloat16) if dtype == "bfloat16" else x)


def _dtype_of(x: Any) -> DType | None:
    """Our dtype of what the evaluator gives; None where there is none."""
    name = x.dtype.name if isinstance(x, np.ndarray) else ""
    return DType(name) if name in _NUMBERS else None


def _called(x: Any) -> str:
    if not isinstance(x, np.ndarray):
        return f"a {type(x).__name__}"
    return f"a tensor of shape {x.shape} and {x.dtype}"
