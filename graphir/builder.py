"""BlockBuilder: emit operations in A-normal form, with types inferred as they are emitted.

Front ends and users build modules with it, and passes rebuild functions with it (``mutator``).
Whatever it emits has a type and uses only what is bound before; it optimises nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np

from ..support.errors import BurnishError
from ..support.keywords import hinted
from ..support.node import replace, walk
from ..support.other_names import OtherName
from ..support.structural import structural_equal, structural_hash
from ..tensorir import expr as tir
from ..tensorir.function import PrimFunc
from .call_te import LoweredTE, lower_te
from .expr import (
    Atom,
    Binding,
    BindingBlock,
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
    constant,
)
from .module import IRModule
from .op import is_variadic, type_of
from .type import TensorType, Type
from .weights import Weights

ATOMS = (Var, Constant, ShapeExpr, GlobalVar, Tuple)
OPERATIONS = (Call, CallDPS, CallDPSPacked, CallFunction, TupleGetItem, If)
AnyCall: TypeAlias = Call | CallDPS | CallDPSPacked | CallFunction


@dataclass
class _OpenFunction:
    """The function under construction."""

    name: str
    params: list[Var] | None
    """None until ``emit_func_output`` gives them."""
    attrs: Mapping[str, Any]
    result: Atom | None = None
    unknown: dict[Var, None] = field(default_factory=dict)
    """Variables used so far that must turn out to be parameters."""


@hinted
class BlockBuilder:
    """Builds a module::

        bb = BlockBuilder()
        x = Var("x", tensor_type((1, 784)))
        with bb.function("main", [x]):
            with bb.dataflow():
                y = bb.emit(call_op("relu", x))
                z = bb.emit_te(lambda t: te.compute(t.shape, lambda i, j: t[i, j] * 2), y)
                out = bb.emit_output(z)
            bb.emit_func_output(out)
        mod = bb.get()

    Inside an open function a variable may be used only after it is bound there, or if it is a
    parameter; a mistake raises BurnishError where it is made.
    """

    finalize = OtherName("get()")
    emit_match_cast = OtherName("nothing: types are known when a value is emitted")
    get_unique_name = OtherName("nothing: the builder makes names unique")
    emit_normalized = OtherName("emit_binding(binding)")
    match_cast = OtherName("nothing: types are known when a value is emitted")

    def __init__(self, module: IRModule | None = None) -> None:
        self._module = module.copy() if module is not None else IRModule()
        self._blocks: list[BindingBlock] = []
        self._bindings: list[Binding] = []
        self._is_dataflow = False
        self._names: dict[str, int] = {}
        self._open: _OpenFunction | None = None
        self._depth = 0
        self._values: dict[Var, Value] = {}
        self._visible: set[Var] = set()
        self._from_te: dict[str, list[tuple[PrimFunc, GlobalVar]]] = {}

    @property
    def weights(self) -> Weights:
        """Those of the module under construction; ``weights.add(name, array)`` gives a constant."""
        return self._module.weights

    @contextmanager
    def function(
        self,
        name: str,
        params: Sequence[Var] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> Iterator[None]:
        """Open a function; everything emitted inside becomes its body.

        ``params`` may be left to ``emit_func_output``, for a front end that meets them on its way.
        A function that has this name already is replaced. Raises BurnishError where one is open,
        and where this one closes without an output.
        """
        if self._open is not None:
            raise BurnishError(
                f"function({name!r}): function {self._open.name!r} is still open; functions do not "
                "nest."
            )
        known = None if params is None else _checked_params(name, params)
        self._open = opened = _OpenFunction(name, known, attrs or {})
        self.reserve_names(p.name for p in known or ())
        self._visible = set(known or ())
        try:
            with self.sequence() as blocks:
                yield
            if opened.result is None:
                raise BurnishError(
                    f"function {name!r} has no output; call emit_func_output before it closes."
                )
            self._module[name] = Function(
                tuple(opened.params or ()),
                SeqExpr(tuple(blocks), opened.result),
                type_of(opened.result),
                (("global_symbol", name), *opened.attrs.items()),
                name,
            )
        finally:
            self._open = None

    def reserve_names(self, names: Iterable[str]) -> None:
        """Begin a new function's name table with these names taken."""
        self._names = dict.fromkeys(names, 1)
        self._values, self._visible = {}, set()

    @contextmanager
    def sequence(self) -> Iterator[list[BindingBlock]]:
        """Collect what is emitted inside into a fresh list of blocks; the blocks under construction
        around it (of a function, or of the code around an ``If``) go on afterwards."""
        outer = self._blocks, self._bindings, self._is_dataflow, self._visible
        blocks: list[BindingBlock] = []
        self._blocks, self._bindings, self._is_dataflow = blocks, [], False
        self._visible = set(self._visible)
        self._depth += 1
        try:
            yield blocks
            self._flush()
        finally:
            self._depth -= 1
            self._blocks, self._bindings, self._is_dataflow, self._visible = outer

    def declare(self, *params: Var) -> None:
        """These variables may be used from here to the end of the sequence: parameters of a
        function that is made of it beside the open one (``Function``, ``update_func``)."""
        self._visible.update(params)

    @contextmanager
    def dataflow(self, *, is_dataflow: bool = True) -> Iterator[None]:
        """Open a dataflow block (or an ordinary block of bindings)."""
        self._check_open("dataflow")
        self._flush()
        outer, self._is_dataflow = self._is_dataflow, is_dataflow
        try:
            yield
            self._flush()
        finally:
            self._is_dataflow = outer

    def _flush(self) -> None:
        if self._bindings:
            self._blocks.append(BindingBlock(tuple(self._bindings), self._is_dataflow))
            self._blocks[:] = join_blocks(self._blocks)
            self._bindings = []

    def unique(self, hint: str) -> str:
        """A name not yet used in the open function."""
        count = self._names.get(hint)
        if count is None:
            self._names[hint] = 1
            return hint
        while f"{hint}_{count}" in self._names:
            count += 1
        self._names[hint] = count + 1
        self._names[f"{hint}_{count}"] = 1
        return f"{hint}_{count}"

    # -- values --------------------------------------------------------------------------------
    def emit(self, value: Value, name_hint: str = "lv") -> Var:
        """Bind a value to a new variable and return it; the value's type is inferred and checked.

        An operation among the arguments is bound to a variable of its own first. Raises
        BurnishError outside of a function, for something that is no value, and for a variable that
        the open function does not know; TypeInferenceError where an operator's operands do not fit.
        """
        self._check_open("emit")
        value = self.normalize(value)
        var = Var(self.unique(name_hint), type_of(value))
        self._bind(Binding(var, value))
        return var

    def emit_binding(self, binding: Binding) -> Var:
        """Add a finished binding as it stands; its variable keeps its identity and name."""
        self._names.setdefault(binding.var.name, 1)
        self._bind(binding)
        return binding.var

    def _bind(self, binding: Binding) -> None:
        self._bindings.append(binding)
        self._values[binding.var] = binding.value
        self._visible.add(binding.var)

    def emit_output(self, output: Value, name_hint: str = "gv") -> Var:
        """As ``emit``, for a value that leaves the dataflow block. Raises BurnishError outside of
        one."""
        self._check_open("emit_output")
        if not self._is_dataflow:
            raise BurnishError(
                "emit_output: no dataflow block is open; outside of one every value is visible "
                "already, so use emit. The function's result is set by emit_func_output."
            )
        return self.emit(output, name_hint)

    def emit_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        name_hint: str = "lv",
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Var:
        """Emit a call of the PrimFunc that ``func`` defines, a function on te Tensors.

        Graph variables and constants among the arguments (in lists too) become placeholders, whose
        dims may be symbolic; numbers, dims and whatever else ``func`` takes are passed on. It
        returns a te Tensor, or a list of them, which makes the variable a tuple. The PrimFunc is
        called ``primfunc_name_hint`` or as ``func`` is, with a number where that is taken; one that
        is equal to an earlier one is not made again. Raises ComputeError for arguments or results
        that do not fit.
        """
        self._check_open("emit_te")
        call = self.call_te(
            func,
            *args,
            primfunc_name_hint=primfunc_name_hint,
            primfunc_attrs=primfunc_attrs,
            **options,
        )
        return self.emit(call, name_hint)

    def call_te(
        self,
        func: Callable[..., Any],
        *args: Any,
        primfunc_name_hint: str | None = None,
        primfunc_attrs: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> CallDPS:
        """The call that ``emit_te`` binds, not bound yet: a mutator returns it in place of
        another."""
        lowered = lower_te(func, args, options, attrs=primfunc_attrs, name=primfunc_name_hint)
        return CallDPS(self._shared(lowered), lowered.args, lowered.out_type)

    def _shared(self, lowered: LoweredTE) -> GlobalVar:
        """The function made from an equal definition before, or a new one."""
        same = self._from_te.setdefault(structural_hash(lowered.func), [])
        for known, var in same:
            if self._module.functions.get(var.name) is known and structural_equal(
                known, lowered.func
            ):
                return var
        var = self.add_func(lowered.func)
        made = self._module[var]
        assert isinstance(made, PrimFunc)
        same.append((made, var))
        return var

    def emit_func_output(
        self, output: Value | Sequence[Value], params: Sequence[Var] | None = None
    ) -> None:
        """Set the function's result; a list becomes a Tuple. ``params`` are given here if they were
        not when the function was opened. Raises BurnishError outside of a function, for a second
        output, and for variables used that turn out to be no parameters."""
        opened = self._open
        if opened is None:
            raise BurnishError(
                "emit_func_output: no function is open; write it in: with bb.function(name, ...):"
            )
        if opened.result is not None:
            raise BurnishError(f"function {opened.name!r} has its output already; it has one.")
        result = Tuple(tuple(output)) if isinstance(output, (list, tuple)) else output
        result = self.normalize(cast("Value", result))
        opened.result = result if isinstance(result, ATOMS) else self.emit(result, "gv")
        if params is not None:
            if opened.params is not None:
                raise BurnishError(
                    f"function {opened.name!r} was opened with its parameters; emit_func_output "
                    "takes none."
                )
            opened.params = _checked_params(opened.name, params)
        for var in opened.unknown:
            if var not in set(opened.params or ()):
                raise _unknown_variable(opened.name, var)

    def lookup_binding(self, var: Atom) -> Value | None:
        """What a variable of the function under construction is bound to; None for a parameter,
        and for an atom that is no variable."""
        return self._values.get(var) if isinstance(var, Var) else None

    # -- checks --------------------------------------------------------------------------------
    def _check_open(self, what: str) -> None:
        if self._depth == 0:
            raise BurnishError(
                f"{what}: no function is open; write it in: with bb.function(name, params):"
            )

    def normalize(self, value: Value) -> Value:
        """The value in A-normal form: operations among its arguments are emitted.

        Raises BurnishError for something that is no value, and for a variable that the open
        function does not know.
        """
        if isinstance(value, (Call, CallDPS, CallDPSPacked, CallFunction)):
            value = self._with_atoms(value)
        elif isinstance(value, TupleGetItem):
            whole = self._atom(value.value)
            value = value if whole is value.value else TupleGetItem(whole, value.index)
        elif isinstance(value, Tuple):
            fields = tuple([self._atom(f) for f in value.fields])
            same = all(a is b for a, b in zip(fields, value.fields, strict=True))
            value = value if same else Tuple(fields)
        elif isinstance(value, Constant):
            value = self.weights.adopt(value)
        elif not isinstance(value, (*ATOMS, If)):
            raise _no_value(value)
        if self._open is not None:
            for var in _used_vars(value):
                self._check_visible(self._open, var)
        return value

    def _with_atoms(self, call: AnyCall) -> AnyCall:
        args = tuple([self._atom(a) for a in call.args])
        same = all(a is b for a, b in zip(args, call.args, strict=True))
        return call if same else replace(call, args=args)

    def _atom(self, value: Value) -> Atom:
        if isinstance(value, Tuple):
            made = self.normalize(value)
            assert isinstance(made, Tuple)
            return made
        if isinstance(value, Constant):
            return self.weights.adopt(value)
        if isinstance(value, ATOMS):
            return value
        if isinstance(value, OPERATIONS):
            return self.emit(value)
        raise _no_value(value)

    def _check_visible(self, opened: _OpenFunction, var: Var) -> None:
        if var in self._visible:
            return
        if opened.params is not None:
            raise _unknown_variable(opened.name, var)
        opened.unknown[var] = None

    # -- functions -----------------------------------------------------------------------------
    def add_func(self, func: PrimFunc | Function, func_name: str | None = None) -> GlobalVar:
        """Add a function under a unique name and return a reference to it."""
        name = self._module.unique_name(func_name or func.name)
        self.update_func(name, func.with_attr("global_symbol", name))
        return GlobalVar(name)

    def unique_function_name(self, hint: str) -> str:
        """A name that no function of the module under construction has."""
        return self._module.unique_name(hint)

    def update_func(self, gv: str | GlobalVar, func: PrimFunc | Function) -> None:
        """Replace (or add) a function of the module under construction, by its name or a reference
        to it."""
        name = gv.name if isinstance(gv, GlobalVar) else gv
        self._module[name] = func

    def call_prim_func(
        self, func: PrimFunc, args: Sequence[Atom], out_type: Type, hint: str | None = None
    ) -> Var:
        """Add a PrimFunc and emit a ``call_dps`` of it."""
        return self.emit(CallDPS(self.add_func(func, hint), tuple(args), out_type))

    def get(self) -> IRModule:
        """The module built so far. Raises BurnishError while a function is open."""
        if self._open is not None:
            raise BurnishError(
                f"get: function {self._open.name!r} is still open; leave its with block first."
            )
        return self._module.copy()


def _checked_params(name: str, params: Sequence[Var]) -> list[Var]:
    for p in params:
        if not isinstance(p, Var):
            raise BurnishError(
                f"function({name!r}): a parameter is a graph variable, as in "
                f'Var("x", tensor_type((1, 784))); found {_describe(p)}.'
            )
    return list(params)


def _used_vars(value: Value) -> Iterator[Var]:
    """The variables that a value reads, those bound inside it left out."""
    if isinstance(value, If):
        inner = {n.var for n in walk(value) if isinstance(n, Binding)}
        yield from (n for n in walk(value) if isinstance(n, Var) and n not in inner)
        return
    stack: list[Value] = [value]
    while stack:
        top = stack.pop()
        match top:
            case Var():
                yield top
            case Tuple():
                stack += top.fields
            case Call() | CallDPS() | CallDPSPacked() | CallFunction():
                stack += top.args
            case TupleGetItem():
                stack.append(top.value)


def _unknown_variable(function: str, var: Var) -> BurnishError:
    return BurnishError(
        f"function {function!r} uses the variable {var.name!r}, which is none of its "
        "parameters and is not bound in it before. It may belong to another function or builder; "
        "pass it as a parameter."
    )


def _no_value(found: object) -> BurnishError:
    return BurnishError(
        "A graph value is a variable, a constant, a call or a tuple of these; found "
        f"{_describe(found)}. For numbers and arrays write constant(...), for a te function "
        "emit_te(...)."
    )


def _describe(found: object) -> str:
    text = repr(found)
    kind = type(found).__name__
    return f"{kind} {text}" if len(text) <= 40 and "\n" not in text else f"a {kind}"


def join_blocks(blocks: Sequence[BindingBlock]) -> list[BindingBlock]:
    """The blocks, ordinary ones that follow each other made one: nothing in the text would tell
    them apart."""
    joined: list[BindingBlock] = []
    for block in blocks:
        if joined and not (joined[-1].is_dataflow or block.is_dataflow):
            joined[-1] = BindingBlock((*joined[-1].bindings, *block.bindings), False)
        else:
            joined.append(block)
    return joined


Operand: TypeAlias = Value | bool | int | float | np.ndarray | np.generic | Sequence[Any]


def call_op(name: str, *args: Operand, **attrs: Any) -> Call:
    """An operator call; attributes given as keywords. Absent optional operands are simply not
    passed. A number becomes a constant of the dtype of the first tensor that can hold such, an
    array a constant, a list of sizes a shape and a list of values a tuple, or the operands of
    ``concat``. Raises BurnishError for anything else."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)) and is_variadic(name):
        args = tuple(args[0])
    made = [a if isinstance(a, (*ATOMS, *OPERATIONS)) else _operand(name, a, args) for a in args]
    return Call(name, cast("tuple[Atom, ...]", tuple(made)), tuple(attrs.items()))


def _operand(name: str, value: Operand, operands: Sequence[Operand]) -> Value:
    if isinstance(value, np.generic):
        value = value.item()
    match value:
        case bool() | int() | float():
            return _number(name, value, operands)
        case np.ndarray():
            return constant(value)
        case list() | tuple() if value and all(
            isinstance(v, (int, np.integer, tir.Expr)) for v in value
        ):
            dims = tuple([v if isinstance(v, tir.Expr) else tir.IntImm(int(v)) for v in value])
            return ShapeExpr(dims)
        case list() | tuple() if all(isinstance(v, (*ATOMS, *OPERATIONS)) for v in value):
            return Tuple(tuple(value))
    raise BurnishError(
        f"{name}: an operand is a graph value, a number, an array, a list of sizes or of values; "
        f"found {_describe(value)}. Attributes are given by their names, axis=1."
    )


def _number(name: str, value: bool | int | float, operands: Sequence[object]) -> Value:
    given = [type_of(o) for o in operands if isinstance(o, (*ATOMS, *OPERATIONS))]
    dtypes = [k.dtype for k in given if isinstance(k, TensorType)]
    fitting = [d for d in dtypes if d.is_float or (d != "bool" and not isinstance(value, float))]
    for dtype in (fitting or dtypes)[:1]:
        made = constant(value, str(dtype))
        if not dtype.is_float and made.values().item() != value:
            raise BurnishError(f"{name}: {value} is no {dtype}; cast the tensor operand first.")
        return made
    raise BurnishError(
        f"{name}: the number {value} takes its dtype from a tensor operand, and there is none; "
        "write constant(value, dtype)."
    )
