"""Statements of the text form: what programs of TVM write, and mistakes under their caret."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest

from burnish.support.errors import ParseError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal, structural_equal
from burnish.tensorir.expr import INDEX, IntImm
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import Allocate, BlockRealize, For, LetStmt
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.verify.laws import verify_func
from burnish.tests.native import call_native

X = np.arange(16, dtype="float32") / 4 + 0.5
VECTORS = 'A: T.Buffer((16,), "float32"), B: T.Buffer((16,), "float32")'


def func(body: str, params: str = VECTORS, **env: object) -> PrimFunc:
    """The function, whose text is stable."""
    text = f"@T.prim_func\ndef main({params}):\n" + textwrap.indent(
        textwrap.dedent(body).strip(), "    "
    )
    f = parse_func(text, env)
    again = parse_func(f.script())
    assert_structural_equal(again, f)
    assert again.script() == f.script()
    return verify_func(f)


def filled(body: str, params: str = VECTORS, **env: object) -> np.ndarray:
    """What ``body`` makes of X in B."""
    out = np.zeros_like(X)
    call_native(func(body, params, **env), X, out)
    return out


LOOPS = {
    "range(16)": "serial",
    "range(0, 16)": "serial",
    "range(0, 16, 1)": "serial",
    "T.serial(16)": "serial",
    "T.serial(0, 16)": "serial",
    "T.serial(0, 16, step=1)": "serial",
    "T.serial(T.int64(16))": "serial",
    "T.serial(0, T.int32(16))": "serial",
    'T.serial(16, annotations={"a": "b", "c": [1, 2.5], "d": {"x": True}})': "serial",
    "T.grid(16)": "serial",
    "T.parallel(0, 16)": "parallel",
    "T.vectorized(16)": "vectorized",
    "T.unroll(0, 16)": "unrolled",
    "T.unrolled(16)": "unrolled",
    'T.thread_binding(16, thread="threadIdx.x")': "thread_binding",
    'T.thread_binding(16, "blockIdx.x")': "thread_binding",
    'T.thread_binding(0, 16, "blockIdx.x", annotations={"k": 1})': "thread_binding",
}


@pytest.mark.parametrize(("loop", "kind"), LOOPS.items())
def test_loops(loop: str, kind: str) -> None:
    body = f"for i in {loop}:\n    B[i] = A[i] + 1.0"
    (made,) = [n for n in walk(func(body).body) if isinstance(n, For)]
    assert made.kind == kind
    assert made.extent.dtype is INDEX
    np.testing.assert_array_equal(filled(body), X + 1)


BLOCK = """
for i in range(16):
    with {block}:
        vi = {axis}
        {head}
        B[vi] = A[vi] + 1.0
"""


@pytest.mark.parametrize(
    ("block", "axis", "head"),
    [
        ('T.block("B")', "T.axis.spatial(16, i)", "T.reads(A[vi])"),
        ("T.block()", "T.axis.S(16, i)", "T.writes([B[vi:vi + 1]])"),
        ('T.sblock("B")', "T.axis.spatial((0, 16), i)", 'T.sblock_attr({"k": [1, 2]})'),
        ('T.block("B")', 'T.axis.remap("S", [i])', "T.where(i < 16)"),
        ('T.block("B")', "T.axis.scan(16, i)", 'T.block_attr({"k": 1, "a.b": "c"})'),
        ('T.block("B")', "T.axis.opaque(16, i)", "T.evaluate(0)"),
        ('T.block("opaque")', "T.meta_var(i)", "T.reads(A[i])"),
    ],
)
def test_blocks(block: str, axis: str, head: str) -> None:
    np.testing.assert_array_equal(filled(BLOCK.format(block=block, axis=axis, head=head)), X + 1)


@pytest.mark.parametrize(
    "body",
    [
        "y: T.float32 = A[i]\nB[i] = y + 1.0",
        "c: T.int32 = i + 0\nB[c] = A[c] + 1.0",
        "y = A[i] + 1.0\nB[i] = y",
        "y = T.bind(A[i] + 1.0)\nB[i] = y",
        "y = T.meta_var(A[i] + 1.0)\nB[i] = y",
        "with T.LetStmt(A[i] + 1.0) as y:\n    B[i] = y",
        "B[i] = T.Let(y + y - A[i] + 1.0, where={y: A[i]})",
        "B[i] += A[i]\nB[i] += 1.0",
    ],
)
def test_lets(body: str) -> None:
    np.testing.assert_array_equal(
        filled("for i in range(16):\n" + textwrap.indent(body, "    ")), X + 1
    )


@pytest.mark.parametrize(
    "body",
    [
        'C = T.allocate([16], "float32", "global")\nC_1 = T.Buffer((16,), data=C)',
        'C_1 = T.decl_buffer((16,), "float32")',
        'C = T.allocate([16], "float32", "global")\nC_1 = T.decl_buffer((16,), data=C)',
        'C_1 = T.decl_buffer((16,), scope="local")',
        'C_1 = T.alloc_buffer([16], dtype="float32", offset_factor=1, buffer_type="", align=64)',
        "C_1 = T.sblock_alloc_buffer((16,))",
    ],
)
def test_memory_of_lowered_programs(body: str) -> None:
    body += "\nfor i in range(16):\n    C_1[i] = A[i] + 1.0\nfor i in range(16):\n    B[i] = C_1[i]"
    np.testing.assert_array_equal(filled(body), X + 1)


def test_declarations_with_a_suite_of_their_own() -> None:
    f = func("""
        with T.decl_buffer((16,), "float32") as C:
            with T.decl_buffer((4, 4), data=C) as D:
                for i, j in T.grid(4, 4):
                    D[i, j] = A[i * 4 + j]
            for i in range(16):
                B[i] = C[i]
    """)
    (made,) = [n for n in walk(f.body) if isinstance(n, Allocate)]
    assert made.buffer.name == "C"
    out = np.zeros_like(X)
    call_native(f, X, out)
    np.testing.assert_array_equal(out, X)


@pytest.mark.parametrize(
    "body",
    [
        "for i in range(4):\n    B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4] + T.Broadcast(1.0, 4)",
        "for i in range(4):\n    B[T.ramp(i * 4, 1, 4)] = A[T.Ramp(i * 4, 1, 4)] "
        "+ T.broadcast(T.float32(1), 4)",
        "B[0:16] = A[0:16] + 1.0",
        "for i in range(2):\n    B[i:i + 16:2] = A[i:i + 16:2] + 1.0",
        "for i in range(2):\n    B[i * 8 + 2:i * 8 + 10 - 2] = A[i * 8 + 2:i * 8 + 8] + 1.0\n"
        "    B[i * 8:i * 8 + 2] = A[i * 8:i * 8 + 2] + 1.0\n"
        "    B[i * 8 + 6:i * 8 + 8] = A[i * 8 + 6:i * 8 + 8] + 1.0",
        "for i in range(4):\n    lanes: T.float32x4 = A[i * 4:i * 4 + 4]\n"
        "    B[i * 4:i * 4 + 4] = lanes + 1.0",
    ],
)
def test_vectors_of_lowered_programs(body: str) -> None:
    np.testing.assert_array_equal(filled(body), X + 1)


def test_a_thread_extent_is_a_loop_around_the_rest() -> None:
    body = 'tx = T.launch_thread("threadIdx.x", 16)\nB[tx] = A[tx] + 1.0'
    other = 'for tx in T.thread_binding(16, thread="threadIdx.x"):\n    B[tx] = A[tx] + 1.0'
    assert structural_equal(func(body), func(other))
    within = 'with T.launch_thread("threadIdx.x", 16) as tx:\n    B[tx] = A[tx] + 1.0'
    assert structural_equal(func(within), func(other))
    np.testing.assert_array_equal(filled(body), X + 1)


def test_a_function_of_handles_of_a_dtype() -> None:
    f = func(
        """
        n = T.var("int64")
        A = T.match_buffer(a, (n,), "float32", offset_factor=16)
        B = T.match_buffer(b, (n,), dtype="float32", buffer_type="default")
        for i in range(n):
            B[i] = A[i]
        """,
        'a: T.handle("float32"), b: T.handle',
    )
    assert [v.name for v in f.shape_vars] == ["n"]


def test_what_a_function_may_consist_of() -> None:
    assert isinstance(func("T.evaluate(0)").body, object)
    assert not isinstance(func("pass").body, BlockRealize)
    f = func(
        '"""About it."""\nT.func_attr({"global_symbol": "f", "tir.noalias": T.bool(True)})\npass'
    )
    assert f.attr("tir.noalias") is True
    (let,) = [n for n in walk(func("n: T.int64 = 4\nB[n] = A[n]").body) if isinstance(n, LetStmt)]
    assert isinstance(let.value, IntImm)


MISTAKES: list[tuple[str, str, str]] = [
    # loops
    ("for i in range(0, 8, 2):\n    B[i] = 1.0", "start + i * step", "range(0, 8, 2)"),
    ("for i in T.serial(8, step=2):\n    B[i] = 1.0", "Loops have no step", "step=2"),
    ("for i in range():\n    B[i] = 1.0", "Expected an extent, or a start and an end", "range()"),
    ("for i in range(2.5):\n    B[i] = 1.0", "Expected an integer index, found float32", "2.5"),
    ("for i in range(A[0]):\n    B[i] = 1.0", "Expected an integer index, found float32", "A[0]"),
    ("for i in 16:\n    B[i] = 1.0", "Expected range(...), T.grid(...)", "16"),
    ("for i, j in T.serial(4):\n    B[i] = 1.0", "T.serial is one loop", "i, j"),
    ("for A[0] in range(4):\n    B[0] = 1.0", "Expected a name, or several", "A[0]"),
    (
        "for i in T.thread_binding(4):\n    B[i] = 1.0",
        'Expected T.thread_binding(extent, thread="...")',
        "T.thread_binding(4)",
    ),
    ("for i in T.paralel(4):\n    B[i] = 1.0", "Did you mean 'T.parallel'?", "T.paralel"),
    ("for i in T.serial(4, annotations=3):\n    B[i] = 1.0", "Expected a dict", "3"),
    ("for i in range(4):\n    pass\nelse:\n    pass", "A loop has no else", "pass"),
    ("for i in range(4):\n    break", "Write the condition as an if inside of the loop", "break"),
    # names and values
    ("B[0] = i", "The name 'i' is not defined", "i"),
    ("B[0] = A[0] + AA[0]", "The name 'AA' is not defined. Did you mean 'A'?", "AA"),
    ("B[0] = A[0].x", "Attributes are taken of T and of buffers", "A[0].x"),
    ("B[0] = A.stride", "A buffer has shape, dtype, strides, elem_offset and data", "A.stride"),
    ("B[0] = f'{A}'", "Python's JoinedStr is not part of the text form", "f'{A}'"),
    ("B[0] = [x for x in A]", "Python's ListComp is not part", "[x for x in A]"),
    ("B[0] = A[0] in A", "The comparison In is not part of the text form", "A[0] in A"),
    ("B[0], B[1] = A[0], A[1]", "Expected a name, or several", "B[0], B[1]"),
    ("x, y = A[0], A[1]", "Only T.axis.remap gives several values", "x, y"),
    ("x: T.int32 = A[0]\nB[0] = x", "Expected a value of dtype int32, found float32", "A[0]"),
    ("x: T.float32\nB[0] = x", "The variable 'x' needs a value", "x: T.float32"),
    ("B[0] = A[0] + 'x'", "Expected a number or an expression, found the string 'x'", "A[0] + 'x'"),
    ("B[0] = T.float32(1, 2)", "Expected 1 argument, found 2", "T.float32(1, 2)"),
    ("B[0] = T.float32(1, color=3)", "There is no option 'color' here", "color=3"),
    ("T.exp(A[0])\nB[0] = A[0]", "This value is not used", "T.exp(A[0])"),
    ("A[0]\nB[0] = A[0]", "This expression is not used", "A[0]"),
    # vectors
    ("B[0:4] = A[0:i4]", "The name 'i4' is not defined", "i4"),
    ("for i in range(4):\n    B[0:i] = A[0:i]", "a constant number of lanes", "0:i"),
    ("B[:4] = A[0:4]", "The vector of an access has a start and an end", ":4"),
    ("B[0:4] = A[0:8]", "Expected a value of dtype float32x4, as the buffer", "A[0:8]"),
    # memory
    (
        "C = T.alloc_buffer((16,), scope='wmma.a')\nC[0] = 1.0",
        "one of these with a tag",
        "'wmma.a'",
    ),
    ("C = T.alloc_buffer((16,), scope='wmma')\nC[0] = 1.0", "Expected a scope of global", "'wmma'"),
    (
        "C = T.alloc_buffer((16,), stride=[1])\nC[0] = 1.0",
        "A buffer has no option 'stride'. Did you mean 'strides'?",
        "[1]",
    ),
    (
        "C = T.alloc_buffer((16,), buffer_type='auto')\nC[0] = 1.0",
        "leave buffer_type out",
        "'auto'",
    ),
    ("C = T.alloc_buffer((16,), 'float31')\nC[0] = 1.0", "float31", "'float31'"),
    ("C = T.Buffer((8,), 'int32', data=A.data)\nC[0] = 1", "A view must be compact and of", ""),
    # words of TVM that have no place here
    ("T.call_packed('f', A.data)", "R.call_dps_packed", "T.call_packed"),
    (
        "T.evaluate(T.tvm_storage_sync('shared'))",
        "Leave it out: where threads",
        "T.tvm_storage_sync",
    ),
    ("T.attr(A, 'pragma', 1)", "annotations= of a loop", "T.attr"),
    ("T.buffer_store(B, 1.0, [0])", "Write A[i] = value.", "T.buffer_store"),
    ("T.assume(A[0])", "Expected a bool, found float32", "A[0]"),
    ("with T.Assert(True, 'x'):\n    pass", "guard with T.if_then_else", "T.Assert(True, 'x')"),
    ("assert True", "its caller checks shapes and dtypes", "assert True"),
    ("C = T.allocate_const([1.0], 'float32', [1])", "R.const", "T.allocate_const"),
    ("B[0] = T.isnullptr(A)", "A pointer is an argument of T.call_extern alone", "T.isnullptr"),
    ("while A[0] > 0.0:\n    B[0] = 1.0", "Write a loop over a range", "while A[0] > 0.0:"),
]


@pytest.mark.parametrize(("body", "message", "place"), MISTAKES, ids=[m[0] for m in MISTAKES])
def test_a_mistake_is_shown_under_its_line(body: str, message: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        func(body)
    assert message in caught.value.message
    shown = str(caught.value).splitlines()
    line, carets = shown[-2].split("| ", 1)[1], shown[-1].split("| ", 1)[1]
    begin, end = carets.index("^"), carets.rindex("^") + 1
    assert set(carets[begin:end]) == {"^"}
    if place:
        assert line[begin:end] == place


_KINDS = (
    "F: T.Buffer((8,), 'float32'), H: T.Buffer((8,), 'float16'), N: T.Buffer((8,), 'int32'), "
    "U: T.Buffer((8,), 'uint8'), P: T.Buffer((8,), 'bool')"
)


def _stored(line: str) -> str:
    text = f"@T.prim_func\ndef f({_KINDS}):\n  for i in range(8):\n    {line}\n"
    return parse_func(text).script().strip().splitlines()[-1].strip()


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("H[i] = F[i] + 1", 'H[i] = T.Cast("float16", F[i] + T.float32(1))'),
        ("F[i] = H[i]", 'F[i] = T.Cast("float32", H[i])'),
        ("F[i] = N[i]", 'F[i] = T.Cast("float32", N[i])'),
        ("F[i] += i", 'F[i] = F[i] + T.Cast("float32", i)'),
        ("N[i] = i", 'N[i] = T.Cast("int32", i)'),
        ("U[i] = N[i]", 'U[i] = T.Cast("uint8", N[i])'),
        ("N[i] = 2.0", "N[i] = T.int32(2)"),
        ("N[i] = T.Cast('int32', F[i])", 'N[i] = T.Cast("int32", F[i])'),
    ],
)
def test_a_store_converts(line: str, made: str) -> None:
    assert _stored(line) == made


@pytest.mark.parametrize(
    ("line", "buffer", "wanted", "found"),
    [
        ("N[i] = F[i]", "N", "int32", "float32"),
        ("N[i] = F[i] / 2", "N", "int32", "float32"),
        ("N[i] += 0.5", "N", "int32", "float32"),
        ("N[i] += H[i]", "N", "int32", "float16"),
        ("N[i] = 0.5", "N", "int32", "float32"),
        ("N[i] = T.float32(2)", "N", "int32", "float32"),
        ("N[i] = T.max(i, 0.5)", "N", "int32", "float32"),
        ("U[i] = T.if_then_else(i > 1, N[i], F[i])", "U", "uint8", "float32"),
        ("N.vstore([T.Ramp(0, 1, 8)], F[0:8])", "N", "int32x8", "float32x8"),
        ("N[i] = P[i]", "N", "int32", "bool"),
        ("P[i] = F[i]", "P", "bool", "float32"),
    ],
)
def test_a_store_drops_nothing_by_itself(line: str, buffer: str, wanted: str, found: str) -> None:
    with pytest.raises(ParseError) as caught:
        _stored(line)
    message = caught.value.message
    assert f"dtype {wanted}, as the buffer {buffer!r} has; found {found}" in message
    assert f'T.Cast("{wanted}", x)' in message
    is_number = line in ("N[i] = 0.5", "N[i] = T.float32(2)")
    may_divide = "float" in found and "int" in wanted and not is_number
    assert ("T.floordiv(a, b)" in message) is may_divide


@pytest.mark.parametrize("line", ["N[i] = i / 2", "F[i] = N[i] / 2", "N[i] /= 2", "N[i / 2] = 0"])
def test_integers_have_no_quotient_of_one_meaning(line: str) -> None:
    with pytest.raises(ParseError, match=r"T\.floordiv.*T\.truncdiv.*T\.Cast.*int(32|64) / int"):
        _stored(line)
