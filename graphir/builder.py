"""BlockBuilder: emit operations in A-normal form, with types inferred as they are emitted.

Front ends build modules with it and passes rebuild functions with it (``mutator``). Whatever it
emits has a type; it rewrites nothing and optimises nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..support.errors import BurnishError
from ..support.node import Node
from ..tensorir.function import PrimFunc
from .expr import (
    Atom,
    Binding,
    BindingBlock,
    Call,
    CallDPS,
    Function,
    GlobalVar,
    SeqExpr,
    Tuple,
    Value,
    Var,
)
from .module import IRModule
from .op import type_of
from .type import Type


class BlockBuilder:
    """Builds a module::

    bb = BlockBuilder()
    x = Var("x", tensor_type((1, 784)))
    with bb.function("main", [x]):
        with bb.dataflow():
            y = bb.emit(call_op("relu", x))
            out = bb.emit_output(y)
        bb.emit_func_output(out)
    mod = bb.get()
    """

    def __init__(self, module: IRModule | None = None) -> None:
        self._module = module.copy() if module is not None else IRModule()
        self._blocks: list[BindingBlock] = []
        self._bindings: list[Binding] = []
        self._is_dataflow = False
        self._names: dict[str, int] = {}
        self._params: Sequence[Var] | None = None
        self._result: Atom | None = None
        self._name = "main"

    @contextmanager
    def function(
        self, name: str, params: Sequence[Var] = (), attrs: dict[str, Any] | None = None
    ) -> Iterator[None]:
        """Open a function; everything emitted inside becomes its body. Raises BurnishError where
        one is open already, or where it closes without an output."""
        if self._params is not None:
            raise BurnishError(
                f"function({name!r}): function {self._name!r} is still open; functions do not nest."
            )
        self._params, self._name, self._result = list(params), name, None
        self.reserve_names(p.name for p in params)
        try:
            with self.sequence() as blocks:
                yield
            if self._result is None:
                raise BurnishError(
                    f"function {name!r} has no output; call emit_func_output before it closes."
                )
            func = Function(
                tuple(self._params),
                SeqExpr(tuple(blocks), self._result),
                type_of(self._result),
                (("global_symbol", name), *(attrs or {}).items()),
                name,
            )
            self._module[name] = func
        finally:
            self._params = None

    def reserve_names(self, names: Iterable[str]) -> None:
        """Begin a new function's name table with these names taken."""
        self._names = dict.fromkeys(names, 1)

    @contextmanager
    def sequence(self) -> Iterator[list[BindingBlock]]:
        """Collect what is emitted inside into a fresh list of blocks; the blocks under construction
        around it (of a function, or of the code around an ``If``) go on afterwards."""
        outer = self._blocks, self._bindings, self._is_dataflow
        blocks: list[BindingBlock] = []
        self._blocks, self._bindings, self._is_dataflow = blocks, [], False
        try:
            yield blocks
            self._flush()
        finally:
            self._blocks, self._bindings, self._is_dataflow = outer

    @contextmanager
    def dataflow(self, *, is_dataflow: bool = True) -> Iterator[None]:
        """Open a dataflow block (or an ordinary block of bindings)."""
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

    def emit(self, value: Value, name: str = "lv") -> Var:
        """Bind a value to a new variable and return it; the value's type is inferred (and
        checked)."""
        var = Var(self.unique(name), type_of(value))
        self._bindings.append(Binding(var, value))
        return var

    def emit_binding(self, binding: Binding) -> Var:
        """Add a finished binding as it stands; its variable keeps its identity and name."""
        self._names.setdefault(binding.var.name, 1)
        self._bindings.append(binding)
        return binding.var

    def emit_output(self, value: Value, name: str = "gv") -> Var:
        """As ``emit``, for a value that leaves the dataflow block."""
        return self.emit(value, name)

    def emit_func_output(self, value: Atom | Sequence[Atom]) -> None:
        """Set the function's result; a list becomes a Tuple."""
        self._result = value if isinstance(value, Node) else Tuple(tuple(value))

    def add_func(self, func: PrimFunc | Function, hint: str | None = None) -> GlobalVar:
        """Add a function under a unique name and return a reference to it."""
        name = self._module.unique_name(hint or func.name)
        self.update_func(name, func.with_attr("global_symbol", name))
        return GlobalVar(name)

    def unique_function_name(self, hint: str) -> str:
        """A name that no function of the module under construction has."""
        return self._module.unique_name(hint)

    def update_func(self, name: str, func: PrimFunc | Function) -> None:
        """Replace (or add) a function of the module under construction."""
        self._module[name] = func

    def call_prim_func(
        self, func: PrimFunc, args: Sequence[Atom], out_type: Type, hint: str | None = None
    ) -> Var:
        """Add a PrimFunc and emit a ``call_dps`` of it."""
        return self.emit(CallDPS(self.add_func(func, hint), tuple(args), out_type))

    def get(self) -> IRModule:
        """The module built so far."""
        return self._module.copy()


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


def call_op(name: str, *args: Atom, **attrs: Any) -> Call:
    """An operator call; attributes given as keywords. Absent optional operands are simply not
    passed."""
    return Call(name, tuple(args), tuple(attrs.items()))
