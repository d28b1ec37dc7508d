from __future__ import annotations

import pytest

from burnish.tensorir.analysis.affine import Bounds
from burnish.tensorir.schedule.match_tensor import TensorMatch
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr

HEADER = """
@T.prim_func
def main(
    A: T.Buffer({a}, "{dtype}"), B: T.Buffer({b}, "float32"), C: T.Buffer({c}, "float32")
):
"""
BODY = """
    for i, k in T.grid({m}, {k}):
        with T.block("C"):
            {axes}
            C[{store}] = {value}
"""


def program(
    value: str = "C[vi] + A[vi, vk] * B[vk]",
    *,
    a: str = "(4, 8)",
    b: str = "(8,)",
    c: str = "(4,)",
    m: int = 4,
    k: int = 8,
    axes: str = 'vi, vk = T.axis.remap("SR", [i, k])',
    store: str = "vi",
    dtype: str = "float32",
) -> str:
    text = HEADER.format(a=a, b=b, c=c, dtype=dtype)
    return text + BODY.format(m=m, k=k, axes=axes, store=store, value=value)


def match(found: str, desc: str) -> TensorMatch:
    result = TensorMatch(Bounds())
    same = result.run(parse_func(found).root.body, parse_func(desc).root.body)
    assert same is not bool(result.difference)
    return result


@pytest.mark.parametrize(
    "found",
    [
        program(),
        program("A[vi, vk] * B[vk] + C[vi]"),
        program("C[vi] + B[vk] * A[vi, vk]"),
        program(axes='vk, vi = T.axis.remap("RS", [k, i])'),
        program("C[3 + vi] + A[vi, vk] * B[vk]", c="(9,)", store="vi + 3"),
    ],
)
def test_the_same_computation(found: str) -> None:
    assert not match(found, program()).difference


def test_operands_have_places() -> None:
    found = program(
        "C[5, vi + 2, 0] + A[vi * 1 + 4, 1 + vk] * B[vk]",
        a="(9, 9)",
        c="(6, 6, 1)",
        store="5, vi + 2, 0",
    )
    result = match(found, program())
    places = {
        b.name: ([print_expr(s) for s in o.starts], o.dims) for b, o in result.operands.items()
    }
    assert places == {
        "C": (["5", "2", "0"], (1,)),
        "A": (["4", "1"], (0, 1)),
        "B": (["0"], (0,)),
    }


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (program("C[vi] + A[vi, vk] - B[vk]"), "an operation"),
        (program("C[vi] * (A[vi, vk] + B[vk])"), "an operation"),
        (program("C[vi] + A[vi, 7 - vk] * B[vk]"), "for the operand 'A'"),
        (program("C[vi] + A[vi, vk] * A[vi, vk]"), "for the operand 'B'"),
        (program("C[vi + 1] + A[vi, vk] * B[vk]", c="(9,)"), "for the operand 'C' at 'C'"),
        (program(m=2, a="(2, 8)", c="(2,)"), "the extent of the loop 'i': expected '4', found '2'"),
        (program(axes='vi, vk = T.axis.remap("SS", [i, k])'), "like 'vk' of the description"),
        (
            program("C[vi] + T.Cast('float32', A[vi, vk]) * B[vk]", dtype="int8"),
            "an operation: expected 'A[vi, vk]'",
        ),
        (program("A[vi, vk] * B[vk]"), "an operation"),
    ],
)
def test_a_difference(found: str, difference: str) -> None:
    assert difference in match(found, program()).difference


STORE = "            C[vi] = C[vi] + A[vi, vk] * B[vk]"
STATEMENTS = {
    "if": """\
            if vk < 3:
                C[vi] = C[vi] + A[vi, vk] * B[vk]""",
    "if and else": """\
            if vk < 3:
                C[vi] = C[vi] + A[vi, vk] * B[vk]
            else:
                C[vi] = C[vi] - A[vi, vk]""",
    "let": """\
            with T.LetStmt(A[vi, vk]) as x:
                C[vi] = C[vi] + x * B[vk]""",
    "loop": """\
            for r in range(3):
                C[vi] = C[vi] + A[vi, r + vk] * B[vk]""",
}


def statements(name: str, old: str = "", new: str = "", a: str = "(4, 8)") -> str:
    return program(a=a).replace(
        STORE, STATEMENTS[name].replace(old, new) if old else STATEMENTS[name]
    )


@pytest.mark.parametrize("name", STATEMENTS)
def test_other_statements(name: str) -> None:
    desc = statements(name, a="(4, 11)")
    assert not match(statements(name, a="(4, 11)"), desc).difference
    # The same under other names of buffers and axes, and from a place of its own.
    moved = (
        desc.replace("vi", "wi")
        .replace("C[wi]", "C[wi + 2]")
        .replace("C: T.Buffer((4,)", "C: T.Buffer((6,)")
    )
    assert not match(moved, desc).difference


@pytest.mark.parametrize(
    ("name", "old", "new", "difference"),
    [
        ("if", "vk < 3", "vk < 4", "expected '3', found '4'"),
        ("if", "vk < 3", "vk <= 3", "an operation"),
        ("if", "* B", "+ B", "an operation"),
        ("if and else", "C[vi] - A", "C[vi] + A", "an operation"),
        ("if and else", "else:", "if vk >= 3:", ""),
        ("let", "(A[vi, vk])", "(A[vi, 7 - vk])", "for the operand 'A'"),
        ("let", "x * B", "x + B", "an operation"),
        ("loop", "range(3)", "range(1, 4)", "the start of the loop 'r'"),
        ("loop", "range(3)", "range(2)", "the extent of the loop 'r'"),
        ("loop", "r + vk", "r * 2 + vk", "for the operand 'A'"),
    ],
)
def test_other_statements_that_differ(name: str, old: str, new: str, difference: str) -> None:
    found = statements(name, old, new, a="(4, 13)")
    result = match(found, statements(name, a="(4, 13)"))
    assert result.difference
    assert difference in result.difference


def test_loops_of_one_iteration_do_not_count() -> None:
    desc = """
@T.prim_func
def main(A: T.Buffer((8,), "float32"), B: T.Buffer((8,), "float32"), C: T.Buffer((1,), "float32")):
    for k in range(8):
        with T.block("C"):
            vk = T.axis.reduce(8, k)
            C[0] = C[0] + A[vk] * B[vk]
"""
    assert not match(program(m=1, a="(1, 8)", c="(1,)"), desc).difference
