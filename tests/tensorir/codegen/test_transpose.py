"""Transposing by shuffles: one instruction a shuffle, and no detour through memory."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from llvmlite import ir

from burnish.support.target import Target
from burnish.tensorir.codegen.object import emit_object
from burnish.tensorir.codegen.transpose import transpose_rows
from burnish.tensorir.text.parser import parse_func
from burnish.tests.native import lower


def columns_of(rows: int, width: int, itemsize: int) -> list[list[int]]:
    """What the shuffles do to the numbers ``row * 100 + column``, by running their masks."""
    module = ir.Module()
    kind = ir.VectorType(ir.IntType(8 * itemsize), width)
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), [kind] * rows), "f")
    b = ir.IRBuilder(function.append_basic_block())
    columns = transpose_rows(b, list(function.args), itemsize)
    values: dict[int, list[int]] = {
        id(arg): [100 * i + j for j in range(width)] for i, arg in enumerate(function.args)
    }
    for made in b.block.instructions:
        first, second, mask = made.operands
        both = [x for v in (first, second) for x in values.get(id(v), [-1] * v.type.count)]
        values[id(made)] = [both[constant.constant] for constant in _lanes(mask)]
    return [values[id(column)] for column in columns]


def _lanes(mask: ir.Constant) -> list[ir.Constant]:
    return [ir.Constant(ir.IntType(32), int(n)) for n in re.findall(r"i32 (\d+)", str(mask))]


@pytest.mark.parametrize("itemsize", [1, 2, 4, 8])
@pytest.mark.parametrize(
    ("rows", "width"), [(2, 2), (4, 4), (8, 8), (16, 16), (3, 16), (16, 5), (1, 4), (32, 32)]
)
def test_columns(rows: int, width: int, itemsize: int) -> None:
    expected = [[100 * i + j for i in range(rows)] for j in range(width)]
    assert columns_of(rows, width, itemsize) == expected


@pytest.mark.parametrize(
    ("cpu", "side", "shuffles"),
    [
        ("skylake-avx512", 16, {"unpck": 32, "vshuf": 32}),
        ("haswell", 8, {"unpck": 16, "vperm2f128": 8}),
        ("x86-64-v2", 4, {"unpck": 8}),
    ],
)
def test_one_instruction_a_shuffle(cpu: str, side: int, shuffles: dict[str, int]) -> None:
    func = parse_func(f"""
@T.prim_func
def f(A: T.Buffer(({side}, {side}), "float32"), B: T.Buffer(({side}, {side}), "float32")):
    T.func_attr({{"is_scheduled": True}})
    R = T.alloc_buffer(({side}, {side}), "float32", scope="register")
    for r in T.unroll({side}):
        for c in T.vectorized({side}):
            with T.block("R"):
                v, w = T.axis.remap("SS", [r, c])
                R[v, w] = A[v, w]
    for c in T.unroll({side}):
        for r in T.vectorized({side}):
            with T.block("B"):
                v, w = T.axis.remap("SS", [r, c])
                B[w, v] = R[v, w]
""")
    target = Target(f"llvm -mcpu={cpu}")
    text = emit_object([lower(func, target)], target, keep_text=True).assembly
    body = text.split("f.impl:")[1].split("retq")[0]
    assert "gather" not in body
    assert "(%rsp)" not in body
    found = Counter(
        re.findall(r"unpck|vshuf|vperm\w+|vinsert\w+|vextract\w+|movlhps|movhlps", body)
    )
    if cpu == "haswell":
        # The last step is as well an insertion that reads memory.
        assert found["unpck"] == shuffles["unpck"]
        assert sum(found.values()) <= sum(shuffles.values()) + side
    else:
        assert sum(found.values()) == sum(shuffles.values())
