"""Tensor intrinsics: pairs of a description and an implementation of a small tensor computation.

``desc`` says what is computed, as loops around one block; ``impl`` computes the same in another
way, for example with vector instructions. ``tensorize`` finds ``desc`` in a program and puts
``impl`` in its place. Both are PrimFuncs over the same parameters: the tile's operands. That they
compute the same is the word of whoever registers them; what can be checked of it is checked here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...support.errors import ScheduleValueError, nearest
from ...support.keywords import hinted
from ...support.structural import first_difference, structural_equal
from ..buffer import Buffer
from ..function import PrimFunc
from ..stmt import BlockRealize
from ..text.parser import parse_func
from ..visitor import accessed_buffers
from .arguments import require_text
from .cpu_intrins import SHIPPED

_REGISTERED: dict[str, TensorIntrin] = {}


@hinted
@dataclass(frozen=True, slots=True, eq=False)
class TensorIntrin:
    """A registered intrinsic."""

    name: str
    desc: PrimFunc
    impl: PrimFunc

    @staticmethod
    def register(name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Register an intrinsic under ``name``, for this process.

        ``desc`` and ``impl`` must have buffer parameters of equal shapes and dtypes, and ``impl``
        may touch only what ``desc`` touches. A name that is taken needs ``override``, unless it
        stands for the same. Raises ScheduleValueError.
        """
        made = TensorIntrin(name, desc, impl)
        _require_pair(made)
        known = _known(name)
        if known is not None and not override:
            same = structural_equal(known.desc, desc) and structural_equal(known.impl, impl)
            if same:
                return known
            raise ScheduleValueError(
                "TensorIntrin.register",
                f"The name {name!r} is taken by another tensor intrinsic. Choose another name, or "
                "give override=True.",
            )
        _REGISTERED[name] = made
        return made

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of a name. Where there is none, None if ``allow_missing``, else raises
        ScheduleValueError."""
        return _known(name) if allow_missing else required_intrin(name)

    @staticmethod
    def names() -> list[str]:
        """The names that can be asked for, in alphabetical order."""
        return sorted({*SHIPPED, *_REGISTERED})


def _known(name: str) -> TensorIntrin | None:
    known = _REGISTERED.get(name)
    if known is None and name in SHIPPED:
        desc, impl = SHIPPED[name]
        known = _REGISTERED[name] = TensorIntrin(name, parse_func(desc), parse_func(impl))
    return known


def required_intrin(name: str) -> TensorIntrin:
    """The intrinsic of a name; raises ScheduleValueError where there is none."""
    known = _known(require_text(name, "the name of a tensor intrinsic", "tensorize"))
    if known is None:
        names = TensorIntrin.names()
        raise ScheduleValueError(
            "tensorize",
            f"There is no tensor intrinsic {name!r}; registered are "
            f"{', '.join(map(repr, names))}.{nearest(name, names)} "
            "TensorIntrin.register(name, desc, impl) registers one for this process.",
        )
    return known


def _refuse(made: TensorIntrin, found: str) -> ScheduleValueError:
    return ScheduleValueError("TensorIntrin.register", f"{made.name!r}: {found}")


def _require_pair(made: TensorIntrin) -> None:
    for label, func in (("description", made.desc), ("implementation", made.impl)):
        if not isinstance(func, PrimFunc) or not isinstance(func.body, BlockRealize):
            raise _refuse(made, f"Expected a PrimFunc with blocks as the {label}.")
        if len(func.buffers) != len(func.params):
            raise _refuse(made, f"The {label} has a scalar parameter; operands are buffers.")
    desc, impl = made.desc.buffers, made.impl.buffers
    if len(desc) != len(impl):
        raise _refuse(
            made, f"The description has {len(desc)} parameters, the implementation {len(impl)}."
        )
    for a, b in zip(desc, impl, strict=True):
        if a.dtype is not b.dtype or first_difference(a.shape, b.shape) is not None:
            raise _refuse(
                made,
                f"The parameter {a.name!r} of the description and {b.name!r} of the "
                "implementation differ in shape or dtype.",
            )
    _require_no_more_touched(made)


def _require_no_more_touched(made: TensorIntrin) -> None:
    for what, mine, theirs in zip(
        ("reads", "writes"), accessed_buffers(made.impl.body), _touched(made.desc), strict=True
    ):
        for a, b in zip(made.desc.buffers, made.impl.buffers, strict=True):
            if b in mine and a not in theirs:
                raise _refuse(
                    made, f"The implementation {what} {b.name!r}, which the description does not."
                )


def _touched(desc: PrimFunc) -> tuple[Sequence[Buffer], Sequence[Buffer]]:
    """What an implementation may read (what it writes, it may read after), and write."""
    loads, stores = accessed_buffers(desc.body)
    return [*loads, *stores], stores
