"""Another ``main`` of a module: its variables as results, and some of them as inputs too.

    a = f(x)            ->   main(x, a_given):  a = f(x);  b = g(a_given);  return a, b
    b = g(a)

What is computed stays binding by binding; every value on the way comes out. With a value *given*,
what reads it reads the parameter instead, so that one operator's error is not the next one's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..support.errors import BurnishError
from ..support.node import replace
from .expr import Atom, Function, SeqExpr, Tuple, Var
from .module import IRModule
from .mutator import ExprMutator
from .type import TensorType, TupleType


def exposable_values(module: IRModule) -> list[Var]:
    """The tensors that ``main`` binds, outside of branches, in order."""
    return [
        binding.var
        for block in _main(module).body.blocks
        for binding in block.bindings
        if isinstance(binding.var.type, TensorType)
    ]


def expose_values(module: IRModule, names: Sequence[str], given: Collection[str] = ()) -> IRModule:
    """The module with a ``main`` that gives the variables ``names`` as a tuple. Those that are
    ``given`` are parameters besides, behind those of before, in the order of their bindings.

    Raises BurnishError for a name that ``main`` binds no tensor to. The weights are the same table.
    """
    bound = {v.name: v for v in exposable_values(module)}
    for name in (*names, *given):
        if name not in bound:
            raise BurnishError(f"main binds no tensor to {name!r}.")
    wanted = set(given)
    params = {v: Var(f"{n}_given", v.type) for n, v in bound.items() if n in wanted}
    main = _Given(module, params).visit_function(_main(module))
    results = {v.name: v for v in exposable_values(_with_main(module, main))}
    kept = tuple([results[n] for n in names])
    kinds = tuple([v.type for v in kept])
    function = replace(
        main,
        params=(*main.params, *params.values()),
        body=SeqExpr(main.body.blocks, Tuple(kept)),
        ret_type=TupleType(kinds),
    )
    return _with_main(module, function)


class _Given(ExprMutator):
    """Has what reads a variable read its parameter."""

    def __init__(self, module: IRModule, params: dict[Var, Var]) -> None:
        super().__init__(module)
        self._params = params

    def visit_Var(self, var: Var) -> Atom:  # noqa: N802
        """The parameter of a given variable."""
        return self._params.get(var) or super().visit_Var(var)


def _main(module: IRModule) -> Function:
    main = module["main"]
    if not isinstance(main, Function):
        raise BurnishError("'main' is no graph function.")
    return main


def _with_main(module: IRModule, main: Function) -> IRModule:
    return IRModule({**module.functions, "main": main}, module.attrs, module.weights)
