"""Nests for tile registers are recognised by what they do, and by nothing else."""

from __future__ import annotations

import pytest

from burnish.support.host import native_target
from burnish.support.node import walk
from burnish.tensorir.lowering.pipeline import lower_func
from burnish.tensorir.lowering.scope import Scope
from burnish.tensorir.lowering.tile_nests import (
    TileNest,
    holds_only_nests,
    is_marked,
    marked_nests,
    recognise,
)
from burnish.tensorir.stmt import For, Stmt
from burnish.tensorir.text.parser import parse_func

HEAD = """
@T.prim_func
def main(
    X: T.Buffer((40, 96), "bfloat16"),
    W: T.Buffer((48, 32, 2), "bfloat16"),
    Y: T.Buffer((40, 40), "float32"),
):
"""
PRODUCT = """
    for j in T.serial({columns}, annotations={{"tile_registers": 1}}):
        for i, k2, k1 in T.grid({rows}, {groups}, {group}):
            with T.block("Y"):
                vi = T.axis.spatial(40, i + 8)
                vj = T.axis.spatial(40, j + 16)
                vk = T.axis.reduce(96, k2 * 2 + k1 + 32)
                Y[vi, vj] = {value}
"""
SUM = 'Y[vi, vj] + T.Cast("float32", X[vi, vk]) * T.Cast("float32", W[vk // 2, vj - 8, vk % 2])'


def nests_of(text: str) -> list[TileNest | None]:
    body: Stmt = lower_func(parse_func(HEAD + text), native_target()).func.body
    scope = Scope()
    return [recognise(n, scope.linear) for n in marked_nests(body)]


def product(
    columns: int = 16, rows: int = 16, groups: int = 16, group: int = 2, value: str = SUM
) -> str:
    known = {"columns": columns, "rows": rows, "groups": groups, "group": group, "value": value}
    return PRODUCT.format(**known)


def test_a_product_and_where_its_operands_begin() -> None:
    (nest,) = nests_of(product())
    assert nest is not None
    assert nest.operands is not None
    assert (nest.rows, nest.columns, nest.groups) == (16, 16, 16)
    sides = [(s.buffer.name, s.start.const, s.pitch) for s in (nest.total, *nest.operands)]
    assert sides == [("Y", 8 * 40 + 16, 40), ("X", 8 * 96 + 32, 96), ("W", 16 * 64 + 16, 64)]
    assert [s.pitch_bytes for s in nest.operands] == [192, 128]
    assert nest.kinds == ("bfloat16", "bfloat16", "float32")


def test_one_row_has_no_loop() -> None:
    (nest,) = nests_of(product(rows=1))
    assert nest is not None
    assert nest.rows == 1


def test_zeros() -> None:
    text = """
    for j in T.serial(16, annotations={"tile_registers": 1}):
        for i in range(12):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.float32(0)
"""
    (nest,) = nests_of(text)
    assert nest is not None
    assert (nest.rows, nest.columns, nest.operands) == (12, 16, None)


@pytest.mark.parametrize(
    "text",
    [
        product(columns=24),
        product(rows=20),
        product(groups=24),
        product(value=SUM.replace("X[vi, vk]", "X[vk // 3, vi]")),
        product(value=SUM.replace("W[vk // 2, vj - 8, vk % 2]", "W[vj, vk // 4, vk % 2]")),
        product(value=SUM.replace("Y[vi, vj] +", "Y[vi, vj - 1] +")),
        product(value=SUM.replace("*", "-")),
    ],
    ids=["columns", "rows", "groups", "places", "turned", "another sum", "no product"],
)
def test_other_loops_are_none(text: str) -> None:
    assert nests_of(text) == [None]


def test_what_holds_only_nests() -> None:
    text = "    for k in range(2):\n" + "\n".join("    " + s for s in product().splitlines())
    func = lower_func(parse_func(HEAD + text), native_target()).func
    loop = func.body
    assert isinstance(loop, For)
    assert not is_marked(loop)
    assert holds_only_nests(loop)
    inner = [n for n in walk(loop) if isinstance(n, For) and is_marked(n)]
    assert marked_nests(loop) == inner
    assert not holds_only_nests(inner[0].body)
