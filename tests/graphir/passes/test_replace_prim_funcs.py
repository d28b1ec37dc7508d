"""ReplacePrimFuncs: tuned versions by structural hash."""

from __future__ import annotations

import pytest

from burnish.graphir.passes.replace_prim_funcs import ReplacePrimFuncs
from burnish.graphir.text.parser import parse_module
from burnish.support.errors import PassError
from burnish.support.structural import structural_hash

TEXT = """
@T.prim_func
def {name}({x}: T.Buffer((4,), "float32"), Y: T.Buffer(({n},), "float32")):
    for i in {loop}(4):
        with T.block("Y"):
            vi = T.axis.spatial(4, i)
            Y[vi] = {x}[vi]
"""


def func(name: str = "copy", x: str = "X", n: int = 4, loop: str = "range"):  # type: ignore[no-untyped-def]
    return parse_module(TEXT.format(name=name, x=x, n=n, loop=loop)).prim_funcs[name]


def test_equal_workloads_are_replaced_and_keep_their_name() -> None:
    module = parse_module(TEXT.format(name="a", x="P", n=4, loop="range"))
    module["b"] = func("b", loop="T.vectorized")
    tuned = func("main", loop="T.parallel").with_attr("is_scheduled", True)
    result = ReplacePrimFuncs({structural_hash(func()): tuned})(module)
    assert result["a"].attr("is_scheduled")
    assert result["a"].name == "a"
    assert result["a"].attr("global_symbol") == "a"
    assert result["b"] is module["b"]
    assert module["a"].attr("is_scheduled") is None


@pytest.mark.parametrize("n", [5])
def test_another_signature_is_refused(n: int) -> None:
    module = parse_module(TEXT.format(name="a", x="X", n=4, loop="range"))
    with pytest.raises(PassError, match=r"parameter 1 of 'a' is R.Tensor\(\(5,\)"):
        ReplacePrimFuncs({structural_hash(func()): func(n=n)})(module)


def test_another_number_of_parameters_is_refused() -> None:
    module = parse_module(TEXT.format(name="a", x="X", n=4, loop="range"))
    other = parse_module(
        '@T.prim_func\ndef f(X: T.Buffer((4,), "float32")):\n'
        "    for i in range(4):\n        X[i] = T.float32(0)\n"
    )
    with pytest.raises(PassError, match="1 parameters instead of 2 for 'a'"):
        ReplacePrimFuncs({structural_hash(func()): other["f"]})(module)


def test_a_layout_free_parameter_may_change_its_shape() -> None:
    module = parse_module(TEXT.format(name="a", x="X", n=4, loop="range"))
    module["a"] = module["a"].with_attr("layout_free", [1])
    result = ReplacePrimFuncs({structural_hash(module["a"]): func(n=5)})(module)
    assert result["a"] is not module["a"]
