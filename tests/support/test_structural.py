"""Structural equality and hashing: what counts, what does not, and that the two agree."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from burnish.graphir.builder import BlockBuilder, call_op
from burnish.graphir.expr import CallDPSPacked, Constant, GlobalVar, constant
from burnish.graphir.expr import Var as GraphVar
from burnish.graphir.module import IRModule
from burnish.graphir.type import tensor_type
from burnish.support.dtype import DType
from burnish.support.errors import InternalError, StructuralEqualityError
from burnish.support.node import Node, map_children
from burnish.support.structural import (
    assert_structural_equal,
    first_difference,
    structural_equal,
    structural_hash,
)
from burnish.tensorir.buffer import Buffer, BufferRegion, Range, make_buffer
from burnish.tensorir.expr import (
    BOOL,
    Add,
    BufferLoad,
    Call,
    Expr,
    FloatImm,
    IntImm,
    Let,
    Max,
    Mul,
    Sub,
    Var,
)
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import Block, BlockRealize, BufferStore, For, IterVar, Stmt

LAW = settings(max_examples=60, deadline=None, derandomize=True)
ZERO, ONE, TRUE = IntImm(0), IntImm(1), IntImm(1, BOOL)


def scale(
    prefix: str = "",
    n: Expr | int = 16,
    *,
    factor: float = 2.0,
    kind: str = "serial",
    **attrs: object,
) -> PrimFunc:
    """``B[i] = A[i] * factor`` over ``n`` elements; every name begins with ``prefix``."""
    a, b = make_buffer(f"{prefix}A", (n,)), make_buffer(f"{prefix}B", (n,))
    i, v = Var(f"{prefix}i"), Var(f"{prefix}vi")
    extent = a.shape[0]
    block = Block(
        f"{prefix}block",
        (IterVar(v, Range(ZERO, extent), "spatial"),),
        (BufferRegion(a, (Range(v, ONE),)),),
        (BufferRegion(b, (Range(v, ONE),)),),
        BufferStore(b, a[v] * factor, (v,)),
    )
    loop = For(i, ZERO, extent, kind, BlockRealize((i,), TRUE, block))
    root = Block(f"{prefix}root", (), (), (), loop)
    items = (("global_symbol", f"{prefix}main"), *attrs.items())
    return PrimFunc((a, b), BlockRealize((), TRUE, root), items, f"{prefix}main")


# -- what does not count
# ------------------------------------------------------------------------------
def test_names_do_not_count() -> None:
    assert structural_equal(scale("x_"), scale("y_"))
    assert structural_hash(scale("x_")) == structural_hash(scale("y_"))


def test_names_count_when_asked() -> None:
    assert structural_equal(scale(), scale(), names=True)
    assert (
        first_difference(scale("x_"), scale("y_"), names=True) == "params[0].name: 'x_A' and 'y_A'"
    )
    assert structural_hash(scale("x_"), names=True) != structural_hash(scale("y_"), names=True)


def test_attributes_have_no_order_and_the_symbol_is_a_name() -> None:
    one = scale("p", tir=1, inplace=True)
    other = scale("q", inplace=True, tir=1)
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)
    assert first_difference(one, other.with_attr("tir", 2)) == "attrs[1][1]: 1 and 2"
    assert first_difference(one, other.without_attr("tir")) == "attrs: 2 items and 1 item"


def test_lists_and_tuples_are_one_kind_of_sequence() -> None:
    assert structural_equal(scale(layout_free=[0, 1]), scale(layout_free=(0, 1)))
    assert structural_hash(scale(layout_free=[0])) == structural_hash(scale(layout_free=(0,)))
    assert not structural_equal(scale(layout_free=[0]), scale(layout_free=0))


# -- what counts
# ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (scale(n=8), "params[0].shape[0].value: 16 and 8"),
        (scale(factor=3.0), "body.block.body.body.block.body.value.b.value: 2.0 and 3.0"),
        (scale(kind="parallel"), "body.block.body.kind: 'serial' and 'parallel'"),
    ],
)
def test_the_first_difference_is_named_by_its_path(other: PrimFunc, difference: str) -> None:
    assert first_difference(scale(), other) == difference
    assert structural_hash(scale()) != structural_hash(other)


def test_classes_count() -> None:
    x, y = Var("x"), Var("y")
    assert first_difference(Add(x, y), Sub(x, y)) == "at the root: Add and Sub"
    assert first_difference(Add(x, y), Add(x, ONE)) == ".b: Var 'y' and IntImm 1".lstrip(".")


def test_a_variable_stands_for_one_variable() -> None:
    x, y = Var("x"), Var("y")
    assert not structural_equal(Add(x, x), Add(x, y))
    assert not structural_equal(Add(x, y), Add(x, x))
    assert first_difference(Add(x, y), Add(x, x)) == (
        "b: Var 'y' and Var 'x', which stands for Var 'x'"
    )
    assert structural_equal(Add(x, y), Add(y, x))
    assert not structural_equal((Add(x, y), x), (Add(y, x), x))


def test_variables_agree_in_dtype_and_buffers_in_all_but_the_name() -> None:
    assert not structural_equal(Var("x"), Var("x", DType("int32")))
    assert structural_equal(make_buffer("A", (4,)), make_buffer("B", (4,)))
    assert not structural_equal(make_buffer("A", (4,)), make_buffer("A", (4,), "float64"))
    assert not structural_equal(make_buffer("A", (4,)), make_buffer("A", (4,), scope="local"))
    assert not structural_equal(
        Buffer("A", (ONE,), DType("int8"), alignment=64), Buffer("A", (ONE,), DType("int8"))
    )


def test_free_variables_are_themselves_unless_mapped() -> None:
    x, y, n = Var("x"), Var("y"), Var("n")
    assert structural_equal(Add(x, n), Add(y, n))
    assert not structural_equal(Add(x, n), Add(y, n), map_free_vars=False)
    assert structural_equal(Let(x, n, Add(x, n)), Let(y, n, Add(y, n)), map_free_vars=False)
    loops = [
        For(v, ZERO, n, "serial", BufferStore(make_buffer("A", (4,)), ONE, (v,))) for v in (x, y)
    ]
    found = first_difference(*loops, map_free_vars=False)
    assert found == "body.buffer: free Buffer 'A' and another free Buffer 'A'"


def test_dims_of_parameters_are_bound_and_extents_are_not() -> None:
    m, n = Var("m"), Var("n")
    assert structural_equal(scale(n=m), scale(n=n), map_free_vars=False)
    store = scale().root
    axes = [IterVar(Var("v"), Range(ZERO, k), "spatial") for k in (m, n)]
    assert structural_equal(axes[0], axes[1])
    assert not structural_equal(axes[0], axes[1], map_free_vars=False)
    assert structural_equal(store, store, map_free_vars=False)


def test_numbers_keep_their_type_and_sign() -> None:
    values = [0, 1, True, 1.0, 0.0, -0.0, float("nan"), float("inf"), None, "1", b"1"]
    funcs = [scale(value=v) for v in values]
    hashes = {structural_hash(f) for f in funcs}
    assert len(hashes) == len(values)
    for i, f in enumerate(funcs):
        assert [structural_equal(f, g) for g in funcs] == [i == j for j in range(len(funcs))]
    assert structural_equal(scale(value=np.int64(1)), scale(value=1))


def test_dicts_compare_without_order() -> None:
    assert structural_equal(scale(d={"a": 1, "b": [2]}), scale(d={"b": [2], "a": 1}))
    assert first_difference(scale(d={"a": 1}), scale(d={"a": 2})) == "attrs[0][1][0][1]: 1 and 2"
    assert not structural_equal(scale(d={"a": 1}), scale(d=[["a", 1]]))


def test_constants_compare_by_dtype_shape_and_bits() -> None:
    base = np.arange(6, dtype=np.float32)
    nan = np.array([np.nan], np.float32)
    assert structural_equal(constant(base), constant(base.copy()))
    assert structural_equal(constant(nan), constant(nan.copy()))
    assert structural_equal(
        constant(base.reshape(2, 3)), constant(base.reshape(2, 3).copy(order="F"))
    )
    for other in (base + 1, base.reshape(2, 3), base.astype(np.float64), -base * 0 + base[::-1]):
        assert not structural_equal(constant(base), constant(other))
        assert structural_hash(constant(base)) != structural_hash(constant(other))
    assert structural_hash(constant(np.float32(1))) == structural_hash(constant(np.float32(1)))
    assert structural_hash(constant(np.zeros((0, 3)))) != structural_hash(
        constant(np.zeros((3, 0)))
    )


def test_names_that_refer_count() -> None:
    assert not structural_equal(GlobalVar("f"), GlobalVar("g"))
    kind = tensor_type((1,))
    assert not structural_equal(CallDPSPacked("f", (), kind), CallDPSPacked("g", (), kind))
    x = Var("x", DType("float32"))
    assert not structural_equal(Call("exp", (x,), x.dtype), Call("log", (x,), x.dtype))


def test_a_value_without_meaning_is_a_defect() -> None:
    with pytest.raises(InternalError, match="a node holds a object"):
        structural_hash(scale(value=object()))
    with pytest.raises(InternalError, match="a node holds a set"):
        structural_equal(scale(value={1}), scale(value={1}))


# -- modules
# ------------------------------------------------------------------------------------------
def module(prefix: str, out: str = "main", **functions: PrimFunc) -> IRModule:
    builder = BlockBuilder(IRModule(functions))
    x = GraphVar(f"{prefix}x", tensor_type((2, 3)))
    with builder.function(out, [x]):
        with builder.dataflow():
            y = builder.emit(CallDPSPacked("relu", (x,), x.type), f"{prefix}y")
        builder.emit_func_output(y)
    return builder.get()


def test_modules_compare_function_by_function() -> None:
    one, other = module("a", f=scale("a")), module("b", f=scale("b"))
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)
    assert first_difference(one, module("a", g=scale())) == (
        "at the root: functions f, main and functions g, main"
    )
    assert (
        first_difference(one, module("a", f=scale(n=8))) == "f.params[0].shape[0].value: 16 and 8"
    )
    other.attrs["entry"] = "main"
    assert first_difference(one, other) == "attrs: 0 items and 1 item"


def test_functions_of_a_module_have_scopes_of_their_own() -> None:
    shared = scale()
    one = IRModule({"f": shared, "g": shared})
    other = IRModule({"g": scale("q"), "f": scale("p")})
    assert structural_equal(one, other)
    assert structural_hash(one) == structural_hash(other)


def test_assert_structural_equal_shows_the_difference() -> None:
    assert_structural_equal(scale("x"), scale("y"))
    with pytest.raises(StructuralEqualityError) as caught:
        assert_structural_equal(scale(), scale(n=8))
    assert isinstance(caught.value, AssertionError)
    assert caught.value.difference == "params[0].shape[0].value: 16 and 8"
    assert str(caught.value).startswith(
        "The programs are not structurally equal. "
        "First difference at params[0].shape[0].value: 16 and 8.\n--- left\n"
    )
    left, right = str(caught.value).split("--- left\n")[1].split("\n--- right\n")
    assert "A: T.Buffer((16,)" in left
    assert "A: T.Buffer((8,)" in right


def test_the_difference_of_graph_functions_comes_with_their_texts() -> None:
    functions = []
    for op in ("exp", "tanh"):
        builder = BlockBuilder()
        x = GraphVar("x", tensor_type((2,)))
        with builder.function("main", [x]):
            builder.emit_func_output(builder.emit(call_op(op, x)))
        functions.append(builder.get()["main"])
    with pytest.raises(StructuralEqualityError) as caught:
        assert_structural_equal(*functions)
    assert "value.op: 'exp' and 'tanh'." in str(caught.value)
    left, right = str(caught.value).split("--- left\n")[1].split("\n--- right\n")
    assert "lv = R.exp(x)" in left
    assert "lv = R.tanh(x)" in right


def test_smaller_nodes_are_shown_by_their_repr() -> None:
    with pytest.raises(StructuralEqualityError, match=r"(?s)at value: 0 and 1.*--- left\n.*---"):
        assert_structural_equal(ZERO, ONE)
    with pytest.raises(StructuralEqualityError, match="First difference at the root: "):
        assert_structural_equal(ZERO, Add(ZERO, ONE))


def test_deep_trees_need_no_recursion() -> None:
    trees = []
    for name in ("x", "y"):
        e: Expr = Var(name)
        for _ in range(5000):
            e = Add(e, ONE)
        trees.append(e)
    assert structural_equal(*trees)
    assert structural_hash(trees[0]) == structural_hash(trees[1])


def test_the_hash_is_the_same_in_every_process() -> None:
    program = (
        "from burnish.support.structural import structural_hash as h\n"
        "from burnish.tensorir.expr import Add, Call, FloatImm, Var\n"
        "x = Var('x', Var('y').dtype)\n"
        "print(h(Call('f', (Add(x, x), FloatImm(0.5)), x.dtype)), hash('x'))"
    )
    outputs = set()
    for seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        )
        outputs.add(tuple(result.stdout.split()))
    assert len({string_hash for _, string_hash in outputs}) == 2
    assert len({digest for digest, _ in outputs}) == 1
    x = Var("z")
    here = structural_hash(Call("f", (Add(x, x), FloatImm(0.5)), x.dtype))
    assert {digest for digest, _ in outputs} == {here}


# -- laws
# ---------------------------------------------------------------------------------------------
VARS = tuple(Var(name) for name in "xyz")
BUFFER = make_buffer("A", (8,), "int64")


@st.composite
def exprs(draw: st.DrawFn, depth: int = 3) -> Expr:
    """A small expression over three variables and a buffer: small enough that equal ones occur."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(st.sampled_from((*VARS, ZERO, ONE)))
    a, b = draw(exprs(depth=depth - 1)), draw(exprs(depth=depth - 1))
    return draw(st.sampled_from((Add(a, b), Mul(a, b), Max(a, b), BufferLoad(BUFFER, (a,)))))


@st.composite
def stmts(draw: st.DrawFn) -> Stmt:
    value, index = draw(exprs()), draw(exprs(depth=1))
    body: Stmt = BufferStore(BUFFER, value, (index,))
    for v in draw(st.lists(st.sampled_from(VARS), max_size=2, unique=True)):
        body = For(v, ZERO, IntImm(8), "serial", body)
    return body


def renamed(n: Node) -> Node:
    """A copy with fresh binders of other names."""
    fresh: dict[int, Node] = {}

    def visit(m: Node) -> Node:
        if isinstance(m, Var):
            return fresh.setdefault(id(m), Var(f"{m.name}_new", m.dtype))
        if isinstance(m, Buffer):
            new = Buffer(f"{m.name}_new", m.shape, m.dtype)
            return fresh.setdefault(id(m), new)
        return map_children(m, visit)

    return visit(n)


@LAW
@given(st.one_of(exprs(), stmts()))
def test_renaming_changes_nothing(n: Node) -> None:
    other = renamed(n)
    assert structural_equal(n, other)
    assert structural_equal(other, n)
    assert structural_hash(n) == structural_hash(other)


@LAW
@given(exprs(depth=2), exprs(depth=2))
def test_the_hash_agrees_with_equality(a: Expr, b: Expr) -> None:
    equal = structural_equal(a, b)
    assert equal == structural_equal(b, a)
    assert equal == (structural_hash(a) == structural_hash(b))
    assert equal == (first_difference(a, b) is None)
    if structural_equal(a, b, names=True) or structural_equal(a, b, map_free_vars=False):
        assert equal


def test_constants_of_the_graph_are_leaves() -> None:
    c = constant([1.0, 2.0])
    assert isinstance(c, Constant)
    found = first_difference(c, constant([1.0, 3.0]))
    assert found is not None
    assert found.startswith("bits: b'")


def test_the_mark_of_a_schedule_is_no_difference() -> None:
    bare = scale()
    marked = bare.with_attr("is_scheduled", True)
    assert_structural_equal(marked, bare)
    assert_structural_equal(IRModule.from_expr(bare), IRModule.from_expr(marked))
    assert not structural_equal(marked, bare)
    with pytest.raises(StructuralEqualityError, match="First difference"):
        assert_structural_equal(marked, bare.with_attr("other", 1))
