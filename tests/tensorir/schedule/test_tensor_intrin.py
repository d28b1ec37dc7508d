from __future__ import annotations

import pytest

import burnish
from burnish.support.errors import ScheduleValueError
from burnish.tensorir.function import PrimFunc
from burnish.tensorir.schedule import TensorIntrin, tensor_intrin
from burnish.tensorir.text.parser import parse_func


@pytest.fixture(autouse=True)
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers ends with it."""
    known = dict(tensor_intrin._REGISTERED)
    monkeypatch.setattr(tensor_intrin, "_REGISTERED", known)


def row(value: str = "A[vi] * T.float32(2)", *, n: int = 8, target: str = "B") -> PrimFunc:
    return parse_func(f"""
@T.prim_func
def main(A: T.Buffer(({n},), "float32"), B: T.Buffer(({n},), "float32")):
    for i in range({n}):
        with T.block("B"):
            vi = T.axis.spatial({n}, i)
            {target}[vi] = {value}
""")


def test_public_and_registered() -> None:
    assert burnish.TensorIntrin is TensorIntrin
    desc, impl = row(), row("A[vi] + A[vi]")
    made = TensorIntrin.register("test_double", desc, impl, override=True)
    assert TensorIntrin.get("test_double") is made
    assert "test_double" in TensorIntrin.names()


def test_a_name_is_taken_once() -> None:
    made = TensorIntrin.register("test_once", row(), row(), override=True)
    assert TensorIntrin.register("test_once", row(), row()) is made
    with pytest.raises(ScheduleValueError, match=r"'test_once' is taken .* override=True"):
        TensorIntrin.register("test_once", row("A[vi]"), row("A[vi]"))
    with pytest.raises(ScheduleValueError, match="'fma_f32_16x' is taken"):
        TensorIntrin.register("fma_f32_16x", row(), row())


def test_a_missing_name() -> None:
    assert TensorIntrin.get("no such thing", allow_missing=True) is None
    with pytest.raises(ScheduleValueError, match=r"Did you mean 'fma_f32_8x'|fma_f32_8x"):
        TensorIntrin.get("fma_f32_8")


@pytest.mark.parametrize(
    ("impl", "why"),
    [
        (row(n=4), "differ in shape or dtype"),
        (row("B[vi]", target="A"), "reads 'B'|writes 'A'"),
        (
            parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
"""),
            "The description has 2 parameters, the implementation 1",
        ),
    ],
)
def test_a_pair_that_does_not_fit(impl: PrimFunc, why: str) -> None:
    with pytest.raises(ScheduleValueError, match=why):
        TensorIntrin.register("test_unfit", row(), impl)
    assert TensorIntrin.get("test_unfit", allow_missing=True) is None


def test_a_scalar_parameter_is_no_operand() -> None:
    func = parse_func("""
@T.prim_func
def main(A: T.Buffer((8,), "float32"), n: T.int64):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = T.float32(0)
""")
    with pytest.raises(ScheduleValueError, match="has a scalar parameter"):
        TensorIntrin.register("test_scalar", func, func)
