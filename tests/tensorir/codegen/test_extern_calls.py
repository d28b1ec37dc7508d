from __future__ import annotations

import pytest

from burnish.support.errors import CodegenError
from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.text.parser import parse_func

TARGET = Target("x86-64-v3")


def text(body: str, params: str = "A: T.Buffer((4,)), B: T.Buffer((4,))") -> str:
    lines = "\n".join("    " + line for line in body.strip().splitlines())
    func = parse_func(f"@T.prim_func\ndef main({params}):\n{lines}\n")
    return emit_object([lower_func(func, TARGET)], TARGET, keep_text=True).ir


def test_narrow_integers_are_widened_and_a_string_is_a_pointer() -> None:
    found = text('T.evaluate(T.call_extern("void", "f", T.int8(-3), T.uint8(200), 1.5, "hi"))')
    assert "tail call void @f(i32 -3, i32 200, float 1.500000e+00, ptr nonnull @" in found
    assert 'c"hi\\00"' in found


def test_memory_is_loaded_again_after_a_call_that_writes_it() -> None:
    found = text(
        """
B[0] = A[0] + A[1]
T.evaluate(T.call_extern("void", "f", A.access_ptr("rw")))
B[1] = A[0] + A[1]
"""
    )
    before, after = found.split("@f(", 1)
    assert before.count("load float") == 2
    assert after.count("load float") == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            'T.evaluate(T.call_extern("void", "f", 1))\nT.evaluate(T.call_extern("void", "f"))',
            "is called as void () and as void (i64)",
        ),
        ('T.evaluate(T.call_extern("void", "main", 1))', "and is one that burnish makes"),
        (
            'R = T.allocate([4], "float32", "register")\n'
            'T.evaluate(T.call_extern("void", "f", R.access_ptr("w")))',
            "has the scope register and no address",
        ),
    ],
)
def test_calls_that_have_no_code(body: str, words: str) -> None:
    with pytest.raises(CodegenError) as error:
        text(body)
    assert words in str(error.value)


def test_a_view_that_is_not_compact_states_its_strides() -> None:
    func = """
@T.prim_func
def main(A: T.Buffer((4, 8)), B: T.Buffer((2, 4))):
    with T.block("k"):
        T.reads(A[0:2, 0:4])
        T.writes(B[0:2, 0:4])
        V = T.match_buffer(A[0:2, 0:4], (2, 4))
        T.evaluate(T.call_extern("void", "f", V.access_ptr("r"), B.access_ptr("w")))
"""
    with pytest.raises(CodegenError, match=r"the strides are .8, 1."):
        lower_func(parse_func(func), TARGET)
