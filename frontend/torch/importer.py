"""Import a torch module: torch.export, then one converter a node, emitted in A-normal form.

    module --export--> ExportedProgram --prepare--> pure, decomposed where a converter is missing
           --check--> all missing operators at once --converters--> IRModule with constants

Parameters and buffers become constants; large ones share the tensors' memory. Symbolic dims keep
the names users gave them, and mean every size from 0 up. Nothing is optimised here.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import GraphModule, Node

from ...graphir import ops
from ...graphir.builder import BlockBuilder
from ...graphir.dim import dim_equal
from ...graphir.expr import Constant, Tuple, Var
from ...support.errors import BurnishError, FrontendError, TypeInferenceError
from ...support.node import walk
from ...tensorir.arith.evaluate import evaluate
from ...tensorir.expr import Add, Expr, IntImm
from ...tensorir.expr import Var as DimVar
from ...tensorir.text.dim_text import print_dim
from ...tensorir.visitor import free_vars
from ..imported import Imported, IndexRange
from . import (
    convert_control,
    convert_create,
    convert_elementary,
    convert_elementwise,
    convert_flex_attention,
    convert_index,
    convert_nn,
    convert_norm,
    convert_recurrent,
    convert_reduce,
    convert_refused,
    convert_resize,
    convert_scatter,
    convert_shape,
    convert_sort,
    convert_window,
    named_pools,
    numbers_of_data,
)
from .assignments import names_of_tensors
from .check_sizes import program_inputs
from .complex_leaves import ComplexLeaves
from .complex_pairs import BORDERS
from .convert_index import refuses_negative
from .decompose import all_operators, prepare_program
from .dynamic_shapes import ExportPlan
from .eager_check import check_eager
from .export import check_eval_mode, export_lock, export_module
from .fallback import Fallback, can_fall_back, has_complex, must_fall_back, real_of
from .known_types import caches_in
from .registry import REGISTRY, Context, import_dtype, line_of, location, operator_name
from .scripted_modules import without_script
from .structure import CallStructure, DimRange, SizeCondition, is_program_output
from .symbols import NoDim, SymbolTable, symbols_of

_CONVERTERS = (
    convert_control,
    convert_create,
    convert_elementary,
    convert_elementwise,
    convert_flex_attention,
    convert_index,
    convert_nn,
    convert_norm,
    convert_recurrent,
    convert_reduce,
    convert_refused,
    convert_resize,
    convert_scatter,
    convert_shape,
    convert_sort,
    convert_window,
    named_pools,
    numbers_of_data,
)
_OPERATOR_ROWS = ops

_LARGE = 2**20
"""A size at which the dims made of a name are beyond all bounds that it may be no less than."""
_MOST_ALIKE = 16
"""Sizes that are supposed to be others, of one program."""


_PACKED = ("torch.ao.nn.quantized", "torch.ao.nn.intrinsic.quantized")
"""Where the layers of torch's eager-mode quantization are defined."""
_WEIGHTS = ("_packed_params", "_all_weight_values")
"""Attributes that hold packed weights."""


def _refuse_packed_weights(module: torch.nn.Module) -> None:
    """Raise FrontendError where a layer's weights are in the form of torch's own kernels."""
    for name, layer in module.named_modules():
        kind = type(layer)
        if kind.__module__.startswith(_PACKED) and any(hasattr(layer, n) for n in _WEIGHTS):
            raise FrontendError(
                f"{name or kind.__name__!r} is a {kind.__module__}.{kind.__name__}, of torch's "
                "eager-mode quantization, whose weights are packed for torch's own kernels. "
                "Quantize the float module instead: burnish.quantize(module, samples), torchao's "
                "quantize_, or torch's prepare_pt2e and convert_pt2e."
            )


def import_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any],
    dynamic_shapes: Any = None,
    *,
    example_kwargs: Mapping[str, Any] | None = None,
    fallback: str | None = None,
) -> Imported:
    """Import an ``nn.Module`` at the shapes and dtypes of ``example_inputs``.

    ``dynamic_shapes`` takes torch.export's forms, and plain names in them: ``({0: "batch"},)`` or
    ``{"input": {0: "batch"}}``. A name stands for every size from 0 up. Raises FrontendError
    (module in training mode, module that does not export or fails on these inputs itself, inputs
    that are no CPU tensors of a known dtype) and UnsupportedOpError (all at once). Buffers and
    inputs that ``forward()`` changes in place are changed by the compiled model. With
    ``fallback="torch"`` operators without a converter are environment functions, which run torch's.
    """
    start = time.perf_counter()
    module = without_script(module)
    _refuse_packed_weights(module)
    try:
        with export_lock:
            program, plan = export_module(module, example_inputs, example_kwargs, dynamic_shapes)
        exported = time.perf_counter()
        imported = import_exported_program(
            program,
            places=plan.places,
            least=plan.least,
            parameters=plan.parameters,
            conditions=_conditions(plan),
            source=f"torch {type(module).__name__}",
            fallback=fallback,
        )
    except (FrontendError, TypeInferenceError) as error:
        # With a cause, it is what the module's own code raised on torch's fake tensors.
        if isinstance(error, TypeInferenceError) or error.__cause__ is not None:
            check_eager(module, example_inputs, example_kwargs or {})
        raise
    names = {} if not imported.state else names_of_tensors(module)
    return replace(
        imported,
        seconds={"torch.export": exported - start, **imported.seconds},
        notes=(
            *imported.notes,
            *([_frozen("the script", plan.scripted)] if plan.scripted else ()),
            *([_frozen("forward()", plan.assigned)] if plan.assigned else ()),
            *([_unsaid(plan.unsaid)] if plan.unsaid else ()),
            *([_turns(plan.turns)] if plan.turns else ()),
            *[_sampled(name, sizes) for name, sizes in plan.sampled],
            *map(_kept, caches_in((example_inputs, example_kwargs))),
        ),
        state=tuple(
            [names.get(id(x), n) for n, x in zip(imported.state, imported.held, strict=True)]
        ),
    )


def _conditions(plan: ExportPlan) -> list[SizeCondition]:
    places: dict[str, tuple[int, int, int, int]] = {}
    for (i, axis, extent), (_, _, name) in zip(plan.extents, plan.places, strict=True):
        factor = extent(_LARGE + 1) - extent(_LARGE)
        places.setdefault(name, (i, axis, factor, extent(_LARGE) - factor * _LARGE))
    return [
        SizeCondition(text, names, tuple([places[name] for name in names]))
        for text, names in plan.conditions
    ]


def _frozen(who: str, written: Sequence[str]) -> str:
    """A note on attributes that a module sets, which calls of the model do not."""
    names = ", ".join(written)
    return (
        f"{who} writes {names}: the model's calls do not, and read what was there when it was "
        "compiled. Buffers that are written in place (self.count.add_(1)) are kept up."
    )


def _kept(kind: str) -> str:
    """A note on an input that eager changes, and calls of the model do not."""
    return (
        f"a {kind} among the inputs stays as it is: what forward() adds to it is in the one that a "
        "call returns."
    )


def _turns(loops: Sequence[tuple[str, int]]) -> str:
    shown = ", ".join([f"{turns} at {place}" for place, turns in loops])
    return (
        f"loops over the places that data tell take all their turns in each call ({shown}), of "
        "which those count whose flag is set."
    )


def _sampled(name: str, sizes: Sequence[int]) -> str:
    return (
        f"forward() takes other branches for some sizes of {name} than for the example: the "
        f"program, which is one for all, was compared with it at {', '.join(map(str, sizes))}."
    )


def _unsaid(places: Sequence[str]) -> str:
    return (
        f"forward() prints, warns or logs for some values at {', '.join(places)}: the model's "
        "calls do not."
    )


def import_exported_program(
    program: ExportedProgram,
    *,
    places: Sequence[tuple[int, int, str]] = (),
    least: Mapping[tuple[int, int], int] | None = None,
    parameters: Sequence[str] = (),
    conditions: Sequence[SizeCondition] = (),
    source: str = "torch program",
    fallback: str | None = None,
) -> Imported:
    """Import a torch.export program; errors as for ``import_module``.

    ``places`` names dims: (leaf of the inputs, axis, name). Without it dims have torch's names.
    ``least`` has the least sizes that a user has stated, by (leaf, axis). ``conditions`` are
    checked by each call.
    """
    start = time.perf_counter()
    read = numbers_of_data.read_by_program(program)
    with export_lock:
        program = prepare_program(program, falls_back=fallback is not None)
    nodes = [n for n in all_operators(program) if fallback is None or not can_fall_back(n)]
    REGISTRY.check([(_checked_name(n), location(n)) for n in nodes], may_fall_back=True)
    equal = EqualSizes()
    while True:
        try:
            made = _imported(
                program,
                places,
                least or {},
                parameters,
                tuple(conditions),
                source,
                fallback,
                equal,
                read,
            )
        except TypeInferenceError as error:
            symbols = _symbols(program, places)
            equal = _merged(error, equal, symbols, _example_sizes(program, symbols))
        else:
            return replace(made, seconds={"import": time.perf_counter() - start})


@dataclass(frozen=True)
class EqualSizes:
    """Sizes that a call must have equal, by the names of two dims, and as arithmetic on dims: that
    which is kept, and that which it stands for."""

    names: tuple[tuple[str, str], ...] = ()
    sizes: tuple[tuple[Expr, Expr], ...] = ()


def _checked_name(node: Node) -> str:
    """The name that a node needs a converter by: those of operators are for real numbers."""
    name = operator_name(node)
    if name in BORDERS or name not in REGISTRY.names or not has_complex(node):
        return name
    return name if name == "operator.getitem" else f"{name} of complex numbers"


def _merged(
    error: TypeInferenceError, equal: EqualSizes, symbols: SymbolTable, example: Mapping[str, int]
) -> EqualSizes:
    """With two sizes that an operator needs to be one, and of which torch does not say that they
    are: a call checks it. A size that is 1 in the ``example``, beside one that is not, is 1. Raises
    the error where it is about anything else."""
    a, b = error.dims or (None, None)
    while isinstance(a, Add) and isinstance(b, Add) and dim_equal(a.b, b.b):
        a, b = a.a, b.a  # a cache that has grown by as much as another one
    if not isinstance(a, Expr) or not isinstance(b, Expr):
        raise error
    if not {v.name for v in free_vars([a, b])} <= set(symbols.dim_names):
        raise error  # a size that data tell
    if isinstance(a, DimVar) and isinstance(b, DimVar):
        pair = (a.name, b.name)
        if pair in equal.names:
            raise error
        return replace(equal, names=(*equal.names, pair))
    kept, gone = sorted((a, b), key=lambda e: sum(1 for _ in walk(e)))
    ones = [e for e in (a, b) if _value_in(example, e) == 1]
    if len(ones) == 1 and free_vars(ones):
        kept, gone = IntImm(1), ones[0]
    elif not free_vars([kept]):
        raise error
    known = [dim_equal(symbols.own(x), symbols.own(gone)) for _, x in equal.sizes]
    if any(known) or len(equal.sizes) == _MOST_ALIKE:
        raise error
    return replace(equal, sizes=(*equal.sizes, (kept, gone)))


def _example_sizes(program: ExportedProgram, symbols: SymbolTable) -> dict[str, int]:
    """The sizes of the example that a program was traced with, by the names of dims."""
    found: dict[str, int] = {}
    for size in [s for f in _input_fakes(program) for s in _sizes(f)]:
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.has_hint():
            dim = symbols.expression(size.node.expr)
            if isinstance(dim, DimVar):
                found[dim.name] = int(size.node.hint)
    return found


def _value_in(example: Mapping[str, int], dim: Expr) -> int | None:
    """The value of a dim in the example; None where that is not known."""
    if not all(v.name in example for v in free_vars([dim])):
        return None
    return int(evaluate(dim, lambda e: example[cast(DimVar, e).name]))


def _symbols(
    program: ExportedProgram,
    places: Sequence[tuple[int, int, str]],
    equal: EqualSizes | None = None,
) -> SymbolTable:
    """The dims of a program's inputs."""
    fakes = _input_fakes(program)
    found = symbols_of([s for f in fakes for s in _sizes(f)])
    supposed = numbers_of_data.supposed_equal(program)
    equal = equal or EqualSizes()
    return SymbolTable(found, _names(fakes, places), equal.names, supposed, equal.sizes)


def _imported(
    program: ExportedProgram,
    places: Sequence[tuple[int, int, str]],
    least: Mapping[tuple[int, int], int],
    parameters: Sequence[str],
    conditions: tuple[SizeCondition, ...],
    source: str,
    fallback: str | None,
    equal: EqualSizes,
    read: Set[str],
) -> Imported:
    """The import of a program that is pure and known; ``equal`` sizes are one, and ``read``
    are torch's symbols of what it reads out of data itself."""
    structure = CallStructure.of(program, parameters)
    fakes = _input_fakes(program)
    symbols = _symbols(program, places, equal)
    structure.ranges = _ranges(program, fakes, symbols, least)
    structure.conditions = conditions
    builder = BlockBuilder()
    context = Context(builder, symbols)
    context.fallback = None if fallback is None else Fallback()
    context.asserted = set(read)
    context.sizes_in_shapes = numbers_of_data.sizes_in_shapes(program)
    context.run_graph = partial(_run_graph, context)
    changed = _changed(program)
    params, state = _bind_placeholders(program, context, changed)
    border = ComplexLeaves.of(program, structure, changed)
    inputs = [*params.values(), *[s.var for s in state.values()]]
    held = [s.tensor for s in state.values()]
    with builder.function("main", inputs):
        with builder.dataflow():
            for kept, gone in symbols.alike:
                numbers_of_data.check_equal(context, kept, gone)
            for node in program.graph.nodes:
                _convert(program.graph_module, program.constants, context, node)
            leaves = _outputs(program, context, structure)
        builder.emit_func_output(leaves[0] if len(leaves) == 1 else Tuple(tuple(leaves)))
    for name, function in context.functions_made.items():
        builder.update_func(name, function)
    module = builder.get()
    values = {n: v.name for n, v in context.values.items() if isinstance(v, Var)}
    return Imported(
        module,
        tuple([p.name for p in inputs]),
        lambda args, kwargs: [*border.flatten(args, kwargs), *held],
        border.unflatten,
        form=border.form,
        numbers=structure.numbers,
        single_output=structure.is_single and not border.outputs,
        bare_tuple=structure.is_tuple and not border.outputs,
        positional_only=structure.is_flat and not changed and not border.inputs,
        state=tuple([s.name for s in state.values()]),
        held=tuple(held),
        written=tuple([[*params, *state].index(n) for n in changed]),
        dim_names=symbols.dim_names,
        source=source,
        notes=(
            *[_describe(r) for r in structure.ranges],
            *[
                f"forward() takes another branch where not {c.said}: a call of such sizes is "
                "refused."
                for c in conditions
            ],
            *[
                f"sizes {a} and {b} must be equal: a call of others is refused."
                for a, b in (*equal.names, *[map(print_dim, pair) for pair in symbols.alike])
            ],
            *([_of_data(list(context.sizes.values()))] if context.sizes else ()),
            *(context.fallback.notes if context.fallback else ()),
        ),
        functions=context.fallback.functions if context.fallback else {},
        variables=values,
        places={
            **{name: line_of(n) for name, n in context.look_ups.items()},
            **{values[n.name]: line_of(n) for n in program.graph.nodes if n.name in values},
        },
        index_ranges={
            **{v: IndexRange() for v, n in context.look_ups.items() if refuses_negative(n)},
            **context.index_ranges,
        },
    )


_MUTATIONS = ("BUFFER_MUTATION", "PARAMETER_MUTATION", "USER_INPUT_MUTATION")
_STATES = (InputKind.BUFFER, InputKind.PARAMETER)


def _changed(program: ExportedProgram) -> list[str]:
    """The placeholders whose tensors the program changes, in the order of the results that they
    become. Raises FrontendError for other results that are no outputs."""
    specs = program.graph_signature
    held = {s.target: s.arg.name for s in specs.input_specs if s.kind in _STATES}
    found: list[str] = []
    for output in specs.output_specs:
        if output.kind.name in _MUTATIONS:
            target = str(output.target)
            found.append(held.get(target, target))
        elif output.kind is not OutputKind.USER_OUTPUT:
            raise FrontendError(
                f"forward() changes {output.kind.name.lower()} {output.target!r} in place, which "
                "cannot be compiled: return the new value instead."
            )
    return found


# -- dims ------------------------------------------------------------------------------------
def _input_fakes(program: ExportedProgram) -> list[Any]:
    """The fake tensor (or plain value) of each leaf of the inputs."""
    specs = program.graph_signature.input_specs
    users = {s.arg.name for s in specs if s.kind is InputKind.USER_INPUT}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    return [
        nodes[s.arg.name].meta.get("val") if s.arg.name in users and s.arg.name in nodes else None
        for s in specs
        if s.kind is InputKind.USER_INPUT
    ]


def _sizes(fake: Any) -> list[Any]:
    return list(fake.shape) if isinstance(fake, torch.Tensor) else []


def _names(fakes: Sequence[Any], places: Sequence[tuple[int, int, str]]) -> dict[str, str]:
    """torch's symbol (``s31``) to the user's name, read where the name was given."""
    names: dict[str, str] = {}
    for leaf, axis, name in places:
        symbols = symbols_of([fakes[leaf].shape[axis]])
        if not symbols:
            raise FrontendError(
                f"dim {name!r} was exported with the fixed size {fakes[leaf].shape[axis]}: "
                "forward() works for this size only. Make the dim static."
            )
        names[symbols[0]] = name
    return names


def _ranges(
    program: ExportedProgram,
    fakes: Sequence[Any],
    symbols: SymbolTable,
    least: Mapping[tuple[int, int], int],
) -> list[DimRange]:
    """The bounds of symbols that have some. A lower bound of 2 counts only where the user has
    stated it (``least``): torch gives it to every dim that it leaves open."""
    bounds = {str(s): r for s, r in program.range_constraints.items()}
    stated: dict[str, int] = {}
    for (leaf, axis), size in least.items():  # dims of one symbol may each have a bound
        symbol = str(fakes[leaf].shape[axis])
        stated[symbol] = max(size or 0, stated.get(symbol, 0))
    found: dict[str, DimRange] = {}
    for leaf, fake in enumerate(fakes):
        for axis, size in enumerate(_sizes(fake)):
            key = str(size)
            if not isinstance(size, torch.SymInt) or key not in bounds or key in found:
                continue
            lower = int(bounds[key].lower)
            low = max(stated.get(key, 0), lower if lower != 2 else 0)
            upper = bounds[key].upper
            high = int(upper) if upper.is_Integer and int(upper) < 2**31 else None
            if low or high is not None:
                name = _text(symbols, size)
                found[key] = DimRange(name, leaf, axis, low, high)
    return list(found.values())


def _text(symbols: SymbolTable, size: torch.SymInt) -> str:
    return print_dim(symbols.convert(size))


def _describe(r: DimRange) -> str:
    sizes = f"{r.low} and more" if r.high is None else f"{r.low} to {r.high}"
    return f"dim {r.name} was exported for sizes of {sizes}."


def _of_data(sizes: Sequence[DimVar]) -> str:
    """A note on sizes that the data tell."""
    names = ", ".join([v.name for v in sizes])
    several = "s" if len(sizes) > 1 else ""
    return (
        f"{len(sizes)} size{several} ({names}) read out of data: what is of such a size is "
        "allocated when that is known, which ends a native segment."
    )


@dataclass(frozen=True)
class _State:
    """A weight that calls change: a parameter of main, its name in the model, its tensor."""

    var: Var
    name: str
    tensor: torch.Tensor


# -- values ----------------------------------------------------------------------------------
def _bind_placeholders(
    program: ExportedProgram, context: Context, changed: Sequence[str]
) -> tuple[dict[str, Var], dict[str, _State]]:
    """Bind every placeholder: weights to constants, user inputs to parameters, and so weights that
    the program changes. Gives both kinds of parameters by placeholder, in order. Weights that are
    one tensor become one constant."""
    params: dict[str, Var] = {}
    state: dict[str, _State] = {}
    known: dict[int, Constant] = {}
    nodes = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    specs = program.graph_signature.input_specs
    stored = program_inputs(program, [None] * len(specs))
    for spec, tensor in zip(specs, stored, strict=True):
        node = nodes.get(spec.arg.name)
        if node is None:
            continue
        if spec.kind is InputKind.USER_INPUT:
            fake = node.meta.get("val")
            if isinstance(fake, torch.Tensor):
                kind = context.tensor_type(fake, f"input {node.name!r}")
                params[node.name] = Var(context.builder.unique(node.name), kind)
                context.values[node.name] = params[node.name]
            else:
                context.values[node.name] = fake
            continue
        where = f"{spec.kind.name.lower().replace('_', ' ')} {spec.target or node.name!r}"
        if not isinstance(tensor, torch.Tensor):
            raise FrontendError(f"{where} is no tensor and cannot be imported.")
        if node.name in changed:
            var = Var(context.builder.unique(node.name), context.tensor_type(tensor, where))
            state[node.name] = _State(var, str(spec.target), tensor)
            context.values[node.name] = var
            continue
        if id(tensor) not in known:
            known[id(tensor)] = context.weight(spec.target or node.name, real_of(tensor), where)
        context.values[node.name] = known[id(tensor)]
    return params, state


def _run_graph(context: Context, module: GraphModule, operands: Sequence[Any]) -> list[Any]:
    """The results of a graph that control flow holds, on operands for its inputs."""
    inputs = module.graph.find_nodes(op="placeholder")
    outer, node, read = context.values, context.node, dict(context.read)
    context.values = {}
    for n, value in zip(inputs, operands, strict=True):
        fake, given = n.meta.get("val"), value
        if isinstance(fake, numbers_of_data.SYMBOLIC) and isinstance(value, (Var, Constant)):
            given = numbers_of_data.number(context, value, fake)
        context.values[n.name] = given
    for inner in module.graph.nodes:
        _convert(module, {}, context, inner)
    results = module.graph.output_node().args[0]
    made = [
        context.operand(a) if isinstance(a, numbers_of_data.SYMBOLIC) else a
        for a in context.value(results if isinstance(results, (tuple, list)) else [results])
    ]
    context.values, context.node, context.read = outer, node, read
    return made


def _bind_attribute(context: Context, node: Node, held: Any) -> None:
    """What a program holds beside its weights: a tensor, or the graph of a part of control flow."""
    if not isinstance(held, GraphModule):
        held = context.weight(str(node.target), real_of(held), f"constant {str(node.target)!r}")
    context.values[node.name] = held


def _convert(
    holder: torch.nn.Module, constants: Mapping[str, Any], context: Context, node: Node
) -> None:
    """Bind the value of one node; errors of the operator table say where the node stands."""
    if node.op == "get_attr":
        target = str(node.target)
        held = constants.get(target)
        _bind_attribute(context, node, getattr(holder, target) if held is None else held)
    if node.op != "call_function":
        return
    context.node = node
    fake = node.meta.get("val")
    try:
        if operator_name(node) in numbers_of_data.READS:
            context.values[node.name] = numbers_of_data.read(context, node)
            return
        if isinstance(fake, torch.SymInt):
            context.values[node.name] = _size(context, fake)
        elif isinstance(fake, (int, float, bool, torch.SymFloat, torch.SymBool)):
            context.values[node.name] = fake
        elif context.fallback and must_fall_back(node):
            context.values[node.name] = context.fallback.emit(context, node)
        elif isinstance(fake, torch.Tensor) and 0 in [s for s in fake.shape if type(s) is int]:
            context.values[node.name] = context.empty(context.result_type(node))
        else:
            context.values[node.name] = _converted(context, node)
    except BurnishError as error:
        _cast_in_torch(error)
        if operator_name(node) not in str(error):
            raise error.note(f"while importing {operator_name(node)} at {location(node)}") from None
        raise


def _size(context: Context, fake: torch.SymInt) -> Any:
    """A size as a dim; itself where it is none, and may be a number all the same."""
    try:
        return context.symbols.convert(fake)
    except NoDim:
        return fake


def _cast_in_torch(error: BurnishError) -> None:
    if isinstance(error, TypeInferenceError):
        error.cast_by("cast with x.to(dtype), or the module with module.to(dtype)")


def _converted(context: Context, node: Node) -> Any:
    """What the node's converter gives; of one that refuses this form of it, what the fallback
    does."""
    try:
        return REGISTRY[operator_name(node)](context, node)
    except FrontendError:
        if context.fallback is None or not can_fall_back(node):
            raise
        context.node = node
        return context.fallback.emit(context, node)


def _outputs(program: ExportedProgram, context: Context, structure: CallStructure) -> list[Var]:
    context.node = None
    output = next(n for n in program.graph.nodes if n.op == "output")
    results = output.args[0]
    assert isinstance(results, (tuple, list))
    changed = len(results) - len(structure.outputs)
    atoms = [context.operand(a) for a in results[:changed]]
    atoms += [
        context.operand(a)
        for a, known in zip(results[changed:], structure.outputs, strict=True)
        if is_program_output(known)
    ]
    return [a if isinstance(a, Var) else context.builder.emit_output(a) for a in atoms]


__all__ = ["check_eval_mode", "import_dtype", "import_exported_program", "import_module"]
