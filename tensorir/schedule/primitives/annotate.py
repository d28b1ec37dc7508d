"""annotate, unannotate: notes on blocks and loops."""

from __future__ import annotations

from typing import Any

from ....support.errors import ScheduleValueError
from ....support.node import replace
from ...analysis.paths import Path, find_block, find_loop, realize_of, rebuild, with_body
from ...analysis.preconditions import fail
from ...expr import Var
from ...function import PrimFunc
from ...rolling import ROLLING
from ...stmt import LIFTED, Block, For
from ..primitive import ANNOTATIONS, ATTR, BLOCK_OR_LOOP, INPUT, primitive
from ..state import BlockLike, ScheduleState
from ..trace.handles import BlockHandle, LoopRV

_BINDING = {ROLLING: "rolling_buffer", LIFTED: "lift_allocation"}
"""Annotations without which a program computes something else, and who writes them."""


class Annotate(ScheduleState):
    @primitive(ANNOTATIONS, block_or_loop=BLOCK_OR_LOOP, ann_key=INPUT, ann_val=INPUT)
    def annotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str, ann_val: Any) -> None:
        """Write a note on a block or loop, in place of one with the same key.

        ``ann_val`` is a number, a string, a list of values or a dict with strings as keys; a
        sampled value is put in as its integer, a block as its present name. Lowering reads
        ``pragma_auto_unroll_max_step``; on a loop ``prefetch_distance`` (how many of its iterations
        ahead the caches are asked for what it loads), ``prefetch_next`` (how many iterations ahead
        of the loop around that moves on to other memory) and ``prefetch_region`` (the same for what
        all iterations of the loop load, in the order of memory, and for rows at places that are
        looked up), ``sum_block`` (how many terms of a sum of floats are added in order) and
        ``tile_registers`` (1: registers that are tiles compute the nest, where the target has them,
        see ``tensorir.lowering.tile_nests``); on a block ``non_temporal`` (1: what it writes goes
        past the caches, for parameters that the function does not read). Tuning rules read keys of
        their own, and nobody else reads any other.

        Requires:

        - a str as key; numbers, strs, blocks, and lists and dicts of them as value
          (ScheduleValueError);
        - a loop that is one, not a place without a loop that was sampled (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i, j in T.grid(8, 6):
                    with T.block("B"):
                        vi, vj = T.axis.remap("SS", [i, j])
                        B[vi, vj] = A[vi, vj] + T.float32(1)

        Schedule::

            (i, _) = sch.get_loops("B")
            sch.annotate(i, "pragma_auto_unroll_max_step", 16)
            sch.annotate("B", "note", ["rows", 8])

        After::

            @T.prim_func
            def main(A: T.Buffer((8, 6), "float32"), B: T.Buffer((8, 6), "float32")):
                for i in T.serial(8, annotations={"pragma_auto_unroll_max_step": 16}):
                    for j in range(6):
                        with T.block("B"):
                            vi, vj = T.axis.remap("SS", [i, j])
                            T.block_attr({"note": ["rows", 8]})
                            B[vi, vj] = A[vi, vj] + T.float32(1)
        """
        owner, target = self._target(block_or_loop)
        value = self._note_value(ann_val)
        self._commit(owner, annotate(self._functions[owner], target, ann_key, value))

    def _note_value(self, value: Any) -> Any:
        """A value as the program holds it: plain data."""
        if isinstance(value, BlockHandle):
            return self._block(value)[1]
        if isinstance(value, (list, tuple)):
            return [self._note_value(v) for v in value]
        if isinstance(value, dict):
            return {k: self._note_value(v) for k, v in value.items()}
        return self._value(value)

    @primitive(ANNOTATIONS, block_or_loop=BLOCK_OR_LOOP, ann_key=ATTR)
    def unannotate(self, block_or_loop: BlockLike | LoopRV, ann_key: str) -> None:
        """Remove the note with the key ``ann_key`` from a block or loop.

        Requires:

        - a note with this key; the error lists those that are there (ScheduleValueError).

        Before::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in T.serial(30, annotations={"note": 1}):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)

        Schedule::

            (i,) = sch.get_loops("B")
            sch.unannotate(i, "note")

        After::

            @T.prim_func
            def main(A: T.Buffer((30,), "float32"), B: T.Buffer((30,), "float32")):
                for i in range(30):
                    with T.block("B"):
                        vi = T.axis.spatial(30, i)
                        B[vi] = A[vi] + T.float32(1)
        """
        owner, target = self._target(block_or_loop)
        self._commit(owner, unannotate(self._functions[owner], target, ann_key))


def annotate(func: PrimFunc, target: Var | str, key: str, value: Any) -> PrimFunc:
    """Add (or replace) an annotation of a loop or block."""
    path = _target_path(func, target, "annotate")
    node = _annotated(path)
    if not isinstance(key, str) or not _is_plain(value):
        found = (
            "Expected a string as key and a number, a string, or a list or dict of these as value; "
            f"found {key!r} and {value!r}."
        )
        raise fail(ScheduleValueError, "annotate", func, [node], found)
    _require_free(func, node, key, "annotate")
    kept = [(k, v) for k, v in node.annotations if k != key]
    return _with_annotations(func, path, tuple([*kept, (key, value)]))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return isinstance(value, (bool, int, float, str))


def unannotate(func: PrimFunc, target: Var | str, key: str) -> PrimFunc:
    """Remove an annotation; raises ScheduleValueError if it is not there."""
    path = _target_path(func, target, "unannotate")
    node = _annotated(path)
    if all(k != key for k, _ in node.annotations):
        known = ", ".join(repr(k) for k, _ in node.annotations) or "none"
        found = f"There is no annotation {key!r}; found {known}."
        raise fail(ScheduleValueError, "unannotate", func, [node], found)
    _require_free(func, node, key, "unannotate")
    return _with_annotations(func, path, tuple([(k, v) for k, v in node.annotations if k != key]))


def _require_free(func: PrimFunc, node: For | Block, key: str, primitive: str) -> None:
    if key in _BINDING:
        found = (
            f"The annotation {key!r} says where a buffer lives; results depend on it, and only the "
            f"primitive {_BINDING[key]} writes it."
        )
        raise fail(ScheduleValueError, primitive, func, [node], found)


def _target_path(func: PrimFunc, target: Var | str, primitive: str) -> Path:
    return (
        find_block(func, target, primitive)
        if isinstance(target, str)
        else find_loop(func, target, primitive)
    )


def _annotated(path: Path) -> For | Block:
    leaf = path[-1]
    return leaf if isinstance(leaf, For) else realize_of(path).block


def _with_annotations(
    func: PrimFunc, path: Path, annotations: tuple[tuple[str, Any], ...]
) -> PrimFunc:
    leaf = path[-1]
    if isinstance(leaf, For):
        return with_body(func, rebuild(path, replace(leaf, annotations=annotations)))
    realize = realize_of(path)
    return with_body(
        func, rebuild(path, replace(realize, block=replace(realize.block, annotations=annotations)))
    )
