from __future__ import annotations

import pytest

from burnish.support.errors import ParseError, VerifyError
from burnish.support.node import walk
from burnish.support.structural import assert_structural_equal
from burnish.tensorir.expr import AccessPtr, ExternCall
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.text.parser import parse_func
from burnish.tensorir.text.printer import print_expr, print_func
from burnish.tensorir.verify.bounds import verify_bounds
from burnish.tensorir.verify.laws import verify_func
from burnish.tensorir.verify.regions import verify_regions
from burnish.tests.tensorir.extern_programs import tiles


def program(*lines: str, regions: str = "T.reads(A[0:4, 0:8]); T.writes(B[0:4])") -> str:
    head = [line.strip() for line in regions.split(";") if line.strip()]
    body = "\n".join("        " + line for line in (*head, *lines))
    return f"""
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((4,))):
    with T.block("k"):
{body}
"""


def call(args: str) -> PrimFunc:
    return parse_func(program(f'T.evaluate(T.call_extern("int32", "f", {args}))'))


def shown(args: str) -> str:
    (found,) = [n for n in walk(call(args).body) if isinstance(n, ExternCall)]
    return print_expr(found)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ('A.access_ptr("r")', 'A.access_ptr("r")'),
        ("A.access_ptr(1)", 'A.access_ptr("r")'),
        ('B.access_ptr(access_mask="w", offset=2)', 'B.access_ptr("w", offset=2)'),
        ("B.access_ptr(3)", 'B.access_ptr("rw")'),
        ("A.data", 'A.access_ptr("r")'),
        ("B.data", 'B.access_ptr("w")'),
        ("T.address_of(A[2, 3])", 'T.address_of(A[2, 3], "r")'),
        ('T.address_of(A[2, 3], "r", offset=1)', 'T.address_of(A[2, 3], "r", offset=1)'),
        ('A.access_ptr("r", offset=A.offset_of([2, 3])[0])', 'A.access_ptr("r", offset=19)'),
        (
            'T.tvm_access_ptr(T.type_annotation("float32"), A.data, 8, 8, 1)',
            'A.access_ptr("r", offset=8)',
        ),
        ("A.strides[0], A.elem_offset, A.shape[1]", "8, 0, 8"),
        ('1, T.float32(2), True, "text"', '1, T.float32(2), T.bool(True), "text"'),
    ],
)
def test_arguments_are_read_as_tvm_writes_them(given: str, read: str) -> None:
    assert shown(given) == f'T.call_extern("int32", "f", {read})'
    func = call(given)
    assert_structural_equal(parse_func(print_func(func)), func)


def test_a_program_that_calls_prints_and_parses_and_keeps_the_laws() -> None:
    func = tiles()
    verify_regions(verify_bounds(verify_func(func)))
    assert_structural_equal(parse_func(print_func(func)), func)
    assert [b.name for b in func.written] == ["B"]
    assert {p.mask for p in walk(func.body) if isinstance(p, AccessPtr)} == {"r", "w"}


def test_a_call_may_stand_alone_and_give_nothing() -> None:
    func = parse_func(program('T.call_extern("void", "f", A.data, B.data)'))
    (found,) = [n for n in walk(func.body) if isinstance(n, ExternCall)]
    assert found.dtype == "handle"
    assert_structural_equal(parse_func(print_func(func)), func)


@pytest.mark.parametrize(
    "call",
    [
        'T.call_extern("f", A.data, dtype="int32")',
        'T.call_extern("int32", "f", A.data, dtype="int32")',
        'T.call_extern(T.int32, "f", A.data)',
        'T.call_pure_extern("int32", "f", A.data)',
    ],
)
def test_other_spellings_of_a_call(call: str) -> None:
    assert 'T.call_extern("int32", "f", A.access_ptr("r"))' in print_func(
        parse_func(program(f"T.evaluate({call})"))
    )


def test_a_pointer_to_write_what_is_read_too_updates_it() -> None:
    func = parse_func(
        program(
            'T.evaluate(T.call_extern("int32", "f", B.access_ptr("w"), A.access_ptr("r")))',
            regions="T.reads(B[0:4], A[0:4, 0:8]); T.writes(B[0:4])",
        )
    )
    assert 'B.access_ptr("rw")' in print_func(func)


@pytest.mark.parametrize(
    ("lines", "regions", "words"),
    [
        (['T.evaluate(T.call_extern("int32"))'], "", 'Expected T.call_extern("dtype", "symbol"'),
        (['T.evaluate(T.call_extern("int32", "f g"))'], "", "the name of a function of C"),
        (['T.evaluate(T.call_extern("int32", "llvm.x"))'], "", "LLVM's intrinsics"),
        (['T.evaluate(T.call_extern("int32", "f", T.grid))'], "", "Expected a value or a pointer"),
        (
            ['T.evaluate(T.call_extern("int32", "f", A.access_ptr("x")))'],
            "T.reads(A[0:4, 0:8]); T.writes()",
            "An access mask is",
        ),
        (
            ['T.evaluate(T.call_extern("int32", "f", A.access_ptr("r", extent=4)))'],
            "T.reads(A[0:4, 0:8]); T.writes()",
            "A pointer has no 'extent' here",
        ),
        (
            ['T.evaluate(T.call_extern("int32", "f", A.data))'],
            "T.reads(); T.writes(B[0:4])",
            "Nothing says what the function does with 'A'",
        ),
        (
            ['T.evaluate(T.call_extern("int32", "f", A.access_ptr("r")))'],
            "T.reads(A[0:4, 0:8])",
            "declare both, T.reads(...) and T.writes(...)",
        ),
        (
            ['T.evaluate(T.call_extern("int32", "f", A.access_ptr("r"), B.access_ptr("w")))'],
            "",
            "called with a pointer to 'A', 'B', and what it reads and writes there cannot be found",
        ),
    ],
)
def test_what_cannot_be_read_says_what_to_write(lines: list[str], regions: str, words: str) -> None:
    with pytest.raises(ParseError) as error:
        parse_func(program(*lines, regions=regions))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("lines", "regions", "words"),
    [
        (
            ['T.evaluate(T.call_extern("int32", "f", B.access_ptr("w")))'],
            "T.reads(A[0:4, 0:8]); T.writes(A[0:4, 0:8])",
            "the block 'k' without 'B' in T.writes",
        ),
        (
            ['B[0] = T.call_extern("float32", "f", B.access_ptr("rw"))'],
            "T.reads(B[0:4]); T.writes(B[0:4])",
            "'f' as a value, with a pointer to write 'B'",
        ),
        (['T.evaluate(A.access_ptr("r"))'], "T.reads(A[0:4, 0:8]); T.writes()", "as a value"),
        (
            ['T.evaluate(T.call_extern("int32", "f", T.float16(1)))'],
            "T.reads(); T.writes()",
            "a value of dtype float16 for 'f'",
        ),
        (
            ['T.evaluate(T.call_extern("float16", "f"))'],
            "T.reads(); T.writes()",
            "a value of dtype float16 for 'f'",
        ),
    ],
)
def test_laws_of_calls(lines: list[str], regions: str, words: str) -> None:
    with pytest.raises(VerifyError) as error:
        verify_func(parse_func(program(*lines, regions=regions)))
    assert words in str(error.value)


def test_a_region_that_leaves_its_buffer_is_refused() -> None:
    text = program(
        'T.evaluate(T.call_extern("int32", "f", A.access_ptr("r"), B.data))',
        regions="T.reads(A[0:5, 0:8]); T.writes(B[0:4])",
    )
    with pytest.raises(VerifyError, match="is 4; this dimension has 4 elements"):
        verify_bounds(parse_func(text))


def test_a_call_outside_of_every_block_stands_in_a_program_without_blocks() -> None:
    text = """
@T.prim_func
def main(A: T.Buffer((4,)), B: T.Buffer((4,))):
    T.evaluate(T.call_extern("int32", "f", A.access_ptr("r"), B.access_ptr("w")))
"""
    verify_func(parse_func(text))
    with pytest.raises(VerifyError, match="a pointer to 'A' outside of every block"):
        verify_func(
            parse_func(
                text
                + "    for i in range(4):\n        with T.block('b'):\n"
                + "            vi = T.axis.spatial(4, i)\n            B[vi] = A[vi]\n"
            )
        )
