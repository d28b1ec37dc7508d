"""Import an ONNX model: check, report everything that is missing at once, convert node by node.

Initializers become constants; ``dim_param`` names become symbolic dims, one for each name.
External data is read from inside the model's own folder only.

Where the graph depends on data (a shape, the condition of an If, how many elements are not zero),
the import *asks*: it stops and gives a module that computes the value in question. With the answers
so far it is repeated, and goes on to the next question or to the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import onnx
from onnx import GraphProto, ModelProto, NodeProto

from ...graphir import ops
from ...graphir.builder import BlockBuilder
from ...graphir.expr import Atom, Tuple, Var
from ...graphir.module import IRModule
from ...support.call_form import CallForm, SizeRange
from ...support.errors import ArtifactError, BurnishError, FrontendError, TypeInferenceError
from ...support.file_kind import HEAD_BYTES, is_onnx, kind_of_file
from ..imported import Imported, InputTypes, KnownSizes, Question, RelatedSizes, SizeRelation
from . import (
    convert_contrib,
    convert_contrib_attention,
    convert_contrib_fused,
    convert_contrib_quantized,
    convert_control,
    convert_einsum,
    convert_elementary,
    convert_elementwise,
    convert_index,
    convert_nn,
    convert_norm,
    convert_quantized,
    convert_recurrent,
    convert_reduce,
    convert_resize,
    convert_sampling,
    convert_select,
    convert_sequence,
    convert_shape,
    convert_signal,
    convert_sort,
    convert_window,
)
from .aligned_sizes import aligned
from .fallback import Fallback
from .initializers import bind_initializers
from .registry import REGISTRY, Context, NeedsValueError, node_name
from .signature import Inputs, Outputs
from .size_bounds import BoundLearntError, learn
from .walk import all_nodes, convert_nodes, is_known, names_read, operator_name
from .well_formed import verify_well_formed

_CONVERTERS = (
    convert_contrib,
    convert_contrib_attention,
    convert_contrib_fused,
    convert_contrib_quantized,
    convert_control,
    convert_einsum,
    convert_elementary,
    convert_elementwise,
    convert_index,
    convert_nn,
    convert_norm,
    convert_quantized,
    convert_recurrent,
    convert_reduce,
    convert_resize,
    convert_sampling,
    convert_select,
    convert_sequence,
    convert_shape,
    convert_signal,
    convert_sort,
    convert_window,
)
_OPERATOR_ROWS = ops
_NO_VALUES = (InputTypes, KnownSizes, RelatedSizes)
OLDEST_OPSET = 6
"""Models of older ones are read where their operators are still the same in this one."""


def import_onnx(
    model: str | Path | bytes | ModelProto,
    answers: Sequence[Any] | None = None,
    *,
    fallback: str | None = None,
) -> Imported:
    """Import a model from a path, its bytes, or a ModelProto.

    With ``answers`` (none, at first) what is imported may be a question. Without, what would be
    asked for is an error. With ``fallback="onnx"`` nodes that cannot be compiled are environment
    functions, which run ONNX's reference evaluator.

    Raises FrontendError (a file that cannot be read, an opset that is too old, an input without a
    known rank or dtype) and UnsupportedOpError (all operators at once, with the node each was first
    seen at).
    """
    if isinstance(model, (str, Path)):
        model = Path(model).resolve()
    at_most: dict[str, int] = {}
    while True:
        try:
            return _import(model, answers, fallback, at_most)
        except BoundLearntError as bound:
            at_most[bound.name] = min(bound.most, at_most.get(bound.name, bound.most))


def _import(
    model: Path | bytes | ModelProto,
    answers: Sequence[Any] | None,
    fallback: str | None,
    at_most: Mapping[str, int],
) -> Imported:
    """Import with these bounds of symbolic dims. Raises BoundLearntError for one more."""
    proto, base_dir, source = load_proto(model)
    types = next((a for a in answers or () if isinstance(a, InputTypes)), None)
    asks_sizes = any(isinstance(a, KnownSizes) for a in answers or ())
    related = [a for a in answers or () if isinstance(a, RelatedSizes)]
    graph = proto.graph
    builder = BlockBuilder()
    context = Context(
        builder,
        _opsets(proto),
        base_dir,
        {(f.domain, f.name, f.overload): f for f in proto.functions},
        None if answers is None else [a for a in answers if not isinstance(a, _NO_VALUES)],
    )
    context.binds_sizes, context.align = not asks_sizes, aligned
    context.at_most = at_most
    context.fallback = None if fallback is None else Fallback(context.opsets)
    context.used = names_read(graph.node, [o.name for o in graph.output])
    nodes = all_nodes([*graph.node, *[n for f in proto.functions for n in f.node]])
    missing = [n for n in nodes if not is_known(context, n)]
    with_fallback = Fallback(context.opsets) if fallback is None else None
    REGISTRY.check(
        [(operator_name(n), node_name(n)) for n in missing],
        may_fall_back=with_fallback is not None and any(map(with_fallback.can_run, missing)),
    )
    verify_well_formed(proto, context.opsets)
    bind_initializers(context, graph, model)
    inputs = Inputs([v for v in graph.input if v.name not in context.values])
    may_ask_types = answers is not None and types is None
    if may_ask_types and inputs.is_open:
        return _ask(inputs, "types", "an input has no shape of its own", source)
    inputs.bind(context, types, {a.relation.name: a.relation.other for a in related if a.holds})
    context.may_ask_types = may_ask_types = may_ask_types and bool(inputs.dim_names)
    try:
        question, outputs, results = _convert_graph(context, inputs, graph)
    except BurnishError as error:
        if isinstance(error, TypeInferenceError) and error.is_of_dtypes:
            raise
        bound = learn(error, frozenset(inputs.dim_names))
        if bound is not None and bound.most < at_most.get(bound.name, bound.most + 1):
            raise bound from None
        known = all(a.holds for a in related)
        asked = inputs.relation(error) if may_ask_types and known else None
        if asked is not None:
            return _ask(inputs, asked, str(error), source)
        # Asked a second time, known sizes would be the same answer: then it is the inputs' types.
        asks_for_sizes = bool(context.sizes_of_data) and not asks_sizes
        if may_ask_types and (context.binds_shapes or not asks_for_sizes):
            return _ask(inputs, "types", str(error), source)
        if answers is None or not asks_for_sizes:
            raise
        return _ask(inputs, "sizes", f"a size of data must be known: {error}", source)
    ranges = inputs.ranges(at_most)
    is_plain = outputs is None or outputs.is_plain
    is_single = results == 1
    # Shapes tell programs apart when they are loaded; values would not.
    is_kept = is_plain and inputs.is_plain and question is None
    is_kept = is_kept and all(isinstance(a, (InputTypes, RelatedSizes)) for a in answers or ())
    return Imported(
        builder.get(),
        tuple([p.name for p in inputs.params]) if types else tuple(inputs.names),
        inputs.flattened(ranges),
        tuple if outputs is None else outputs.restore(),
        partial(_form, inputs, results, ranges, is_kept=is_kept),
        single_output=is_single and is_plain,
        bare_tuple=not is_single and is_plain,
        positional_only=is_plain and not ranges and not (types and inputs.is_open),
        dim_names=inputs.dim_names,
        source=source,
        notes=(
            *_newer(context.opset),
            *[f"dim {r.name} is at most {r.high}: no call of more is right." for r in ranges],
            *(context.fallback.notes if context.fallback else ()),
        ),
        functions=context.fallback.functions if context.fallback else {},
        variables={n: v.name for n, v in context.values.items() if isinstance(v, Var)},
        places={
            **context.look_ups,
            **{v.name: n for n, v in context.values.items() if isinstance(v, Var)},
        },
        question=question,
    )


def _convert_graph(
    context: Context, inputs: Inputs, graph: GraphProto
) -> tuple[Question | None, Outputs | None, int]:
    """Build ``main``: of the graph's outputs, or of what it asks for; and how many results it
    has."""
    builder = context.builder
    question, outputs = None, None
    with builder.function("main", inputs.params):
        with builder.dataflow():
            try:
                convert_nodes(context, graph.node)
                where = "the model's output"
                values = [context.lookup(o.name, where) for o in graph.output]
                outputs = Outputs(context, values, where)
                tensors: Sequence[Atom] = outputs.tensors
            except NeedsValueError as need:
                params: list[Atom] = [*inputs.params]
                wanted = params.index(need.atom) if need.atom in params else "output"
                question, tensors = Question(wanted, need.reason), [need.atom]
            results = [o if isinstance(o, Var) else builder.emit_output(o) for o in tensors]
        builder.emit_func_output(results[0] if len(results) == 1 else Tuple(tuple(results)))
    for name, function in context.functions_made.items():
        builder.update_func(name, function)
    return question, outputs, len(results)


def _ask(inputs: Inputs, wanted: str | SizeRelation, reason: str, source: str) -> Imported:
    """An import that waits for the types of a call's inputs or for a relation of their sizes, or is
    to be repeated with sizes of data that are known; its calls give their inputs as they are."""
    names = tuple(inputs.names)
    question = Question(wanted, reason)
    form = partial(_form, inputs, 1, (), is_kept=False)
    return Imported(
        *(IRModule(), names, inputs.nested(), tuple, form),
        source=source,
        declared=inputs.declared(),
        question=question,
    )


def _form(inputs: Inputs, results: int, ranges: Sequence[SizeRange], *, is_kept: bool) -> CallForm:
    """How calls look. Raises ArtifactError where that depends on what is called with."""
    if not is_kept:
        raise ArtifactError(
            "This ONNX model takes or gives sequences, optionals or numbers of narrow dtypes, or "
            "its program depends on values of its inputs; such a model cannot be saved."
        )
    return inputs.form(results, ranges)


# -- the file --------------------------------------------------------------------------------
def load_proto(model: str | Path | bytes | ModelProto) -> tuple[ModelProto, str, str]:
    """(the model, the folder of its external data, what it is called). Raises FrontendError."""
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
        raise _foreign(data, where, str(error)) from error
    if not proto.graph.output:
        raise _foreign(data, where, "its graph has no output")
    return proto


def _foreign(data: bytes, where: str, problem: str) -> FrontendError:
    """Of bytes that are no model."""
    head = data[:HEAD_BYTES]
    if is_onnx(head):
        return FrontendError(
            f"{where}: this is no ONNX model: it begins as one, and is damaged or cut off "
            f"({problem}). Export or fetch it once more."
        )
    kind, advice = kind_of_file(where, head)
    return FrontendError(f"{where}: this is no ONNX model: it is {kind}. {advice}".rstrip())


def _opsets(proto: ModelProto) -> dict[str, int]:
    """The version of each domain's operators."""
    versions = {o.domain: int(o.version) for o in proto.opset_import}
    opset = versions.get("", versions.get("ai.onnx"))
    if opset is None:
        raise FrontendError(
            "the model names no version of the ai.onnx operators. Set it: "
            'model.opset_import.add(domain="", version=...).'
        )
    for domain, version in versions.items():
        if not 1 <= version < 1 << 31:
            raise FrontendError(f"the domain {domain!r} has version {version}, which none has.")
    if opset < OLDEST_OPSET and any(_changed(n, opset) for n in all_nodes(proto.graph.node)):
        raise FrontendError(
            f"the model is of opset {opset}; burnish reads {OLDEST_OPSET} and later. "
            "Convert it with onnx.version_converter.convert_version."
        )
    return versions


def _newer(opset: int) -> list[str]:
    """A note on a model of operators that the installed onnx does not know yet."""
    newest = int(onnx.defs.onnx_opset_version())
    if opset <= newest:
        return []
    return [
        f"the model is of opset {opset}, and the installed onnx knows {newest}: its operators are "
        f"taken for those of {newest}."
    ]


def _changed(node: NodeProto, opset: int) -> bool:
    """Whether an operator is another one in the oldest opset that is read."""
    try:
        then, now = (onnx.defs.get_schema(node.op_type, v, "") for v in (opset, OLDEST_OPSET))
    except onnx.defs.SchemaError:
        return True
    return bool(then.since_version != now.since_version)
