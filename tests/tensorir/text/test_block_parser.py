"""Heads of blocks: axes, regions, annotations, and mistakes in them."""

from __future__ import annotations

import textwrap

import pytest

from burnish.support.errors import ParseError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal, structural_equal
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.stmt import Block
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr, print_func, print_region
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions


def func(head: str) -> PrimFunc:
    """A block of this head in two loops."""
    return parse_func(
        "@T.prim_func\ndef main(A: T.Buffer((8, 4)), B: T.Buffer((8, 4))):\n"
        "    for i, j in T.grid(8, 4):\n"
        '        with T.block("B"):\n'
        + textwrap.indent(textwrap.dedent(head).strip(), " " * 12)
        + "\n            B[i, j] = A[i, j]"
    )


def block(head: str) -> Block:
    return next(n for n in walk(func(head).body) if isinstance(n, Block) and n.name == "B")


def test_axes_have_ranges_and_kinds() -> None:
    made = block("""
        a = T.axis.spatial((2, 6), i)
        b = T.axis.reduce(4, j)
        c = T.axis.scan(8, i)
        d = T.axis.opaque(4, j)
    """)
    assert [it.kind for it in made.iter_vars] == ["spatial", "reduce", "scan", "opaque"]
    assert [print_expr(it.dom.extent) for it in made.iter_vars] == ["4", "4", "8", "4"]
    assert print_expr(made.iter_vars[0].dom.min) == "2"


def test_remap_is_axes_of_the_loops() -> None:
    one = func('a, b = T.axis.remap("SR", [i, j])')
    other = func("a = T.axis.S(8, i)\nb = T.axis.R(4, j)")
    assert structural_equal(one, other)


def test_regions_of_every_form() -> None:
    made = block("""
        T.reads(A, A[i, :], A[i, 1:], A[:4, j])
        T.writes([B[i:i + 1, j]])
    """)
    shown = [print_region(r) for r in made.reads]
    assert shown == ["A[0:8, 0:4]", "A[i, 0:4]", "A[i, 1:4]", "A[0:4, j]"]
    assert [print_region(r) for r in made.writes] == ["B[i, j]"]


def test_what_is_left_out_is_inferred() -> None:
    made = block("T.reads(A[0:8, 0:4])")
    assert [print_region(r) for r in made.writes] == ["B[i, j]"]


@pytest.mark.parametrize(
    ("head", "message", "place"),
    [
        ("a = T.axis.spacial(8, i)", "Did you mean 'T.axis.spatial'?", "T.axis.spacial"),
        (
            "a, b = T.axis.spatial(8, i)",
            "T.axis.spatial is one axis",
            "a, b = T.axis.spatial(8, i)",
        ),
        ("a = T.axis.spatial(8)", "Expected 2 arguments, found 1", "T.axis.spatial(8)"),
        ("a = T.axis.spatial(8, 0.5)", "Expected an integer index, found float32", "0.5"),
        (
            'a = T.axis.remap("S", [i, j])',
            "1 names, 1 kinds and 2 loops",
            'T.axis.remap("S", [i, j])',
        ),
        ('a = T.axis.remap("X", [i])', "Expected a string of S (spatial) and R", '"X"'),
        ('a = T.axis.remap("S", [i + 1])', "Expected the variable of a loop", "i + 1"),
        ("T.where(i)", "Expected a bool, found int64", "i"),
        ("T.where(i < 2, j < 2)", "Expected 1 argument, found 2", "T.where(i < 2, j < 2)"),
        ("T.reads(A[i])", "Expected 2 ranges, found 1", "A[i]"),
        ("T.reads(i)", "Expected a region of a buffer, found an expression", "i"),
        ("T.reads(A[i, 0:4:2])", "A region has no step", "2"),
        ("T.block_attr(3)", "Expected a dict with strings as keys", "3"),
        ('T.block_attr({"k": A})', "An attribute holds plain Python values, not the buffer", "A"),
        ('T.func_attr({"k": 1})', "T.func_attr stands in the function", 'T.func_attr({"k": 1})'),
        ("X = T.match_buffer(i, (4,))", "Expected a region of a buffer", "i"),
        ("X = T.match_buffer()", "Expected T.match_buffer(handle or region", "T.match_buffer()"),
    ],
)
def test_mistakes_in_a_head(head: str, message: str, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        func(head)
    assert message in caught.value.message
    shown = str(caught.value).splitlines()
    line, carets = shown[-2].split("| ", 1)[1], shown[-1].split("| ", 1)[1]
    assert line[carets.index("^") : carets.rindex("^") + 1] == place


def test_what_is_touched_through_a_view_is_its_source() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((16, 16), "float32"), B: T.Buffer((16, 16), "float32")):
    for i, j in T.grid(4, 4):
        with T.block("tile"):
            vi, vj = T.axis.remap("SS", [i, j])
            M = T.match_buffer(B[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4))
            N = T.match_buffer(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4))
            for x, y in T.grid(4, 4):
                M[x, y] = N[x, y]
""")
    verify_regions(verify_func(func))
    text = print_func(func)
    assert "T.reads(A[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])" in text
    assert "T.writes(B[vi * 4:vi * 4 + 4, vj * 4:vj * 4 + 4])" in text
    assert_structural_equal(parse_func(text), func)


def test_axes_of_one_line() -> None:
    text = """
        def f(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
            for i, k in T.grid(4, 8):
                with T.block("B"):
                    {axes}
                    with T.init():
                        B[vi] = T.float32(0)
                    B[vi] = B[vi] + A[vi, vk]
    """
    one = parse_func(text.format(axes="vi, vk = T.axis.spatial(4, i), T.axis.reduce(8, k)"))
    two = parse_func(text.format(axes='vi, vk = T.axis.remap("SR", [i, k])'))
    assert_structural_equal(one, two)
    with pytest.raises(ParseError, match=r"T\.axis\.spatial is one axis"):
        parse_func(text.format(axes="vi, vk = T.axis.spatial(4, i)"))
