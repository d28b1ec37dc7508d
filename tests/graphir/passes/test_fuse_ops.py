"""FuseOps and the law of fusion: a random DAG computes the same after every pass of the
corridor."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.graphir.dim import print_shape
from burnish.graphir.expr import CallDPS
from burnish.graphir.module import IRModule
from burnish.graphir.passes.annotate_pattern import AnnotatePattern
from burnish.graphir.passes.bind_params import BindParams
from burnish.graphir.passes.canonicalize import Canonicalize
from burnish.graphir.passes.fuse_ops import FuseOps
from burnish.graphir.passes.fuse_prim_funcs import FusePrimFuncs
from burnish.graphir.passes.legalize import LegalizeOps
from burnish.graphir.passes.pipeline import pipeline
from burnish.graphir.text.parser import parse_module
from burnish.graphir.verify import verify_module
from burnish.support.structural import assert_structural_equal
from burnish.tests.graphir.reference import run


def fused(text: str, **options: int) -> IRModule:
    module = AnnotatePattern()(LegalizeOps()(parse_module(text)))
    return verify_module(FuseOps(**options)(module))


def kernels(module: IRModule) -> list[str]:
    """What main calls, in order, without the numbers."""
    names = []
    for block in module["main"].body.blocks:  # type: ignore[union-attr]
        for binding in block.bindings:
            func = getattr(binding.value, "func", None)
            names.append(func.name if func is not None else getattr(binding.value, "op", "?"))
    return names


def graph(*lines: str, result: str = "y", params: str = "x") -> str:
    listed = ", ".join(f'{p}: R.Tensor((2, 3), "float32")' for p in params.split())
    body = "".join(f"        {line}\n" for line in lines)
    return (
        f"@R.function\ndef main({listed}):\n    with R.dataflow():\n{body}"
        f"        R.output({result})\n    return {result if ',' not in result else f'({result})'}\n"
    )


def test_the_diamond_becomes_one_kernel() -> None:
    text = graph("l = R.linear(x, w)", "a = R.exp(l)", "b = R.tanh(l)", "y = R.add(a, b)").replace(
        "x: R.Tensor((2, 3)", "w: R.Tensor((5, 3)), x: R.Tensor((2, 3)"
    )
    assert kernels(fused(text)) == ["fused_linear_exp_tanh_add"]


def test_a_value_that_leaves_stays_a_kernels_result() -> None:
    text = graph("a = R.exp(x)", "y = R.tanh(a)", result="a, y")
    assert kernels(fused(text)) == ["exp", "tanh"]


def test_a_path_out_and_back_is_not_fused_around() -> None:
    # softmax reads exp's result and add reads both: exp and add must not swallow it.
    text = graph("a = R.exp(x)", "s = R.softmax(a)", "y = R.add(a, s)")
    assert kernels(fused(text)) == ["exp", "softmax", "add"]


def test_a_reduction_takes_what_comes_before_and_nothing_after() -> None:
    text = graph("a = R.exp(x)", "s = R.sum(a, axis=1, keepdims=True)", "y = R.relu(s)")
    assert kernels(fused(text)) == ["fused_exp_sum", "relu"]


def test_a_product_takes_what_comes_after_and_nothing_before() -> None:
    text = graph("a = R.exp(x)", "m = R.matmul(a, v)", "y = R.relu(m)").replace(
        "x: R.", "v: R.Tensor((3, 4)), x: R.", 1
    )
    assert kernels(fused(text)) == ["exp", "fused_matmul_relu"]


def test_an_epilogue_of_another_shape_stays_outside() -> None:
    text = graph("m = R.matmul(x, v)", "y = R.add(m, x)").replace(
        "x: R.", "v: R.Tensor((3, 1)), x: R.", 1
    )
    assert kernels(fused(text)) == ["matmul", "add"]


def test_two_products_do_not_fuse() -> None:
    text = graph("a = R.linear(x, w)", "b = R.linear(a, w)", "y = R.relu(b)").replace(
        "x: R.", "w: R.Tensor((3, 3)), x: R.", 1
    )
    assert kernels(fused(text)) == ["linear", "fused_linear_relu"]


def test_transposes_fuse_with_light_work_but_not_behind_a_product() -> None:
    text = graph("m = R.linear(x, w)", "t = R.permute_dims(m)", "y = R.relu(t)").replace(
        "x: R.", "w: R.Tensor((3, 3)), x: R.", 1
    )
    assert kernels(fused(text)) == ["linear", "fused_permute_dims_relu"]


def test_rows_that_are_looked_up_are_turned_by_themselves() -> None:
    head = 'i: R.Tensor((2, 5), dtype="int64"), x: R.'
    lookup = ["a = R.take(x, i, axis=0)", "b = R.relu(a)"]
    turned = graph(*lookup, "t = R.permute_dims(b, axes=[0, 2, 1])", "y = R.exp(t)")
    assert kernels(fused(turned.replace("x: R.", head, 1))) == [
        "fused_take_relu", "fused_permute_dims_exp",
    ]  # fmt: skip
    moved = graph(*lookup, "t = R.permute_dims(b, axes=[1, 0, 2])", "y = R.exp(t)")
    assert kernels(fused(moved.replace("x: R.", head, 1))) == ["fused_take_relu_permute_dims_exp"]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["t = R.permute_dims(x)", "p = R.pad(t, pad_width=[0, 0, 1, 2])", "y = R.exp(p)"],
         ["permute_dims", "fused_pad_exp"]),
        # Whole rows are put together: each is turned as before.
        (["t = R.permute_dims(x)", "p = R.pad(t, pad_width=[1, 2, 0, 0])", "y = R.exp(p)"],
         ["fused_permute_dims_pad_exp"]),
        (["c = R.concat(x, x, axis=0)", "t = R.permute_dims(c)", "y = R.exp(t)"],
         ["concat", "fused_permute_dims_exp"]),
        (["t = R.permute_dims(x)", "c = R.concat(t, t, axis=1)", "y = R.exp(c)"],
         ["permute_dims", "fused_concat_exp"]),
        # What data say is no seam.
        (["t = R.permute_dims(x)", "y = R.where(R.less(t, 0.0), t, R.exp(t))"],
         ["fused_permute_dims_less_exp_where"]),
    ],
)  # fmt: skip
def test_rows_are_turned_before_they_are_cut(lines: list[str], expected: list[str]) -> None:
    assert kernels(fused(graph(*lines))) == expected


@pytest.mark.parametrize(
    ("before", "rows", "expected"),
    [
        ("R.exp(x)", 6, ["exp", "fused_take_negative"]),
        ("R.divide(x, x)", 6, ["divide", "fused_take_negative"]),
        # Few reads, or what costs no more than a read.
        ("R.exp(x)", 5, ["fused_exp_take_negative"]),
        ("R.relu(x)", 6, ["fused_relu_take_negative"]),
    ],
)
def test_what_is_read_again_and_again_is_computed_once(
    before: str, rows: int, expected: list[str]
) -> None:
    text = graph(f"a = {before}", "t = R.take(a, i, axis=0)", "y = R.negative(t)")
    head = f'i: R.Tensor(({rows},), dtype="int64"), x: R.'
    assert kernels(fused(text.replace("x: R.", head, 1))) == expected


def test_what_windows_read_is_turned_before() -> None:
    text = graph(
        "t = R.permute_dims(x, axes=[0, 2, 1])",
        "y = R.im2col(t, kernel=[4], strides=[1], padding=[0, 0], dilation=[1])",
    ).replace("(2, 3)", "(1, 3, 20)")
    assert kernels(fused(text)) == ["permute_dims", "im2col"]
    apart = text.replace("strides=[1]", "strides=[4]")
    assert kernels(fused(apart)) == ["permute_dims", "im2col"]


def test_ladders_of_diamonds_stop_at_the_cost() -> None:
    steps = [f"v{i + 1} = R.multiply(v{i}, v{i})" for i in range(10)]
    text = graph(*["v0 = R.exp(x)", *steps, "y = R.tanh(v10)"])
    names = kernels(fused(text, max_cost=16))
    assert len(names) > 2
    names = kernels(fused(text, max_cost=100_000))
    assert len(names) == 1
    assert len(names[0]) <= 60


@pytest.mark.parametrize(("count", "expected"), [(128, 1), (129, 2)])
def test_a_kernel_has_at_most_128_operations_unless_told(count: int, expected: int) -> None:
    """A chain costs what it has; a ladder of diamonds doubles with every rung."""
    chain = [f"v{i + 1} = R.exp(v{i})" for i in range(count - 1)]
    names = kernels(fused(graph(*chain, f"y = R.tanh(v{count - 1})").replace("v0", "x")))
    assert len(names) == expected


@pytest.mark.parametrize(("rungs", "expected"), [(5, 1), (6, 2)])
def test_a_ladder_of_some_rungs_is_one_kernel(rungs: int, expected: int) -> None:
    """Rungs of exp(v) + tanh(v) cost 3, 9, 21, 45, 93, 189 operations inlined."""
    lines = ["v0 = R.exp(x)"]
    for i in range(rungs):
        lines += [f"a{i} = R.exp(v{i})", f"b{i} = R.tanh(v{i})", f"v{i + 1} = R.add(a{i}, b{i})"]
    lines[0] = ""
    lines[-1] = lines[-1].replace(f"v{rungs} =", "y =")
    names = kernels(fused(graph(*[li.replace("v0", "x") for li in lines[1:]])))
    assert len(names) == expected


def test_long_names_are_cut_and_told_apart() -> None:
    """Two groups of the same operators on tensors of different shapes."""
    chains: list[str] = []
    for name, source in (("a", "x"), ("b", "w")):
        steps = [f"{name}{i + 1} = R.tanh({name}{i})" for i in range(19)]
        chains += [f"{name}0 = R.exp({source})", *steps]
    lines = "".join(f"        {line}\n" for line in chains)
    text = (
        '@R.function\ndef main(x: R.Tensor((4, 8), "float32"), w: R.Tensor((5,), "float32")):\n'
        f"    with R.dataflow():\n{lines}        R.output(a19, b19)\n    return (a19, b19)\n"
    )
    first, second = (n for n in kernels(fused(text)) if n.startswith("fused"))
    assert first != second
    assert first.startswith("fused_exp_tanh_tanh")
    assert second.startswith("fused_exp_tanh_tanh")
    assert max(len(first), len(second)) <= 60
    assert min(len(first), len(second)) > 50


def test_max_depth_bounds_a_group() -> None:
    text = graph(*[f"v{i + 1} = R.exp(v{i})" for i in range(4)], "y = R.tanh(v4)").replace(
        "v0", "x"
    )
    assert all(n.count("exp") < 3 for n in kernels(fused(text, max_depth=2)))


def test_scheduled_functions_stay_alone() -> None:
    module = AnnotatePattern()(LegalizeOps()(parse_module(graph("a = R.exp(x)", "y = R.tanh(a)"))))
    module["exp"] = module["exp"].with_attr("is_scheduled", True)
    assert kernels(FuseOps()(module)) == ["exp", "tanh"]


def test_equal_groups_share_one_function() -> None:
    text = graph("a = R.softmax(R.tanh(R.exp(x)))", "y = R.tanh(R.exp(a))")
    module = fused(text)
    assert kernels(module) == ["fused_exp_tanh", "softmax", "fused_exp_tanh"]


def test_names_are_numbered_when_taken() -> None:
    text = graph(
        "a = R.softmax(R.tanh(R.exp(x)))",
        "b = R.permute_dims(a)",
        "c = R.softmax(b)",
        "y = R.tanh(R.exp(c))",
    )
    assert kernels(fused(text))[-1] == "fused_exp_tanh_1"


def test_the_group_of_a_linear_layer(golden) -> None:  # type: ignore[no-untyped-def]
    text = graph("y = R.relu(R.linear(x, w))").replace("x: R.", "w: R.Tensor((4, 3)), x: R.", 1)
    module = fused(text)
    for name in list(module.prim_funcs):
        del module.functions[name]
    golden(module.script())


# -- the law ---------------------------------------------------------------------------------------
OPS = (
    "exp1",
    "relu",
    "add",
    "multiply",
    "softmax",
    "sum",
    "linear",
    "transpose2",
    "reshape",
    "scalar",
    "row",
)


@st.composite
def dags(draw: st.DrawFn) -> str:
    """A random DAG over (2, 3) tensors, static or with a symbolic first dim."""
    size = draw(st.sampled_from(["2", '"m"']))
    names = ["x", "z"]
    lines: list[str] = []
    for i in range(draw(st.integers(1, 9))):
        a, b = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        expression = {
            "exp1": f"R.tanh({a})",
            "relu": f"R.relu({a})",
            "add": f"R.add({a}, {b})",
            "multiply": f"R.multiply({a}, {b})",
            "softmax": f"R.softmax({a})",
            "sum": f"R.add({a}, R.sum({b}, axis=1, keepdims=True))",
            "linear": f"R.linear({a}, w, c)",
            "transpose2": f"R.permute_dims(R.sigmoid(R.permute_dims({a})))",
            "reshape": (
                f"R.reshape(R.relu(R.reshape({a}, R.shape([3, {size}]))), R.shape([{size}, 3]))"
            ),
            "scalar": f'R.subtract({a}, R.const(0.5, "float32"))',
            "row": f"R.multiply({a}, c)",
        }[draw(st.sampled_from(OPS))]
        lines.append(f"        v{i} = {expression}\n")
        names.append(f"v{i}")
    outputs = draw(st.lists(st.sampled_from(names[2:]), min_size=1, max_size=2, unique=True))
    listed = ", ".join(outputs)
    return (
        f"@R.function\ndef main(x: R.Tensor(({size}, 3)), z: R.Tensor(({size}, "
        f"3)), w: R.Tensor((3, 3)), "
        f"c: R.Tensor((3,))):\n    with R.dataflow():\n{''.join(lines)}        R.output({listed})\n"
        f"    return ({listed},)\n"
    )


@settings(max_examples=60, deadline=None, derandomize=True)
@given(dags(), st.booleans())
def test_fusion_keeps_what_a_random_dag_computes(text: str, bind: bool) -> None:
    module = verify_module(parse_module(text))
    rng = np.random.default_rng(1)
    x, z, w, c = (rng.uniform(-1, 1, s).astype("float32") for s in ((2, 3), (2, 3), (3, 3), (3,)))
    expected = run(module, "main", x, z, w, c)
    inputs = [x, z, w, c]
    if bind:
        module = BindParams("main", {"w": w, "c": c})(module)
        inputs = [x, z]
    for step in pipeline():
        module = verify_module(step(module))
        assert_structural_equal(parse_module(module.script(), module.constants), module)
    for found, wanted in zip(run(module, "main", *inputs), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_group_left_alone_means_what_its_kernels_mean() -> None:
    module = fused(graph("a = R.exp(x)", "b = R.tanh(a)", "y = R.add(b, a)"))
    x = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    before = run(module, "main", x)
    after = FusePrimFuncs()(module)
    assert all(
        isinstance(b.value, CallDPS)
        for k in after["main"].body.blocks  # type: ignore[union-attr]
        for b in k.bindings
    )
    np.testing.assert_array_equal(run(after, "main", x), before)


@pytest.mark.parametrize("name", ["default", "debug"])
def test_every_pass_leaves_its_input_alone(name: str) -> None:
    module = parse_module(graph("a = R.exp(x)", "y = R.tanh(a)"))
    text = module.script()
    for step in pipeline(name):
        result = step(module)
        assert module.script() == text
        module, text = result, result.script()


CONCAT = """
@R.function
def main(x: R.Tensor((XDIM, 3))):
    with R.dataflow():
        y = R.relu(R.concat(x, R.exp(x)))
        R.output(y)
    return y
"""


@pytest.mark.parametrize("dim", ['"m"', '"b * t"'])
def test_dims_in_a_relation_keep_it(dim: str) -> None:
    module = fused(CONCAT.replace("XDIM", dim))
    (name,) = kernels(module)
    kernel = verify_module(FusePrimFuncs()(module)).prim_funcs[name]
    assert print_shape(kernel.buffers[-1].shape) in (
        "(m * 2, 3)",
        "(m + m, 3)",
        "(b * t * 2, 3)",
    )


def test_no_kernel_joins_all_of_many_named_parts() -> None:
    """The work on a kernel grows with the square of their number."""
    params = ", ".join(f'x{i}: R.Tensor(("n{i}", 4))' for i in range(48))
    parts = ", ".join(f"R.exp(x{i})" for i in range(48))
    text = f"""
@R.function
def main({params}):
    with R.dataflow():
        y = R.relu(R.concat({parts}))
        R.output(y)
    return y
"""
    module = fused(Canonicalize()(parse_module(text)).script())
    names = kernels(module)
    made = verify_module(FusePrimFuncs()(module)).prim_funcs
    assert max(len(made[name].params) for name in names) <= 32
    assert len(set(names)) < len(names)


def test_a_compound_dim_is_one_dim_of_the_kernel() -> None:
    text = graph("y = R.relu(R.exp(x))").replace("(2, 3)", '("b * t", 3)')
    kernel = FusePrimFuncs()(fused(text)).prim_funcs["fused_exp_relu"]
    assert [v.name for v in kernel.shape_vars] == ["n"]


def test_a_dim_that_no_parameter_of_a_kernel_shows_keeps_its_producer_apart() -> None:
    text = """
@R.function
def main(x: R.Tensor(("n", 3)), one: R.Tensor((), "float32")):
    with R.dataflow():
        ones = R.broadcast_to(one, R.shape([n]))
        y = R.multiply(x, R.sum(ones))
        R.output(y)
    return y
"""
    module = fused(text)
    assert kernels(module) == ["broadcast_to", "sum", "multiply"]
