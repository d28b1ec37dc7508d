"""bind_size: types, text, what stays of it, and the program it becomes."""

# ruff: noqa: F841 (values that nobody reads)
from __future__ import annotations

import numpy as np
import pytest

import burnish
from burnish.graphir.analysis import bound_dims
from burnish.graphir.expr import Function
from burnish.graphir.module import IRModule
from burnish.graphir.passes.dead_code_elimination import DeadCodeElimination
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.script import I, R
from burnish.support.errors import BurnishError, TypeInferenceError


@I.ir_module
class Ones:
    @R.function
    def main(n: R.Tensor((), dtype="int64")) -> R.Tensor(("u", 2), dtype="float32"):
        with R.dataflow():
            size = R.bind_size(n, R.shape(["u"]))
            y = R.broadcast_to(R.const(1.0, "float32"), R.shape(["u", 2]))
            R.output(y)
        return y


def test_it_stays_though_nobody_reads_it_and_prints() -> None:
    module: IRModule = DeadCodeElimination()(Ones)
    verify_module(module)
    assert 'R.bind_size(n, R.shape(["u"]))' in module.script()
    main = module["main"]
    assert isinstance(main, Function)
    assert [v.name for v in bound_dims(main)] == ["u"]


def test_what_has_the_size_is_allocated_when_it_is_known() -> None:
    model = burnish.compile(Ones)
    for n in (3, 0, 1):
        np.testing.assert_array_equal(model(np.array(n)), np.ones((n, 2), np.float32))
    text = model.script("70-bytecode")
    assert text.index('"builtin:bind_dim", "u"') < text.index("alloc_tensor")
    with pytest.raises(BurnishError, match="from 0 up"):
        model(np.array(-1))


@pytest.mark.parametrize(
    ("count", "shape"), [("R.const(1.5)", '["u"]'), ("R.const([1, 2])", '["u"]'), ("n", "[3]")]
)
def test_what_is_no_size(count: str, shape: str) -> None:
    known = 'R.bind_size(n, R.shape(["u"]))'
    text = Ones.script().replace(known, f"R.bind_size({count}, R.shape({shape}))")
    with pytest.raises((TypeInferenceError, BurnishError)):
        parse_module(text)


@I.ir_module
class Met:
    @R.function
    def main(n: R.Tensor((), dtype="int64"), x: R.Tensor(("m",), dtype="float32")) -> R.Tensor(
        ("u", 2), dtype="float32"
    ):
        with R.dataflow():
            size = R.bind_size(
                n, R.shape(["u"]), R.shape(["m", 3]), place="node 'y'", expected="of equal sizes"
            )
            y = R.broadcast_to(R.const(1.0, "float32"), R.shape(["u", 2]))
            R.output(y)
        return y


def test_where_two_sizes_do_not_fit_the_error_says_which_and_where() -> None:
    main = parse_module(Met.script())["main"]
    assert isinstance(main, Function)
    assert [v.name for v in bound_dims(main)] == ["u"]
    model = burnish.compile(Met)
    assert model(np.array(3), np.zeros(3, np.float32)).shape == (3, 2)
    said = (
        "node 'y': expected shape of equal sizes, got 4 and 3. It is computed when the model runs"
    )
    with pytest.raises(BurnishError, match=said):
        model(np.array(-1), np.zeros(4, np.float32))
    text = Met.script().replace('R.shape(["m", 3])', "n")
    with pytest.raises((TypeInferenceError, BurnishError)):
        parse_module(text)
