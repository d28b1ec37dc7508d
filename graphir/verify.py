"""The laws of the graph IR, one function a law. ``verify_module`` raises VerifyError at the first
broken.

A module that passes is in A-normal form, bound once, used after its binding, pure in its dataflow
blocks, and calls only what exists with the types it takes. PrimFuncs have laws of their own
(``tensorir.verify``); here only their signatures matter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from weakref import WeakKeyDictionary, WeakSet, ref

from ..support.errors import TypeInferenceError, VerifyError
from ..support.node import Node
from ..tensorir.buffer import Buffer
from ..tensorir.function import PrimFunc
from .analysis import bindings, sequences, solve_shape_vars
from .dim import DimError
from .expr import (
    Binding,
    Call,
    CallDPS,
    CallDPSPacked,
    CallFunction,
    Constant,
    Function,
    GlobalVar,
    If,
    SeqExpr,
    ShapeExpr,
    Tuple,
    TupleGetItem,
    Value,
    Var,
)
from .module import IRModule, constants_of
from .op import type_of
from .text.printer import format_type, format_value, print_function
from .type import TensorType, tensors_of, types_equal

ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)
ATTRIBUTES = ("primitive", "global_symbol")
"""The attributes of graph functions that passes know."""
Law = Callable[[IRModule, Function], None]


def verify_module(module: IRModule) -> IRModule:
    """Check every graph function; the module itself for chaining. Raises VerifyError."""
    for func in module.graph_functions.values():
        if func not in _lawful:
            for law in OWN_LAWS:
                law(module, func)
            _lawful.add(func)
        for law in LAWS_OF_CALLS:
            law(module, func)
    return module


_lawful: WeakSet[Function] = WeakSet()
"""Functions that keep the laws of their own: nodes do not change, and most passes leave most
functions alone."""
_typed: WeakSet[Binding] = WeakSet()
"""Bindings whose values have the types that they declare: of a function that a pass has changed,
most bindings are as they were."""
_fitting: WeakKeyDictionary[Binding, ref[PrimFunc]] = WeakKeyDictionary()
"""Calls, and the functions that they were found to fit."""


def _broken(law: str, found: str, func: Function, binding: Binding | None = None) -> VerifyError:
    return VerifyError(law, found, _context(func, binding), span=binding.span if binding else None)


def _context(func: Function, binding: Binding | None) -> str:
    """The function around the guilty binding, which is underlined; ten lines at most."""
    try:
        lines = print_function(func).splitlines()
    except Exception:  # a broken IR may not print; the law is the message
        return ""
    guilty = next(
        (
            i
            for i, t in enumerate(lines)
            if binding and t.strip().startswith(f"{binding.var.name} = ")
        ),
        None,
    )
    if guilty is None:
        return "\n".join(lines[:10])
    indent = len(lines[guilty]) - len(lines[guilty].lstrip())
    lines.insert(guilty + 1, " " * indent + "^" * (len(lines[guilty]) - indent))
    return "\n".join(lines[max(0, guilty - 5) : guilty + 6])


# -- form --------------------------------------------------------------------------------------
def verify_normal_form(module: IRModule, func: Function) -> None:
    """Arguments are atoms, and tuples hold atoms only."""
    law = "A-normal form: arguments are variables, constants, shapes or tuples of them."
    for binding in bindings(func):
        for argument in _arguments(binding.value):
            if not _is_atom(argument):
                raise _broken(law, f"an argument of class {type(argument).__name__}", func, binding)
    for seq in sequences(func.body):
        if not _is_atom(seq.result):
            raise _broken(law, f"a result of class {type(seq.result).__name__}", func)


def _is_atom(n: Node) -> bool:
    return all(map(_is_atom, n.fields)) if isinstance(n, Tuple) else isinstance(n, ATOMS)


def _arguments(value: Value) -> Sequence[Node]:
    match value:
        case Call() | CallDPS() | CallDPSPacked() | CallFunction():
            return value.args
        case TupleGetItem():
            return (value.value,)
        case If():
            return (value.condition,)
    return (value,)


def verify_bound_once(module: IRModule, func: Function) -> None:
    """Each variable is a parameter or the left side of one binding."""
    seen: set[Var] = set()
    for var in func.params:
        if var in seen:
            raise _broken("Each variable is bound once.", f"parameter {var.name!r} twice", func)
        seen.add(var)
    for binding in bindings(func):
        if binding.var in seen:
            raise _broken(
                "Each variable is bound once.",
                f"a second binding of {binding.var.name!r}",
                func,
                binding,
            )
        seen.add(binding.var)


def verify_scopes(module: IRModule, func: Function) -> None:
    """A variable is used after its binding, in the same sequence or in a branch below it."""
    _scope(func.body, set(func.params), func)


def _scope(seq: SeqExpr, outer: set[Var], func: Function) -> None:
    law = "A variable is used after its binding, where it is visible."
    known = set(outer)
    for block in seq.blocks:
        for binding in block.bindings:
            for argument in _arguments(binding.value):
                _visible(argument, known, law, func, binding)
            if isinstance(binding.value, If):
                _scope(binding.value.true_branch, known, func)
                _scope(binding.value.false_branch, known, func)
            known.add(binding.var)
    _visible(seq.result, known, law, func, None)


def _visible(n: Node, known: set[Var], law: str, func: Function, binding: Binding | None) -> None:
    if isinstance(n, Tuple):
        for f in n.fields:
            _visible(f, known, law, func, binding)
    elif isinstance(n, Var) and n not in known:
        raise _broken(law, f"{n.name!r} is not bound here", func, binding)


def verify_dataflow(module: IRModule, func: Function) -> None:
    """A dataflow block is pure and straight-line: no If."""
    for seq in sequences(func.body):
        for block in seq.blocks:
            for binding in block.bindings:
                if block.is_dataflow and isinstance(binding.value, If):
                    raise _broken(
                        "A dataflow block is straight-line.", "an If inside of one", func, binding
                    )


# -- types -------------------------------------------------------------------------------------
def verify_types(module: IRModule, func: Function) -> None:
    """A variable has the type of its value; the function returns what it says; branches agree."""
    law = "A variable has the type of its value."
    for binding in bindings(func):
        if binding in _typed:
            continue
        try:
            kind = type_of(binding.value)
        except TypeInferenceError as error:
            raise _broken(
                "An operator takes the operands it is given.", error.message, func, binding
            ) from error
        if not types_equal(kind, binding.var.type):
            declared = format_type(binding.var.type)
            found = f"{binding.var.name!r} is {declared}, its value {format_type(kind)}"
            raise _broken(law, found, func, binding)
        if isinstance(binding.value, If):
            _verify_if(binding.value, func, binding)
        _typed.add(binding)
    kind = type_of(func.body.result)
    if not types_equal(kind, func.ret_type):
        found = f"the result is {format_type(kind)}, declared {format_type(func.ret_type)}"
        raise _broken("A function returns the type it declares.", found, func)


def _verify_if(value: If, func: Function, binding: Binding) -> None:
    yes, no = type_of(value.true_branch.result), type_of(value.false_branch.result)
    if not types_equal(yes, no):
        found = f"{format_type(yes)} and {format_type(no)}"
        raise _broken("Both branches of an If have one type.", found, func, binding)
    kind = type_of(value.condition)
    if not (isinstance(kind, TensorType) and kind.ndim == 0 and kind.dtype.is_bool):
        raise _broken("The condition of an If is a bool scalar.", format_type(kind), func, binding)


def verify_calls(module: IRModule, func: Function) -> None:
    """Called functions exist and take what they are given."""
    for binding in bindings(func):
        value = binding.value
        if isinstance(value, (CallDPS, CallFunction)):
            law = "A call names a function of the module."
            if value.func.name not in module:
                raise _broken(law, f"no function {value.func.name!r}", func, binding)
            callee = module[value.func]
            if isinstance(value, CallDPS) != isinstance(callee, PrimFunc):
                kind = (
                    "call_dps takes a prim_func"
                    if isinstance(value, CallDPS)
                    else "a call takes a graph function"
                )
                raise _broken(
                    f"{kind[0].upper()}{kind[1:]}.", f"{value.func.name!r} is none", func, binding
                )
            if isinstance(callee, PrimFunc):
                _verify_signature(callee, value, func, binding)
            elif len(callee.params) != len(value.args):
                found = f"{len(value.args)} arguments for {len(callee.params)} parameters"
                raise _broken("A call fits its function.", found, func, binding)
        elif isinstance(value, CallDPSPacked) and isinstance(
            module.functions.get(value.name), PrimFunc
        ):
            _verify_signature(module[value.name], value, func, binding)


def _verify_signature(
    callee: PrimFunc | Function,
    call: CallDPS | CallDPSPacked | CallFunction,
    func: Function,
    binding: Binding,
) -> None:
    found_before = _fitting.get(binding)
    if found_before is not None and found_before() is callee:
        return
    law = "A destination-passing call fits its prim_func: inputs first, then outputs."
    buffers = [p for p in callee.params if isinstance(p, Buffer)]
    kinds = [t for a in call.args for t in tensors_of(type_of(a))] + tensors_of(call.out_type)
    if len(buffers) != len(kinds):
        found = f"{len(kinds)} tensors for the {len(buffers)} buffers of {callee.name!r}"
        raise _broken(law, found, func, binding)
    for buffer, kind in zip(buffers, kinds, strict=True):
        if buffer.ndim != kind.ndim or buffer.dtype is not kind.dtype:
            declared = format_type(TensorType(buffer.shape, buffer.dtype))
            found = f"{format_type(kind)} for the buffer {buffer.name}: {declared}"
            raise _broken(law, found, func, binding)
    try:
        assert isinstance(callee, PrimFunc)
        solve_shape_vars(callee, [type_of(a) for a in call.args], call.out_type)
    except DimError as error:
        raise _broken(law, error.message, func, binding) from error
    _fitting[binding] = ref(callee)


def verify_constants(module: IRModule, func: Function) -> None:
    """A constant with a name has its values, of its type, in the module's weights."""
    for n in constants_of(func):
        if n.bits is None:
            known = module.weights.weight(n.name).type if n.name in module.weights else None
            if known is None or not types_equal(known, n.type):
                found = "nothing" if known is None else format_type(known)
                found = f"{found} for {format_value(n)}"
                raise _broken("A named constant is a weight of the module.", found, func)


def verify_attributes(module: IRModule, func: Function) -> None:
    """The attributes that passes look for are spelled as they do."""
    for key, _ in func.attrs:
        known = next((k for k in ATTRIBUTES if k != key and k == key.lower()), None)
        if known is not None:
            found = f"{key!r}, which nothing looks for; write {known!r}"
            raise _broken("Attributes of functions are spelled in small letters.", found, func)


OWN_LAWS: tuple[Law, ...] = (
    verify_attributes,
    verify_normal_form,
    verify_bound_once,
    verify_scopes,
    verify_dataflow,
    verify_types,
)
LAWS_OF_CALLS: tuple[Law, ...] = (verify_calls, verify_constants)
"""Those that ask the module too: what it calls, and its weights."""
