"""Text to PrimFunc: the round trip with the printer, what TVM's programs use, and every error."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from burnish.support.dtype import DType
from burnish.support.errors import ParseError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal, structural_equal
from burnish.tensorir import expr as e
from burnish.tensorir.buffer import Buffer
from burnish.tensorir.expr import INDEX, BufferLoad, FloatImm, IntImm, Var
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import (
    Allocate,
    Block,
    BlockRealize,
    BufferStore,
    For,
    IfThenElse,
    LetStmt,
)
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.strategies.prim_funcs import lowered_funcs, scheduled_funcs

LAW = settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    # The difference names its place; shrinking whole functions takes minutes.
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)


PARAMS = 'A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")'


def func(body: str, params: str = PARAMS, **env: object) -> PrimFunc:
    """A function of these parameters with ``body`` as its statements."""
    text = f"@T.prim_func\ndef main({params}):\n" + textwrap.indent(
        textwrap.dedent(body).strip(), "    "
    )
    return parse_func(text, env)


def blocks(f: PrimFunc) -> dict[str, Block]:
    return {n.name: n for n in walk(f.body) if isinstance(n, Block)}


def stored(
    expr: str,
    params: str = 'A: T.Buffer((8,), "float32"), i: T.int64, n: T.int32, p: T.bool',
    **env: object,
) -> e.Expr:
    """The value of ``A[0] = expr``."""
    f = func(f"A[0] = {expr}", params, **env)
    return next(n.value for n in walk(f.body) if isinstance(n, BufferStore))


# -- the law -------------------------------------------------------------------------------------
@LAW
@given(scheduled_funcs())
def test_round_trip_of_scheduled_functions(f: PrimFunc) -> None:
    verify_func(f)
    again = parse_func(f.script())
    assert_structural_equal(again, f)
    assert again.script() == f.script()


@LAW
@given(lowered_funcs())
def test_round_trip_of_lowered_functions(f: PrimFunc) -> None:
    verify_func(f)
    again = parse_func(f.script())
    assert_structural_equal(again, f)
    assert again.script() == f.script()


# -- what programs of TVM contain ----------------------------------------------------------------
def test_omitted_reads_writes_and_root_are_restored() -> None:
    f = func("""
        C = T.alloc_buffer((8, 4), "float32")
        for i, j in T.grid(8, 4):
            with T.block("C"):
                vi, vj = T.axis.remap("SS", [i, j])
                C[vi, vj] = A[vi, vj] * 2.0
        for i, j in T.grid(8, 4):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                with T.init():
                    B[vi, vj] = 0.0
                B[vi, vj] = B[vi, vj] + C[vi, vj]
    """)
    assert f.root.name == "root"
    assert [b.name for b in f.root.alloc_buffers] == ["C"]
    made = blocks(f)["B"]
    assert [r.buffer.name for r in made.reads] == ["C"]
    assert [r.buffer.name for r in made.writes] == ["B"]
    assert made.init is not None
    store = next(n for n in walk(made.init) if isinstance(n, BufferStore))
    assert isinstance(store.value, FloatImm)
    assert store.value.dtype == "float32"
    verify_func(f)


def test_flat_views_of_buffers_are_read_at_their_element() -> None:
    f = func("""
        C = T.allocate([32], "float32", "global")
        C_1 = T.Buffer((32,), data=C)
        A_1 = T.Buffer((32,), data=A.data)
        for m, l in T.grid(8, 4):
            cse_var_1: T.int32 = m * 4 + l
            C_1[cse_var_1] = A_1[m * 4 + l]
    """)
    assert isinstance(f.body, Allocate)
    let = next(n for n in walk(f.body) if isinstance(n, LetStmt))
    assert let.var.dtype is INDEX
    load = next(n for n in walk(f.body) if isinstance(n, BufferLoad))
    assert load.buffer is f.buffers[0]
    assert "C[cse_var_1] = A[(m * 4 + l) // 4, (m * 4 + l) % 4]" in f.script()
    verify_func(f)


def test_handles_and_symbolic_dims() -> None:
    f = func(
        """
        n = T.int64()
        A = T.match_buffer(a, (n, 128), "float32")
        B = T.match_buffer(b, (n, 128))
        for i, j in T.grid(n, 128):
            with T.block("B"):
                vi, vj = T.axis.remap("SS", [i, j])
                B[vi, vj] = T.exp(A[vi, vj])
        """,
        "a: T.handle, b: T.handle",
    )
    assert [p.name for p in f.params] == ["A", "B"]
    assert [v.name for v in f.shape_vars] == ["n"]
    assert 'def main(A: T.Buffer(("n", 128), "float32")' in f.script()
    verify_func(f)


def test_string_dims_are_one_variable_and_may_be_arithmetic() -> None:
    f = func(
        "B[0] = A[0]",
        'A: T.Buffer(("n",), "float32"), B: T.Buffer(("n * 4",), "float32")',
    )
    (n,) = f.shape_vars
    assert f.buffers[0].shape[0] is n
    product = f.buffers[1].shape[0]
    assert isinstance(product, e.Mul)
    assert product.a is n


def test_a_scalar_parameter_may_be_a_dim_of_a_buffer_before_it() -> None:
    f = func("A[0] = 1.0", 'A: T.Buffer(("n",), "float32"), n: T.int64')
    assert f.buffers[0].shape[0] is f.params[1]
    assert f.shape_vars == ()


def test_one_element_grid_and_loops_of_every_kind() -> None:
    f = func("""
        for a in T.grid(4):
            for b in T.parallel(2, annotations={"pragma_auto_unroll_max_step": 512}):
                for c in T.vectorized(2):
                    for d in T.unroll(2):
                        for g in T.thread_binding(2, thread="blockIdx.x"):
                            for h in T.serial(1, 4):
                                A[a, h] = 1.0
    """)
    loops = [n for n in walk(f.body) if isinstance(n, For)]
    kinds = ["serial", "parallel", "vectorized", "unrolled", "thread_binding", "serial"]
    assert [n.kind for n in loops] == kinds
    assert loops[1].annotations == (("pragma_auto_unroll_max_step", 512),)
    assert loops[4].thread == "blockIdx.x"
    assert isinstance(loops[5].extent, IntImm)
    assert loops[5].extent.value == 3


def test_names_around_the_function_become_constants() -> None:
    f = func(
        """
        for i, j in T.grid(N, shape[1]):
            A[i, j] = scale + N // 2
        """,
        "A: T.Buffer(shape, dt)",
        N=np.int64(8),
        shape=(8, 4),
        scale=0.5,
        dt=DType("float16"),
    )
    assert f.buffers[0].dtype == "float16"
    store = next(n for n in walk(f.body) if isinstance(n, BufferStore))
    assert isinstance(store.value, FloatImm)
    assert store.value.value == 4.5


def test_if_else_and_augmented_assignment() -> None:
    f = func("""
        for i in range(8):
            if i < 4:
                A[i, 0] += 1.0
            elif i == 5:
                A[i, 0] = 2.0
            else:
                A[i, 0] = 3.0
    """)
    branch = next(n for n in walk(f.body) if isinstance(n, IfThenElse))
    assert isinstance(branch.else_case, IfThenElse)
    assert "A[i, 0] = A[i, 0] + T.float32(1)" in f.script()


def test_nested_block_match_buffer_and_predicate() -> None:
    f = func("""
        for i in range(3):
            with T.block("outer"):
                vi = T.axis.spatial(3, i)
                T.where(i * 4 < 8)
                T.reads(A[vi * 4:vi * 4 + 4, 0:4])
                T.writes(B[vi * 4:vi * 4 + 4, 0:4])
                tile = T.match_buffer(A[vi * 4:vi * 4 + 4, 0:4], (4, 4), strides=("s0", "s1"))
                for j, k in T.grid(4, 4):
                    with T.block("inner"):
                        vj, vk = T.axis.remap("SS", [j, k])
                        B[vi * 4 + vj, vk] = tile[vj, vk]
    """)
    verify_func(f)
    outer = blocks(f)["outer"]
    extents = [r.extent for r in outer.reads[0].region]
    assert all(isinstance(x, IntImm) and x.value == 4 for x in extents)
    assert isinstance(outer.match_buffers[0].buffer.strides[0], Var)
    assert_structural_equal(parse_func(f.script()), f)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("T.float32(0.0)", "T.float32(0)"),
        ("1", "T.float32(1)"),
        ('T.float32("-inf")', 'T.float32("-inf")'),
        ('T.infinity("float32")', 'T.float32("inf")'),
        ('T.min_value("float32")', "T.float32(-3.4028234663852886e+38)"),
        ("T.power(A[i], 2.0)", "T.pow(A[i], T.float32(2))"),
        ("-A[i]", "-A[i]"),
        ("A[n]", 'A[T.Cast("int64", n)]'),
        ("T.cast(i, 'float32')", 'T.Cast("float32", i)'),
        ("T.float32(i // 2)", 'T.Cast("float32", i // 2)'),
        ("T.Select(p & (i > 2), A[i], 0.0)", "T.Select(p and i > 2, A[i], T.float32(0))"),
        ("T.if_then_else(not p, A[i], 0)", "T.if_then_else(not p, A[i], T.float32(0))"),
        ("T.max(A[i], 0.0)", "T.max(A[i], T.float32(0))"),
        (
            "T.Cast('float32', (i << 1) ^ 3)",
            'T.Cast("float32", T.bitwise_xor(T.shift_left(i, 1), 3))',
        ),
        ("T.Cast('float32', T.truncdiv(n, 2))", 'T.Cast("float32", T.truncdiv(n, T.int32(2)))'),
    ],
)
def test_expressions(text: str, expected: str) -> None:
    f = func(f"A[0] = {text}", 'A: T.Buffer((8,), "float32"), i: T.int64, n: T.int32, p: T.bool')
    assert f.script().splitlines()[-1].strip() == f"A[0] = {expected}"


def test_nothing_is_folded_but_python_numbers() -> None:
    value = stored("T.Cast('float32', i * 1 + 0)")
    assert isinstance(value, e.Cast)
    assert isinstance(value.value, e.Add)
    assert isinstance(value.value.a, e.Mul)
    folded = stored("T.Cast('float32', 6 * 7)")
    assert isinstance(folded, e.Cast)
    assert isinstance(folded.value, IntImm)


def test_every_node_knows_where_it_came_from() -> None:
    f = func("""
        for i in range(8):
            with T.block("B"):
                vi = T.axis.spatial(8, i)
                B[vi, 0] = A[vi, 0] + 1.0
    """)
    loop = next(n for n in walk(f.body) if isinstance(n, For))
    add = next(n for n in walk(f.body) if isinstance(n, e.Add))
    assert loop.span is not None
    assert (loop.span.line, loop.span.column) == (3, 4)
    assert add.span is not None
    assert add.span.source.text.splitlines()[add.span.line - 1][
        add.span.column : add.span.end_column
    ] == ("A[vi, 0] + 1.0")


def test_a_lowered_function_keeps_no_root() -> None:
    f = func("for i in range(8):\n    B[i, 0] = A[i, 0]")
    assert not isinstance(f.body, BlockRealize)


def test_equal_texts_up_to_names() -> None:
    one = func("for i in range(8):\n    B[i, 0] = A[i, 0]")
    other = func("for j in T.serial(8):\n    B[j, 0] = A[j, 0]")
    assert structural_equal(one, other)
    assert isinstance(one.params[0], Buffer)


def test_sizes_called_int32_are_int64_all_the_same() -> None:
    f = parse_func("""
@T.prim_func
def f(a: T.handle, c: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    C = T.match_buffer(c, (n,), "float32")
    for i in range(n):
        with T.block("C"):
            vi = T.axis.spatial(n, i)
            C[vi] = A[vi]
""")
    assert [v.dtype for v in f.shape_vars] == ["int64"]
    verify_func(f)


# -- errors --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "message", "place"),
    [
        ("B[0, 0] = C[0, 0]", "The name 'C' is not defined.", "C"),
        ("B[0, 0] = A[0]", "Expected 2 indices, found 1", "A[0]"),
        (
            "B[0, 0] = T.expp(A[0, 0])",
            "T has no 'expp' that gives a value. Did you mean 'exp'?",
            "T.expp",
        ),
        ("B[0, 0] = A[0.5, 0]", "Expected an integer index, found float32", "0.5"),
        (
            "B[0, 0] = A[0, 0] < 1.0",
            "Expected a value of dtype float32",
            "A[0, 0] < 1.0",
        ),
        ("for i in range(2, 8, 2):\n    B[i, 0] = 1.0", "loops have no step", "range(2, 8, 2)"),
        ("for i, j in T.grid(2):\n    B[i, j] = 1.0", "T.grid has 1 loops, but 2 names", "i, j"),
        ("for i in T.grids(2):\n    B[i, 0] = 1.0", "Did you mean 'T.grid'?", "T.grids"),
        ("for i in A:\n    B[i, 0] = 1.0", "Expected range(...), T.grid(...)", "A"),
        (
            "while True:\n    B[0, 0] = 1.0",
            "Python's While is not part of the text form",
            "while True:",
        ),
        (
            "B[0, 0] = A[0, 0] if True else 1.0",
            "Python's IfExp is not part of the text form of PrimFuncs. Write T.if_then_else",
            "A[0, 0] if True else 1.0",
        ),
        ("return A", "A PrimFunc returns nothing: its results are stored", "return A"),
        ("B[0, 0] = exp(A[0, 0])", "The name 'exp' is not defined. Write T.exp.", "exp"),
        ("B[0, 0] = max(A[0, 0], 0.0)", "The name 'max' is not defined. Write T.max.", "max"),
        (
            "B[0, 0] = helper(A[0, 0])",
            "The Python function 'helper' gives list; expected an expression or a number",
            "helper(A[0, 0])",
        ),
        ("B[0, 0] = A[0, 0] + T.float64(1)", "float32 and", "A[0, 0] + T.float64(1)"),
        ("B[0, 0] = A[0:2, 0]", "A slice stands only in T.reads", "A[0:2, 0]"),
        ("T.reads(A[0, 0])", "T.reads stands inside of a block", "T.reads(A[0, 0])"),
        (
            "vi = T.axis.spatial(8, 0)",
            "T.axis.spatial stands inside of a block",
            "T.axis.spatial(8, 0)",
        ),
        (
            "C = T.Buffer((8,), 'float32')\nB[0, 0] = 1.0",
            "New memory is T.alloc_buffer",
            "T.Buffer((8,), 'float32')",
        ),
        (
            "T.func_attr({})",
            "there is only a header here",
            'def main(A: T.Buffer((8, 4), "float32"), B: T.Buffer((8, 4), "float32")):',
        ),
        ("B[0, 0] = 1 // 0", "This cannot be computed", "1 // 0"),
        ("B[0, 0] = A", "Expected a value, found the buffer 'A'", "A"),
        ("B[0, 0] = T.Select(A[0, 0], 1.0, 2.0)", "Expected a bool, found float32", "A[0, 0]"),
        ("for i in T.serial(4, foo=1):\n    B[i, 0] = 1.0", "A loop has no option 'foo'", "foo=1"),
    ],
)
def test_errors_name_the_guilty_place(body: str, message: str, place: str) -> None:
    def helper(x: object) -> object:
        return [x]

    with pytest.raises(ParseError) as caught:
        func(body, helper=helper)
    assert message in caught.value.message
    span = caught.value.span
    assert span is not None
    line = span.source.text.splitlines()[span.line - 1]
    end = span.end_column if span.end_line == span.line else len(line)
    assert line[span.column : end] == place


def test_remap_wants_loops() -> None:
    with pytest.raises(ParseError, match="Expected the variable of a loop around the block"):
        func("""
            for i in range(4):
                with T.block("B"):
                    vi, vj = T.axis.remap("SS", [i, i + 1])
                    B[vi, vj] = 1.0
        """)


def test_an_error_shows_the_line_and_a_caret() -> None:
    with pytest.raises(ParseError) as caught:
        parse_func(
            '@T.prim_func\ndef f(A: T.Buffer((4,), "float32")):\n    A[0] = é + x', {"é": 1.0}
        )
    assert str(caught.value) == (
        "The name 'x' is not defined.\n"
        "  --> <text>:3:16\n"
        "  |\n"
        "3 |     A[0] = é + x\n"
        "  |                ^"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "Expected the text of one PrimFunc, found 0 functions and 1 other statements"),
        ("def f(A): pass", "The parameter 'A' needs a type"),
        ("def f(*A): pass", "A PrimFunc has plain parameters only"),
        (
            "def f(a: T.handle):\n    T.evaluate(0)",
            "No T.match_buffer says what the handle 'a' points to",
        ),
        ("def f(:", "This is not Python syntax"),
    ],
)
def test_errors_of_whole_functions(text: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_func(text)
    assert message in str(caught.value)
