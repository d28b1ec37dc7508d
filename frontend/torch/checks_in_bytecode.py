"""Checks of values whose answers a model keeps, where torch reads its bytecode.

    ok = bool((x > 0).all());  assert ok, "positive"
    n = int(mask.sum());       if n > 4: raise ValueError(n)

As code runs, ``bool()`` and ``int()`` must give what Python knows, and there is nothing: torch
reads the bytecode of such models. It loses assertions of what it has read out of tensors, and
refuses branches on them. Here the program checks both, as ``checks_of_data`` has it for questions
that are asked where they stand.
"""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
import torch.fx.experimental.symbolic_shapes as symbolic_shapes
from torch._dynamo.exc import UserError, UserErrorType

from .checks_of_data import are_caught, wrong_truth
from .surroundings import attribute_set


@contextlib.contextmanager
def checks_in_bytecode() -> Iterator[None]:
    """Has torch's reader of bytecode keep assertions of what data tell, and take the way of a
    branch that does not raise where the other does."""
    # Slow to import, and of no use to most models.
    from torch._dynamo import symbolic_convert
    from torch._dynamo.variables.builtin import BuiltinVariable
    from torch._dynamo.variables.tensor import SymNodeVariable

    places: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (symbolic_shapes, "expect_true", _keeping),
        (symbolic_convert, "guard_bool", _answering),
        (symbolic_convert, "_detect_and_normalize_assert_statement", _refusing),
        (SymNodeVariable, "evaluate_expr", _answering),
        (BuiltinVariable, "call_not_", _negating),
    )
    with contextlib.ExitStack() as stack:
        for held, name, changed in places:
            function = getattr(held, name, None)
            if function is None:
                continue  # not in all versions of torch
            stack.enter_context(attribute_set(held, name, changed(function)))
        yield


def _keeping(expect_true: Callable[..., bool]) -> Callable[..., bool]:
    """torch's function that supposes a condition, which a reader asks where code asserts it."""

    def kept(holds: Any, *args: Any) -> bool:
        asker = sys._getframe(1)
        reader = _reader(asker)
        if reader is None or "value" not in asker.f_locals or not _is_of_data(holds):
            return expect_true(holds, *args)
        _check(reader, asker.f_locals["value"], truth=True)
        # torch puts a constant in the place of what is equal to it, and then checks nothing.
        return type(holds.node.expr).__name__ == "Equality" or expect_true(holds, *args)

    return kept


def _refusing(find_assert: Callable[..., bool]) -> Callable[..., bool]:
    """torch's function that knows assertions, whose errors code may catch."""

    def found(reader: Any, *args: Any) -> bool:
        if not find_assert(reader, *args):
            return False
        value: Any = sys._getframe(1).f_locals.get("value")
        if not value.is_python_constant() and are_caught(_places(reader)):
            raise UserError(UserErrorType.ANTI_PATTERN, "an assertion of data that is caught")
        return True

    return found


def _answering(truth: Callable[..., Any]) -> Callable[..., Any]:
    """torch's function for the truth of a flag, which raises for one that data tell."""

    def answered(flag: Any, *args: Any) -> Any:
        try:
            return truth(flag, *args)
        except (UserError, symbolic_shapes.GuardOnDataDependentSymNode):
            asker = sys._getframe(1)
            reader = _reader(asker)
            if reader is None or not _is_of_data(getattr(flag, "sym_num", flag)):
                raise
            wrong = wrong_truth(_places(reader))
            if wrong is None:
                raise
            _check(reader, asker.f_locals["value"], truth=not wrong)
            return not wrong

    return answered


def _negating(call_not: Callable[..., Any]) -> Callable[..., Any]:
    """torch's ``not``, which asks what a flag is."""

    def negated(self: Any, reader: Any, value: Any) -> Any:
        held = getattr(value, "sym_num", None)
        if held is None:
            return call_not(self, reader, value)
        create = reader.output.create_proxy
        if isinstance(held, torch.SymBool):
            made = create("call_function", torch.sym_not, (value.as_proxy(),), {})
        else:
            made = create("call_function", operator.eq, (value.as_proxy(), 0), {})
        return type(value).create(reader, made)

    return negated


def _reader(asker: FrameType) -> Any:
    """What reads bytecode, where that asks."""
    found = asker.f_locals.get("self")
    return found if hasattr(found, "current_instruction") else None


def _is_of_data(flag: Any) -> bool:
    """Whether a flag is one of numbers that were read out of tensors."""
    return isinstance(flag, torch.SymBool) and bool(
        symbolic_shapes.free_unbacked_symbols(flag.node.expr)
    )


def _places(reader: Any) -> list[tuple[CodeType, int]]:
    """Where a reader of bytecode stands, and where those that had it read."""
    found = []
    while reader is not None:
        found.append((reader.f_code, reader.current_instruction.offset))
        reader = reader.parent
    return found


def _check(reader: Any, value: Any, *, truth: bool) -> None:
    """Have the program check that a value has a truth."""
    line = getattr(reader.current_instruction.positions, "lineno", None)
    place = f"{Path(reader.f_code.co_filename).name}:{line or reader.f_code.co_firstlineno}"
    create = reader.output.create_proxy
    flag = create("call_function", torch.scalar_tensor, (value.as_proxy(),), {"dtype": torch.bool})
    if not truth:
        flag = create("call_function", torch.logical_not, (flag,), {})
    create("call_function", torch.ops.aten._assert_async.msg, (flag, place), {})


__all__ = ["checks_in_bytecode"]
