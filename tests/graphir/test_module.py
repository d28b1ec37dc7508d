"""IRModule: a table of functions."""

from __future__ import annotations

import numpy as np
import pytest

from burnish.graphir.expr import GlobalVar
from burnish.graphir.module import IRModule, ModuleError, constants_of, fork_module
from burnish.graphir.text.parser import parse_module
from burnish.graphir.weights import Weights
from burnish.support.errors import BurnishError

MODULE = parse_module(
    "@I.ir_module\nclass M:\n    @R.function\n    def main(x: R.Tensor((2,))):\n"
    "        a = R.add(x, R.const([1.0, 2.0]))\n        return a\n"
    "    @R.function\n    def helper(x: R.Tensor((2,))):\n"
    "        return x\n"
)


def test_functions_are_found_by_name_and_reference() -> None:
    module = MODULE.copy()
    var = module.get_global_var("helper")
    assert [v.name for v in module.get_global_vars()] == list(module.functions)
    assert module[var] is module["helper"]
    assert var in module
    assert "nothing" not in module
    module.update_func(var, module["main"])
    assert module["helper"] is module["main"]
    assert MODULE["helper"] is not MODULE["main"]
    module[GlobalVar("third")] = MODULE["helper"]
    assert list(module) == ["main", "helper", "third"]


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(
        ModuleError, match=r"'man'; it has 'main', 'helper'\. Did you mean 'main'\?"
    ):
        MODULE["man"]
    with pytest.raises(KeyError):
        MODULE.get_global_var("man")


def test_names_are_made_unique() -> None:
    assert MODULE.unique_name("other") == "other"
    assert MODULE.unique_name("main") == "main_1"


def test_a_lone_function_is_a_module() -> None:
    assert list(IRModule.from_expr(MODULE["helper"])) == ["helper"]
    renamed = MODULE["helper"].with_attr("global_symbol", "f")
    assert list(IRModule.from_expr(renamed)) == ["f"]


def test_kinds_of_functions() -> None:
    assert list(MODULE.graph_functions) == ["main", "helper"]
    assert MODULE.prim_funcs == {}


def test_constants_are_listed() -> None:
    main = MODULE.graph_functions["main"]
    assert [c.values().tolist() for c in constants_of(main)] == [[1.0, 2.0]]
    assert constants_of(main) is constants_of(main)


def test_main_is_also_the_only_function() -> None:
    module = parse_module(
        "@T.prim_func\ndef mm(A: T.Buffer((4,))):\n    for i in range(4):\n        A[i] = 0.0\n"
    )
    assert module["main"] is module["mm"]
    assert "main" not in module
    with pytest.raises(ModuleError):
        module["other"]


def test_a_module_holds_functions_alone() -> None:
    for make in (lambda x: IRModule({"main": x}), lambda x: IRModule().update_func("main", x)):
        with pytest.raises(BurnishError, match="'main' would be a GlobalVar; a module holds Prim"):
            make(GlobalVar("f"))


def test_a_fork_has_the_functions_and_weights_of_its_own() -> None:
    table = Weights()
    table.add("w", np.arange(64, dtype=np.float32))
    module = IRModule(MODULE.functions, {"a": 1}, table)
    (name,) = module.weights
    fork = fork_module(module)
    assert fork.functions == module.functions
    assert fork.attrs == module.attrs
    assert fork.weights.weight(name) is not module.weights.weight(name)
    assert fork.weights[name] is module.weights[name]
