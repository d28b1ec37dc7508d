"""Weights by name: where values come from, who holds them, and who has let go."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from burnish.graphir.expr import Constant, constant
from burnish.graphir.weights import (
    Layout,
    Packed,
    Source,
    Weights,
    _is_own,
    derived_name,
    forked,
    in_common,
    pack_values,
    sample_of,
    unpack_values,
)
from burnish.support.aligned import aligned_empty
from burnish.support.dtype import DType
from burnish.support.errors import BurnishError

TILES: Layout = (("lambda n, k: (n // 4, k, n % 4)", 0.0),)
COLUMNS: Layout = (("lambda n, k: (k, n)", None),)


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def shared(weights: Weights, memory: np.ndarray) -> Constant:
    """A constant of somebody else's memory."""
    array = memory.view()
    return weights.add("w", array, None, Source(lambda: array, sample_of(array)))


def held(weights: Weights) -> list[str]:
    """The names whose arrays would be there if nobody asked."""
    return [name for name in weights if weights.weight(name)._held is not None]


def test_few_values_are_a_literal_and_more_have_a_name() -> None:
    weights = Weights()
    few, many = weights.add("few", numbers(4)), weights.add("many", numbers(5, 5))
    assert (few.name, many.name, many.bits) == ("", "many", None)
    assert list(weights) == ["many"]
    assert not weights["many"].flags.writeable
    np.testing.assert_array_equal(weights.array(few), numbers(4))
    np.testing.assert_array_equal(weights.array(many), numbers(5, 5))
    assert weights.add("many", numbers(6, 6)).name == "many_1"


def test_a_table_is_copied_and_weights_are_shared() -> None:
    weights = Weights()
    w = weights.add("w", numbers(5, 5))
    other = weights.copy()
    other.add("v", numbers(5, 5))
    assert list(weights) == ["w"]
    assert other.weight(w.name) is weights.weight(w.name)


def test_what_is_derived_is_given_up_and_computed_again() -> None:
    weights, calls = Weights(), []

    def double(a: np.ndarray) -> np.ndarray:
        calls.append(1)
        return a * 2

    w = weights.add("w", numbers(5, 5))
    d = weights.derive("double", double, w)
    assert (d.name, len(calls)) == ("w.double", 1)
    first = weights.copy()
    weights.retain([w.name])
    assert (list(weights), held(first)) == (["w"], ["w"])
    np.testing.assert_array_equal(first.array(d), numbers(5, 5) * 2)
    assert len(calls) == 2
    kept = first.array(d)
    assert first.array(d) is kept  # while somebody has it


def test_names_of_what_is_derived() -> None:
    assert derived_name(["fc.weight"], "scaled") == "fc.weight.scaled"
    assert derived_name(["", "fc.bias"], "scaled") == "fc.bias.scaled"
    assert derived_name(["fc.weight.moved"], "moved") == "fc.weight.moved"
    assert derived_name(["fc.weight.moved_3"], "moved") == "fc.weight.moved"
    assert derived_name([""], "arange") == "arange"


def test_a_source_is_shared_and_must_not_have_changed() -> None:
    memory, weights = numbers(40, 40), Weights()
    w = shared(weights, memory)
    assert np.shares_memory(weights.array(w), memory)
    d = weights.derive("double", lambda a: a * 2, w)
    for name in weights:
        weights.weight(name).give_up()
    memory *= 2
    for changed in (w, d):
        with pytest.raises(BurnishError, match="have changed since"):
            weights.array(changed)
    memory /= 2
    np.testing.assert_array_equal(weights.array(d), numbers(40, 40) * 2)


def test_packed_weights_are_unpacked_bit_by_bit() -> None:
    weights = Weights()
    values = numbers(6, 4)
    w = weights.add("w", values.copy())
    alive = weakref.ref(weights["w"])
    packed = weights.pack(w, TILES)
    gc.collect()
    assert alive() is None
    assert (packed.name, packed.shape) == ("w.packed", (2, 4, 4))
    assert isinstance(weights.weight("w").origin, Packed)
    np.testing.assert_array_equal(weights["w"], values)
    other = weights.pack(w, COLUMNS)
    assert other.name == "w.packed_1"
    np.testing.assert_array_equal(weights.array(other), values.T)
    assert held(weights) == ["w.packed", "w.packed_1"]


def test_what_a_kernel_reads_stays_when_it_is_packed() -> None:
    weights = Weights()
    w = weights.add("w", numbers(6, 4))
    weights.weight(w.name).is_read = True
    weights.pack(w, TILES)
    assert held(weights) == ["w", "w.packed"]
    (other,) = forked([weights])
    other.pack(w, TILES)
    assert held(other) == ["w.packed", "w.packed_1"]


def test_what_is_packed_alike_is_packed_once() -> None:
    weights = Weights()
    w = weights.add("w", numbers(6, 4))
    made = weights.weight("w").pack(TILES)
    assert weights.weight(w.name).pack(TILES) is made
    assert weights.weight(w.name).pack(COLUMNS) is not made


@pytest.mark.parametrize("layout", [TILES, COLUMNS, (*TILES, ("lambda a, b, c: (b, a, c)", None))])
def test_layouts_are_undone(layout: Layout) -> None:
    values = numbers(6, 4)
    packed = pack_values(values, layout, "float32")
    np.testing.assert_array_equal(unpack_values(packed, layout, values.shape), values)


def test_a_fork_shares_arrays_and_lives_its_own_life() -> None:
    weights = Weights()
    w = weights.add("w", numbers(6, 4))
    weights.derive("double", lambda a: a * 2, w)
    weights.pack(w, TILES)
    before = weights.copy()
    (other,) = forked([before])
    assert other["w.packed"] is weights["w.packed"]
    other.weight("w").pack(COLUMNS)
    assert isinstance(origin := weights.weight("w").origin, Packed)
    assert origin.layout == TILES
    np.testing.assert_array_equal(other["w"], weights["w"])
    np.testing.assert_array_equal(other["w.double"], weights["w.double"])


def test_weights_of_equal_name_and_values_are_shared() -> None:
    known, table = Weights(), Weights()
    for name, change in (("w", 0), ("changed", 1), ("a_source", 0)):
        known.add(name, numbers(6, 4))
        table.add(name, numbers(6, 4) + change)
    known.weight("a_source").origin = Source(lambda: numbers(6, 4), b"")
    common = in_common(table, known)
    assert list(common) == ["w"]
    assert common["w"] is known["w"]
    assert common.weight("w") is not known.weight("w")


def test_what_a_program_holds_is_its_own() -> None:
    held = bytearray(numbers(40, 40).tobytes())  # by somebody else than NumPy, as torch's memory is
    memory, weights = np.frombuffer(held, np.float32).reshape(40, 40), Weights()
    w = shared(weights, memory)
    weights.weight(w.name).keep_own()
    memory[:] = 7
    np.testing.assert_array_equal(weights.array(w), numbers(40, 40))


@pytest.mark.parametrize("elements", [4096, 1 << 18])
def test_what_is_of_nobody_else_is_not_copied(elements: int) -> None:
    own = aligned_empty((elements,), np.dtype("float32"))
    assert _is_own(own)
    assert not _is_own(own[: elements // 2])
    assert not _is_own(np.frombuffer(bytes(own.nbytes), "float32"))


def test_contents_are_compared_by_a_sample_and_then_by_a_digest() -> None:
    weights = Weights()
    zeros = np.zeros(1000, np.float32)
    other = zeros.copy()
    other[1] = 1e-30  # not in the sample
    a, b, c = (weights.add("c", x) for x in (zeros, zeros.copy(), other))
    x, y, z = map(weights.weight_of, (a, b, c))
    assert x.content == y.content == z.content
    assert x.digest == y.digest != z.digest
    reshaped = weights.weight_of(weights.add("c", zeros.copy().reshape(10, 100)))
    assert x.content != reshaped.content
    assert x.digest != reshaped.digest


def test_a_constant_without_a_name_gets_one_by_its_contents() -> None:
    weights = Weights()
    large, small = constant(numbers(5, 5)), constant(1.0)
    adopted = weights.adopt(large)
    assert adopted.name.startswith("sha256:")
    assert adopted.bits is None
    assert weights.adopt(constant(numbers(5, 5))).name == adopted.name
    assert weights.adopt(constant(numbers(25))).name != adopted.name
    assert weights.adopt(small) is small
    assert weights.adopt(adopted) is adopted
    bits = constant(np.full(20, 0x3F80, np.uint16), "bfloat16")
    kept = weights.adopt(bits)
    assert isinstance(kept, Constant)
    assert kept.type.dtype is DType("bfloat16")
    assert weights.array(kept).tolist() == [0x3F80] * 20


def test_a_file_is_read_again() -> None:
    weights, reads = Weights(), []

    def read() -> np.ndarray:
        reads.append(1)
        return numbers(5, 5)

    w = weights.add("w", numbers(5, 5), None, Source(read, sample_of(numbers(5, 5))))
    assert not reads
    assert weights.array(w).sum() == 300
    assert not reads
    weights.weight("w").give_up()
    assert weights.array(w).sum() == 300
    assert reads
