"""IRModule: the one mutable container. Names to functions; ``update_func`` replaces in place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias
from weakref import WeakKeyDictionary

import numpy as np

from ..support.display import as_html
from ..support.errors import BurnishError, nearest
from ..support.keywords import hinted
from ..support.node import walk
from ..support.other_names import OtherName
from ..tensorir.function import PrimFunc
from .expr import TYPED, Constant, Function, GlobalVar
from .text.printer import print_module, show_module
from .weights import Weights, forked

ModuleFunction: TypeAlias = Function | PrimFunc


class ModuleError(BurnishError, KeyError):
    """A function name that is not in the module."""

    def __str__(self) -> str:
        return BurnishError.__str__(self)


@hinted
class IRModule:
    """``functions`` maps names to graph Functions and PrimFuncs, in order of definition;
    ``weights`` has the values of the constants that have names.

    Passes, Schedule and build never change a module they are given: they work on ``copy()``, which
    shares the (immutable) functions.
    """

    astext = OtherName("script()")
    clone = OtherName("copy()")
    functions_items = OtherName("functions.items()")
    update = OtherName("update_func(gv, func)")

    def __init__(
        self,
        functions: Mapping[str, ModuleFunction] | None = None,
        attrs: Mapping[str, object] | None = None,
        weights: Weights | None = None,
    ) -> None:
        self.functions: dict[str, ModuleFunction] = dict(functions or {})
        for name, func in self.functions.items():
            _require_function(name, func)
        self.attrs: dict[str, object] = dict(attrs or {})
        self.weights = weights.copy() if weights is not None else Weights()

    @classmethod
    def from_expr(cls, func: ModuleFunction) -> IRModule:
        """A module of one function, under its ``global_symbol`` or name."""
        return cls({func.attr("global_symbol") or func.name: func})

    def copy(self) -> IRModule:
        return IRModule(self.functions, self.attrs, self.weights)

    def __getitem__(self, key: str | GlobalVar) -> ModuleFunction:
        """The function of this name; ``"main"`` also finds the only one. Raises ModuleError."""
        name = key.name if isinstance(key, GlobalVar) else key
        try:
            return self.functions[name]
        except KeyError:
            if key == "main" and len(self.functions) == 1:
                return next(iter(self.functions.values()))
            raise ModuleError(
                f"The module has no function {name!r}; it has "
                f"{', '.join(map(repr, self.functions)) or 'none'}." + nearest(name, self.functions)
            ) from None

    def __setitem__(self, key: str | GlobalVar, func: ModuleFunction) -> None:
        name = key.name if isinstance(key, GlobalVar) else key
        _require_function(name, func)
        self.functions[name] = func

    def __contains__(self, key: object) -> bool:
        return (key.name if isinstance(key, GlobalVar) else key) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def get_global_var(self, name: str) -> GlobalVar:
        """A reference to a function of the module; raises ModuleError if there is none."""
        self[name]
        return GlobalVar(name)

    def get_global_vars(self) -> list[GlobalVar]:
        """References to all functions, in order."""
        return [GlobalVar(name) for name in self.functions]

    def update_func(self, var: GlobalVar | str, func: ModuleFunction) -> None:
        """Replace (or add) a function in place."""
        self[var] = func

    def unique_name(self, hint: str) -> str:
        """``hint``, or ``hint_1``, ``hint_2`` ... if it is taken."""
        if hint not in self.functions:
            return hint
        number = 1
        while f"{hint}_{number}" in self.functions:
            number += 1
        return f"{hint}_{number}"

    @property
    def prim_funcs(self) -> dict[str, PrimFunc]:
        return {n: f for n, f in self.functions.items() if isinstance(f, PrimFunc)}

    @property
    def graph_functions(self) -> dict[str, Function]:
        return {n: f for n, f in self.functions.items() if isinstance(f, Function)}

    @property
    def constants(self) -> dict[str, np.ndarray]:
        """Values of the constants too large to print, by the name they print under.

        Raises BurnishError where they belong to the model's source and it has changed them."""
        return {name: self.weights[name] for name in self.constant_names}

    @property
    def constant_names(self) -> list[str]:
        """The names of constants in the module, in order of first appearance."""
        every = [c.name for f in self.graph_functions.values() for c in constants_of(f)]
        return list(dict.fromkeys([name for name in every if name]))

    def script(self) -> str:
        """The module as text that ``burnish.parse`` reads back."""
        return print_module(self)

    def show(self) -> None:
        """Print the module, highlighted where that is possible."""
        show_module(self)

    def _repr_html_(self) -> str:
        """What a notebook shows of a module that ends a cell."""
        return as_html(self.script())

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"IRModule({', '.join(self.functions)})"


_constants: WeakKeyDictionary[Function, tuple[Constant, ...]] = WeakKeyDictionary()


def constants_of(func: Function) -> tuple[Constant, ...]:
    """The constants of a function, in order of appearance. It is walked once: every pass asks."""
    found = _constants.get(func)
    if found is None:
        found = _constants[func] = tuple([n for n in walk(func, TYPED) if type(n) is Constant])
    return found


def _require_function(name: str, func: object) -> None:
    if not isinstance(func, (Function, PrimFunc)):
        raise BurnishError(
            f"{name!r} would be a {type(func).__name__}; a module holds PrimFuncs and graph "
            "functions."
        )


def fork_module(module: IRModule) -> IRModule:
    """The same functions, with weights that another program may pack anew; see ``forked``."""
    (table,) = forked([module.weights])
    return IRModule(module.functions, module.attrs, table)
