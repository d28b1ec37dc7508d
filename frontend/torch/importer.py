"""Import a torch module: torch.export, then one converter a node, emitted in A-normal form.

    module --torch.export--> ExportedProgram --check--> all missing operators at once
           --decompose only those--> nodes --converters--> IRModule with constants

Parameters and buffers become constants (copies). A dynamic dim is exported at a size that torch does
not specialise on, and means 0 and up.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx import Node
from torch.utils import _pytree as pytree

from ...graphir.builder import BlockBuilder
from ...graphir.expr import Constant, Tuple, Var, constant
from ...graphir.module import IRModule
from ...support.errors import ArityError, FrontendError, UnsupportedOpError
from ..imported import Imported
from . import convert_elementwise, convert_nn, convert_reduce, convert_shape
from .registry import REGISTRY, Context, import_dtype, location
from .symbols import SymbolTable

_CONVERTERS = (convert_elementwise, convert_nn, convert_reduce, convert_shape)
_EXPORT_SIZES = (7, 11, 13, 17, 19, 23)
"""Sizes a dynamic dim is exported at: primes that torch does not specialise on (as it does on 0 and 1)
and that do not divide each other by accident."""


# -- from a module --------------------------------------------------------------------------------------
def import_module(
    module: torch.nn.Module, example_inputs: Sequence[Any], dynamic_shapes: Any = None
) -> Imported:
    """Import an ``nn.Module`` at the shapes and dtypes of ``example_inputs``.

    ``dynamic_shapes`` takes torch.export's forms, and plain names in them: ``({0: "batch"},)`` or
    ``{"input": {0: "batch"}}``. A name stands for every size from 0 up. Raises FrontendError (module in
    training mode, module that does not export, unknown dtype), UnsupportedOpError (all at once).
    """
    check_eval_mode(module)
    inputs = tuple(example_inputs)
    for i, x in enumerate(pytree.tree_leaves(inputs)):
        if isinstance(x, torch.Tensor) and x.device.type != "cpu":
            raise FrontendError(f"example input {i} is on {x.device}; burnish compiles for the CPU: call .cpu().")
    specs, names, inputs = _plan_dynamic_shapes(module, inputs, dynamic_shapes)
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")  # torch's own deprecations, not the user's
            program = torch.export.export(module, inputs, dynamic_shapes=specs)
    except Exception as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise FrontendError(
            f"{type(module).__name__} does not export: {type(error).__name__}: {first}\n"
            "torch.export must be able to trace forward() without data-dependent Python control flow; "
            "replace it with torch.where or torch.cond, or mark fewer dims as dynamic."
        ) from error
    return import_exported_program(program, dim_names=names, source=f"torch {type(module).__name__}")


def check_eval_mode(module: torch.nn.Module) -> None:
    """Refuse a module in training mode where that changes its result (dropout, batch norm)."""
    for name, child in module.named_modules():
        if not child.training:
            continue
        kind = type(child)
        dropout = isinstance(child, torch.nn.modules.dropout._DropoutNd) and child.p > 0
        norm = isinstance(child, torch.nn.modules.batchnorm._NormBase) and child.track_running_stats
        if dropout or norm:
            raise FrontendError(
                f"{name or 'the module'} ({kind.__name__}) is in training mode, which changes its result. "
                "Call module.eval() before compiling."
            )


def _plan_dynamic_shapes(
    module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any
) -> tuple[Any, dict[str, str], tuple[Any, ...]]:
    """torch's specification, the wanted names by (torch) symbol order, and inputs resized so that no
    dynamic dim has the size 0 or 1, which torch would take for a constant."""
    if not dynamic_shapes:
        return None, {}, inputs
    dims: dict[str, Any] = {}
    sizes: dict[str, int] = {}

    def dim_of(spec: Any) -> Any:
        name = spec if isinstance(spec, str) else getattr(spec, "__name__", None)
        if name is None or not (isinstance(spec, str) or type(spec).__name__ in ("Dim", "_Dim")):
            return spec
        if name not in dims:
            if not name.isidentifier():
                raise FrontendError(f"dynamic_shapes: {name!r} is no name; use letters, digits and _.")
            dims[name] = Dim(name, min=0)
            sizes[name] = _EXPORT_SIZES[(len(sizes)) % len(_EXPORT_SIZES)]
        return dims[name]

    def plan(value: Any, spec: Any, where: str) -> tuple[Any, Any]:
        if spec is None:
            return value, None
        if isinstance(value, torch.Tensor):
            if isinstance(spec, (list, tuple)):
                spec = dict(enumerate(spec))
            if not isinstance(spec, Mapping):
                raise FrontendError(f"dynamic_shapes for {where}: expected a dict {{dim: name}}, got {spec!r}.")
            planned = {}
            for axis, entry in spec.items():
                if not isinstance(axis, int) or not -value.ndim <= axis < value.ndim:
                    raise FrontendError(
                        f"dynamic_shapes for {where}: dim {axis!r} of a tensor with {value.ndim} dims."
                    )
                planned[axis % value.ndim] = dim_of(entry)
                name = getattr(planned[axis % value.ndim], "__name__", None)
                if name in sizes:
                    value = _resized(value, axis % value.ndim, sizes[name])
            return value, planned
        if isinstance(value, (list, tuple)):
            pairs = [plan(v, s, f"{where}[{i}]") for i, (v, s) in enumerate(zip(value, spec, strict=True))]
            return type(value)(p[0] for p in pairs), type(value)(p[1] for p in pairs)
        if isinstance(value, Mapping):
            made = {k: plan(v, spec.get(k), f"{where}[{k!r}]") for k, v in value.items()}
            return {k: p[0] for k, p in made.items()}, {k: p[1] for k, p in made.items()}
        return value, spec

    specs = _by_position(module, inputs, dynamic_shapes)
    planned = [plan(v, s, f"input {i}") for i, (v, s) in enumerate(zip(inputs, specs, strict=True))]
    names = {name: name for name in dims}
    return tuple(p[1] for p in planned), names, tuple(p[0] for p in planned)


def _by_position(module: torch.nn.Module, inputs: tuple[Any, ...], dynamic_shapes: Any) -> list[Any]:
    """One specification an input, whichever form was given."""
    if isinstance(dynamic_shapes, Mapping):
        import inspect

        order = list(inspect.signature(module.forward).parameters)[: len(inputs)]
        unknown = [name for name in dynamic_shapes if name not in order]
        if unknown:
            raise FrontendError(f"dynamic_shapes names {unknown}, but forward() takes {order}.")
        return [dynamic_shapes.get(name) for name in order]
    specs = list(dynamic_shapes)
    if len(specs) != len(inputs):
        raise FrontendError(
            f"dynamic_shapes has {len(specs)} entries for {len(inputs)} inputs; give one an input (None: static)."
        )
    return specs


def _resized(value: torch.Tensor, axis: int, size: int) -> torch.Tensor:
    """A tensor like ``value`` with ``size`` along ``axis``: only its shape and dtype matter to export."""
    shape = list(value.shape)
    shape[axis] = size
    return torch.zeros(shape, dtype=value.dtype)


# -- from an exported program --------------------------------------------------------------------------------
def import_exported_program(
    program: ExportedProgram, *, dim_names: Mapping[str, str] | None = None, source: str = "torch program"
) -> Imported:
    """Import a torch.export program; errors as for ``import_module``."""
    missing = [n for n in _operators(program) if str(n.target) not in REGISTRY]
    if missing:
        program = _decompose(program, missing)
    REGISTRY.check([(str(n.target), location(n)) for n in _operators(program)])
    signature = program.graph_signature
    for output in signature.output_specs:
        if output.kind not in (OutputKind.USER_OUTPUT,):
            raise FrontendError(
                f"forward() changes {output.target or 'an input'} in place ({output.kind.name.lower()}); "
                "compiled models are pure: return the new value instead."
            )
    symbols = SymbolTable(_symbol_names(program, dim_names or {}))
    builder = BlockBuilder()
    context = Context(builder, symbols)
    params = _placeholders(program, context)
    with builder.function("main", params):
        with builder.dataflow():
            for node in program.graph.nodes:
                if node.op == "call_function":
                    context.values[node.name] = _convert(context, node)
                elif node.op == "get_attr":
                    context.values[node.name] = _attribute(program, str(node.target))
            output_node = next(n for n in program.graph.nodes if n.op == "output")
            leaves = [context.operand(a) for a in output_node.args[0]]
            leaves = [a if isinstance(a, Var) else builder.emit_output(a) for a in leaves]
        builder.emit_func_output(leaves[0] if len(leaves) == 1 else Tuple(tuple(leaves)))
    return _imported(program, builder.get(), params, symbols, source)


def _operators(program: ExportedProgram) -> list[Node]:
    return [n for n in program.graph.nodes if n.op == "call_function"]


def _convert(context: Context, node: Node) -> Any:
    try:
        return REGISTRY[str(node.target)](context, node)
    except (FrontendError, UnsupportedOpError):
        raise
    except Exception as error:
        if hasattr(error, "note"):
            raise error.note(f"while importing {node.target} at {location(node)}") from None
        raise


def _decompose(program: ExportedProgram, missing: list[Node]) -> ExportedProgram:
    """Decompose only what has no converter; what torch cannot decompose stays and is reported."""
    wanted = {n.target for n in missing}
    table = {op: fn for op, fn in torch.export.default_decompositions().items() if op in wanted}
    if not table:
        return program
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return program.run_decompositions(table)


def _symbol_names(program: ExportedProgram, dim_names: Mapping[str, str]) -> dict[str, str]:
    """torch's symbol (``s31``) to the user's name, read from the example dims it came from."""
    names: dict[str, str] = {}
    wanted = list(dim_names)
    for symbol in program.range_constraints:
        text = str(symbol)
        if text in dim_names:
            names[text] = dim_names[text]
    free = [str(s) for s in program.range_constraints if str(s) not in names]
    for symbol_text, name in zip(_in_placeholder_order(program, free), wanted, strict=False):
        names[symbol_text] = name
    return names


def _in_placeholder_order(program: ExportedProgram, symbols: list[str]) -> list[str]:
    seen: list[str] = []
    for node in program.graph.nodes:
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor):
            for size in node.meta["val"].shape:
                text = str(size.node.expr) if isinstance(size, torch.SymInt) else ""
                if text in symbols and text not in seen:
                    seen.append(text)
    return seen


def as_constant(tensor: torch.Tensor, where: str) -> Constant:
    """A torch tensor as a constant (a copy)."""
    dtype = import_dtype(tensor.dtype, where)
    detached = tensor.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        return constant(detached.view(torch.uint16).numpy(), "bfloat16")
    return constant(np.asarray(detached.numpy()), dtype)


def _attribute(program: ExportedProgram, name: str) -> Constant:
    value = program.constants.get(name)
    if value is None:
        value = getattr(program.graph_module, name)
    return as_constant(value, name)


def _placeholders(program: ExportedProgram, context: Context) -> list[Var]:
    """Bind every placeholder: weights to constants, user inputs to parameters (returned in order)."""
    params: list[Var] = []
    specs = {s.arg.name: s for s in program.graph_signature.input_specs}
    known: dict[int, Constant] = {}
    for node in program.graph.nodes:
        if node.op != "placeholder":
            continue
        spec = specs[node.name]
        fake = node.meta.get("val")
        if spec.kind is InputKind.USER_INPUT:
            if not isinstance(fake, torch.Tensor):
                context.values[node.name] = fake if isinstance(fake, (int, float, bool)) else None
                continue
            var = Var(context.builder.unique(node.name), context.tensor_type(fake, node))
            params.append(var)
            context.values[node.name] = var
            continue
        target = spec.target or node.name
        tensor = program.state_dict.get(target, program.constants.get(target))
        if not isinstance(tensor, torch.Tensor):
            raise FrontendError(f"placeholder {node.name!r} ({spec.kind.name.lower()}) cannot be imported.")
        if id(tensor) not in known:
            known[id(tensor)] = as_constant(tensor, target)
        context.values[node.name] = known[id(tensor)]
    return params


def _imported(
    program: ExportedProgram, module: IRModule, params: list[Var], symbols: SymbolTable, source: str
) -> Imported:
    in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
    specs = [s for s in program.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    is_tensor = [type(s.arg).__name__ == "TensorArgument" for s in specs]
    count = sum(is_tensor)
    # a module that takes its tensors one by one needs no tree walk at run time
    flat = in_spec == pytree.tree_structure((tuple([0] * count), {}))
    single = out_spec is not None and out_spec.is_leaf()

    def flatten(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        if flat and not kwargs and len(args) == count:
            return list(args)
        leaves, structure = pytree.tree_flatten((args, kwargs))
        if structure != in_spec:
            names = [p.name for p in params]
            raise ArityError(
                f"expected {count} input{'s' if count != 1 else ''} ({', '.join(names)}), structured as at "
                f"compilation; got {len(leaves)}."
            )
        return [leaf for leaf, keep in zip(leaves, is_tensor, strict=True) if keep]

    def unflatten(outputs: list[Any]) -> Any:
        return pytree.tree_unflatten(outputs, out_spec)

    return Imported(
        module,
        tuple([p.name for p in params]),
        flatten,
        unflatten,
        single_output=single,
        positional_only=flat,
        dim_names=symbols.dim_names,
        source=source,
    )


__all__ = ["import_exported_program", "import_module"]
