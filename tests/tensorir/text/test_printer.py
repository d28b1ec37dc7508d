"""The text of PrimFuncs: the manner of TVM's listings, precedence, names, and marked excerpts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from burnish.support.dtype import DType
from burnish.support.errors import InternalError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal
from burnish.tensorir import expr as e
from burnish.tensorir.buffer import Buffer, Range, make_buffer
from burnish.tensorir.expr import BOOL, INDEX, BufferLoad, Call, Expr, FloatImm, IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import Schedule
from burnish.tensorir.stmt import (
    Allocate,
    Block,
    BufferStore,
    Evaluate,
    For,
    IterVar,
    LetStmt,
    seq,
)
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import (
    print_attr,
    print_expr,
    print_func,
    print_marked,
    print_stmt,
)

I, J = Var("i"), Var("j")  # noqa: E741
X, P = Var("x", DType("float32")), Var("p", BOOL)
A = make_buffer("A", [8, 8])

SCHEDULED = """\
@T.prim_func
def main(A: T.Buffer((128, 128), "float32"), B: T.Buffer((128, 128), "float32"), C: T.Buffer((128, 128), "float32")):
    T.func_attr({"global_symbol": "main", "tir.noalias": True})
    # with T.block("root"):
    C_global = T.alloc_buffer((128, 128))
    for i_0_j_0_fused in T.parallel(64, annotations={"pragma_auto_unroll_max_step": 64, "pragma_unroll_explicit": 1}):
        for i_2_init, j_2_init in T.grid(1, 4):
            for j_3_fused_init in T.vectorized(16):
                with T.block("C_init"):
                    vi = T.axis.spatial(128, i_0_j_0_fused // 4 * 8 + i_0_j_0_fused % 4 * 2 + i_2_init * 2)
                    vj = T.axis.spatial(128, j_2_init * 16 + j_3_fused_init)
                    T.reads()
                    T.writes(C_global[vi, vj])
                    T.block_attr({"meta_schedule.tiling_structure": "SSRSRS"})
                    C_global[vi, vj] = T.float32(0)
        for k_0, j_2, k_1 in T.grid(16, 4, 8):
            for j_3_fused in T.vectorized(16):
                with T.block("C_update"):
                    vi = T.axis.spatial(128, i_0_j_0_fused // 4 * 8)
                    vj = T.axis.spatial(128, j_2 * 16 + j_3_fused)
                    vk = T.axis.reduce(128, k_0 * 8 + k_1)
                    T.reads(C_global[vi, vj], A[vi, vk], B[vk, vj])
                    T.writes(C_global[vi, vj])
                    C_global[vi, vj] = C_global[vi, vj] + A[vi, vk] * B[vk, vj]
        for ax0, ax1 in T.grid(2, 64):
            with T.block("C_global"):
                v0, v1 = T.axis.remap("SS", [ax0, ax1])
                T.reads(C_global[v0, v1])
                T.writes(C[v0, v1])
                C[v0, v1] = C_global[v0, v1]
"""  # noqa: E501 - one line a header, as printed

LOWERED = """\
@T.prim_func
def main(A: T.Buffer((64,), "float32"), n: T.int64, B: T.Buffer(("n",), "float32", strides=("s",), elem_offset="o", scope="shared", align=64)):
    C = T.allocate([64], "float32", "local", align=64, annotations={"k": [1, 2]})
    with T.LetStmt(n * 2) as m:
        T.evaluate(m)
    x: T.float32 = T.float32(1)
    if n < 4:
        C.vstore([T.Ramp(0, 1, 8)], A.vload([T.Ramp(0, 1, 8)], predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8)) + T.Broadcast(x, 8), predicate=T.Ramp(0, 1, 8) < T.Broadcast(n, 8))
    else:
        for i in range(2, n):
            B[i] = T.Let(y + C[i], where={y: T.float32("inf")})
    for i in T.thread_binding(8, thread="threadIdx.x"):
        T.evaluate(T.prefetch(A[i]))
"""  # noqa: E501


@pytest.mark.parametrize("text", [SCHEDULED, LOWERED], ids=["scheduled", "lowered"])
def test_texts_print_as_they_were_parsed(text: str) -> None:
    assert print_func(parse_func(text)) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        ((I + J) * 4, "(i + j) * 4"),
        (I - (J - 1), "i - (j - 1)"),
        (I - J - 1, "i - j - 1"),
        (I * (J // 2), "i * (j // 2)"),
        (I % 4 * 8, "i % 4 * 8"),
        (e.Add(IntImm(1), IntImm(2)), "T.int64(1) + 2"),
        (e.Sub(I, IntImm(-4)), "i - -4"),
        (-I, "0 - i"),
        (-X, "-x"),
        (-X * X, "-x * x"),
        (-(X * X), "-(x * x)"),
        (Call("neg", (FloatImm(1.0),), X.dtype), "T.neg(T.float32(1))"),
        (X / (X * X), "x / (x * x)"),
        (e.Div(I, J), "T.truncdiv(i, j)"),
        (e.And(P, e.Or(P, P)), "p and (p or p)"),
        (e.Or(e.And(P, P), P), "p and p or p"),
        (e.And(P, e.And(P, P)), "p and (p and p)"),
        (e.Not(e.And(P, P)), "not (p and p)"),
        (e.Not(I < J), "not i < j"),
        (e.EQ(e.LT(I, J), P), "(i < j) == p"),
        (IntImm(1, BOOL), "T.bool(True)"),
        (IntImm(3, DType("uint8")), "T.uint8(3)"),
        (FloatImm(-0.0), "T.float32(-0.0)"),
        (FloatImm(1e20), "T.float32(1e+20)"),
        (FloatImm(float("nan"), DType("float16")), 'T.float16("nan")'),
        (e.Cast(DType("float32"), I + 1), 'T.Cast("float32", i + 1)'),
        (A[I, J + 1], "A[i, j + 1]"),
        (make_buffer("s", [])[()], "s[()]"),
    ],
)
def test_expressions(expr: Expr, text: str) -> None:
    assert print_expr(expr) == text


def test_names_are_unique_in_scope_and_free_again_after_it() -> None:
    x, y = Var("i"), Var("i")
    nested = For(x, IntImm(0), IntImm(4), "serial", BufferStore(A, A[x, x], (x, x)))
    after = For(y, IntImm(0), IntImm(4), "unrolled", BufferStore(A, A[y, y], (y, y)))
    outer = For(I, IntImm(0), J * 2, "parallel", seq(nested, after))
    assert print_stmt(outer) == (
        "for i in T.parallel(j * 2):\n"
        "    for i_1 in range(4):\n"
        "        A[i_1, i_1] = A[i_1, i_1]\n"
        "    for i_1 in T.unroll(4):\n"
        "        A[i_1, i_1] = A[i_1, i_1]\n"
    )


def test_words_of_the_language_are_not_taken_as_names() -> None:
    params = tuple([make_buffer(n, [1]) for n in ("T", "range", "for", "a.b", "0", "x", "x")])
    func = PrimFunc(params, Evaluate(IntImm(0)), name="def")
    header = print_func(func).splitlines()[1]
    names = [p.split(":")[0] for p in header.split("(", 1)[1].split(", ") if ": T." in p]
    assert names == ["T_1", "range_1", "for_1", "a_b", "v0", "x", "x_1"]


def test_loops_whose_extent_depends_on_another_are_no_grid() -> None:
    store = BufferStore(A, FloatImm(0.0), (I, J))
    inner = For(J, IntImm(0), I + 1, "serial", store)
    text = print_stmt(For(I, IntImm(0), IntImm(4), "serial", inner))
    assert text.startswith("for i in range(4):\n    for j in range(i + 1):\n")


def test_lets_and_allocations_are_lines_only_where_nothing_follows() -> None:
    let = LetStmt(J, IntImm(3), Evaluate(J))
    assert print_stmt(seq(Evaluate(I), let)) == "T.evaluate(i)\nj: T.int64 = 3\nT.evaluate(j)\n"
    assert print_stmt(seq(let, Evaluate(I))) == (
        "with T.LetStmt(3) as j:\n    T.evaluate(j)\nT.evaluate(i)\n"
    )
    allocate = Allocate(make_buffer("C", [4]), Evaluate(I))
    assert print_stmt(allocate) == 'C = T.allocate([4], "float32", "global")\nT.evaluate(i)\n'


def test_a_block_alone_prints_its_axes_without_bindings() -> None:
    v = Var("v")
    block = Block("B", (IterVar(v, Range(IntImm(0), IntImm(8)), "spatial"),), (), (), Evaluate(v))
    assert print_stmt(block) == (
        'with T.block("B"):\n'
        "    v = T.axis.spatial(8)\n"
        "    T.reads()\n"
        "    T.writes()\n"
        "    T.evaluate(v)\n"
    )


def test_a_root_block_with_something_to_say_is_printed() -> None:
    f = parse_func(SCHEDULED)
    root = f.root
    named = parse_func(
        'def main(A: T.Buffer((4,), "float32")):\n'
        '    with T.block("root"):\n'
        "        T.reads()\n        T.writes()\n"
        '        T.block_attr({"parallel": 16})\n'
        "        A[0] = 1.0\n"
    )
    assert root.annotations == ()
    assert named.root.annotations == (("parallel", 16),)
    assert '    with T.block("root"):' in print_func(named)


def test_another_name() -> None:
    assert print_func(parse_func(LOWERED), name="other").splitlines()[1].startswith("def other(")


# -- marked excerpts -----------------------------------------------------------------------------
def test_marked_load(golden: Callable[..., None]) -> None:
    f = parse_func(SCHEDULED)
    load = next(n for n in walk(f.body) if isinstance(n, BufferLoad) and n.buffer.name == "B")
    golden(print_marked(f, [load], "this load is guilty"))


def test_marked_block_and_loop(golden: Callable[..., None]) -> None:
    f = parse_func(SCHEDULED)
    block = next(n for n in walk(f.body) if isinstance(n, Block) and n.name == "C_update")
    loop = next(n for n in walk(f.body) if isinstance(n, For) and n.var.name == "j_2")
    golden(print_marked(f, [block, loop], context=2))


def test_marked_variable_is_underlined_wherever_it_stands() -> None:
    f = parse_func(
        'def f(A: T.Buffer((4,), "float32")):\n    for i in range(4):\n        A[i] = A[i]'
    )
    loop = next(n for n in walk(f.body) if isinstance(n, For))
    assert print_marked(f, [loop.var]).splitlines()[2:] == [
        "    for i in range(4):",
        "        ^",
        "        A[i] = A[i]",
        "          ^      ^",
    ]


def test_nothing_to_mark_gives_the_whole_text() -> None:
    f = parse_func(LOWERED)
    assert print_marked(f, [Var("elsewhere")]) == print_func(f).rstrip("\n")


# -- the rest ------------------------------------------------------------------------------------
def test_attributes_are_plain_values() -> None:
    value = {"a": [1, 2.5, True, None], "b": 'x"\n', "c": float("inf")}
    assert print_attr(value) == '{"a": [1, 2.5, True, None], "b": "x\\"\\n", "c": float("inf")}'
    with pytest.raises(InternalError, match="holds a Var"):
        print_attr(I)


def test_what_has_no_text_is_our_defect() -> None:
    class Odd(Expr):
        dtype = INDEX

    with pytest.raises(InternalError, match="Odd has no text form"):
        print_expr(Odd())


def test_no_colours_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    f = parse_func(LOWERED)
    f.show()
    assert capsys.readouterr().out == f.script()
    assert "prim_func" in f._repr_html_()
    assert f.script().startswith("# from burnish.script import T\n\n@T.prim_func\n")
    assert isinstance(f.params[0], Buffer)


def test_strides_of_views_in_different_blocks_stay_apart() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((8, 6), "float32"), C: T.Buffer((8, 6), "float32")):
    for i in range(2):
        with T.block("tile"):
            vi = T.axis.spatial(2, i)
            T.reads(A[vi * 4:vi * 4 + 4, 0:6])
            T.writes(C[vi * 4:vi * 4 + 4, 0:6])
            source = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:6], (4, 6), strides=("s0", "s1"))
            for x, y in T.grid(4, 6):
                with T.block("C"):
                    vx, vy = T.axis.remap("SS", [x, y])
                    C[vi * 4 + vx, vy] = source[vx, vy]
"""
    sch = Schedule(parse_func(text), seed=0)
    sch.loop_partition(sch.get_loops("tile")[0], [1, None])
    script = sch.func.script()
    assert '"s0_1"' in script
    assert_structural_equal(parse_func(script), sch.func)


def test_what_a_prompt_shows_of_a_node_is_its_text() -> None:
    n = Var("n")
    assert repr(n + 1) == "n + 1"
    func = parse_func(
        """
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            v = T.axis.spatial(8, i)
            A[v] = A[v] + T.float32(1)
"""
    )
    blocks = [x for x in walk(func.body) if isinstance(x, Block) and x.name == "A"]
    (block,) = blocks
    assert repr(block.body) == "A[v] = A[v] + T.float32(1)"
    assert repr(block.iter_vars) == "(v: spatial [0, 8),)"
    assert repr(block.reads) == "(A[v],)"


def test_dims_of_other_integers_parse_back() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((T.int32(8), 2), "float32"), n: T.int32, B: T.Buffer((n, n * 2), "float32")):
    B[0, 0] = A[0, 0]
""")
    text = print_func(func)
    assert 'A: T.Buffer((8, 2), "float32")' in text
    assert """B: T.Buffer(('T.Cast("int64", n)', """ in text
    assert_structural_equal(parse_func(text), func)
