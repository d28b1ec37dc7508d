"""How a call of the module looks: from nested Python arguments to a flat list of tensors, and back.

A compiled model is called as its module was. What is no tensor (numbers, None, flags) became part
of the program and must be given again as it was.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    InputKind,
    OutputKind,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from ...support.call_form import (
    NUMBER,
    TENSOR,
    CallForm,
    SizeRange,
    as_number,
    bound_inputs,
    check_items,
    check_keys,
    check_size,
    found_in_call,
    tree_of,
    value_tree,
)
from ...support.errors import (
    ArgumentError,
    ArityError,
    ArtifactError,
    FrontendError,
    ShapeMismatchError,
)
from .unsaid_guards import failing_together

_TENSOR = object()
_COMPUTED = object()
"""An output that is a number of Python, computed of named sizes."""
_NUMBERS = (SymIntArgument, SymFloatArgument, SymBoolArgument)
_LEFT_OUT = (
    " An input that was left out at compilation is none of a call either: compile with an example "
    "of it."
)


@dataclass(frozen=True)
class DimRange:
    """The sizes a named dim was exported for, and a place where a call shows its size."""

    name: str
    leaf: int
    axis: int
    low: int
    high: int | None


@dataclass(frozen=True)
class SizeCondition:
    """What sizes of several names must satisfy together: the branches that a program took."""

    text: str
    """Over ``size0``, ``size1``, ..."""
    names: tuple[str, ...]
    places: tuple[tuple[int, int, int, int], ...]
    """For each name (leaf, axis, factor, number): the dim there is factor * name + number."""

    @property
    def said(self) -> str:
        """The condition, by names."""
        return re.sub(r"\bsize(\d+)\b", lambda m: self.names[int(m[1])], self.text)

    def check(self, leaves: Sequence[Any]) -> None:
        """Raise ShapeMismatchError for inputs whose sizes do not satisfy it."""
        sizes = [(leaves[i].shape[a] - more) // factor for i, a, factor, more in self.places]
        if failing_together(self.text, [[n] for n in sizes]):
            found = ", ".join([f"{n} = {v}" for n, v in zip(self.names, sizes, strict=True)])
            raise ShapeMismatchError(
                "the inputs",
                f"of {self.said}",
                found,
                "forward() takes another branch for other sizes. Compile with an example of these.",
            )


@dataclass
class CallStructure:
    """The inputs and outputs of one exported program."""

    in_spec: Any
    out_spec: Any
    inputs: list[Any]
    """For each leaf of a call: ``_TENSOR``, or the constant it was at export."""
    outputs: list[Any]
    """The same of the result, or ``_COMPUTED``."""
    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    ranges: list[DimRange] = field(default_factory=list)
    conditions: tuple[SizeCondition, ...] = ()

    @classmethod
    def of(cls, program: ExportedProgram, parameters: Sequence[str] = ()) -> CallStructure:
        """Read it from a program; ``parameters`` are the names of ``forward``'s positional inputs.

        Raises FrontendError for inputs and outputs that are neither tensors nor plain values.
        """
        signature = program.graph_signature
        inputs = [
            _leaf(s.arg, "input") for s in signature.input_specs if s.kind is InputKind.USER_INPUT
        ]
        outputs = [
            _COMPUTED if isinstance(s.arg, _NUMBERS) else _leaf(s.arg, "output")
            for s in signature.output_specs
            if s.kind is OutputKind.USER_OUTPUT
        ]
        if not any(map(is_program_output, outputs)):
            raise FrontendError(
                "forward() returns no tensor, so there is nothing to compile: at these sizes its "
                "result is always the same. Where it is a number of sizes that vary, name these: "
                'dynamic_shapes=({0: "batch"},).'
            )
        in_spec, out_spec = program.call_spec.in_spec, program.call_spec.out_spec
        assert in_spec is not None
        args, kwargs = pytree.tree_unflatten(list(range(len(inputs))), in_spec)
        given = [s.arg.name for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        names = list(parameters[: len(args)])
        for i in range(len(names), len(args)):
            names.append(given[args[i]] if isinstance(args[i], int) else f"input {i}")
        return cls(in_spec, out_spec, inputs, outputs, tuple(names), tuple(kwargs))

    @property
    def is_flat(self) -> bool:
        """The model takes its tensors one by one, by position, at any size."""
        count = len(self.inputs)
        bare = pytree.tree_structure((tuple([0] * count), {}))
        return (
            all(x is _TENSOR for x in self.inputs)
            and self.in_spec == bare
            and not (self.ranges or self.conditions)
        )

    @property
    def is_single(self) -> bool:
        """The model gives one bare tensor."""
        return self.out_spec is not None and self.out_spec.is_leaf() and self.outputs == [_TENSOR]

    @property
    def is_tuple(self) -> bool:
        """The model gives a tuple of tensors, two or more."""
        count = len(self.outputs)
        bare = pytree.tree_structure(tuple([0] * count))
        return count > 1 and all(x is _TENSOR for x in self.outputs) and self.out_spec == bare

    def form(self) -> CallForm:
        """All of it as data. Raises ArtifactError for what data cannot say: other containers than
        lists, tuples and dicts."""
        if self.conditions:
            raise ArtifactError(
                f"The sizes of this model's calls have to be of {self.conditions[0].said}, which a "
                "file does not say: compile for sizes without names, or with a Dim of one side."
            )
        inputs = {i: _said(known, f"input {i}") for i, known in enumerate(self.inputs)}
        outputs = {i: _said(known, f"output {i}") for i, known in enumerate(self.outputs)}
        args, kwargs = pytree.tree_unflatten(list(inputs), self.in_spec)
        given = [*zip(self.positional, args, strict=True), *kwargs.items()]
        result = pytree.tree_unflatten(list(outputs), self.out_spec)
        place = {leaf: sum(x is _TENSOR for x in self.inputs[:leaf]) for leaf in inputs}
        return CallForm(
            tuple([name for name, _ in given]),
            tuple([tree_of(tree, inputs, f"input {name!r}") for name, tree in given]),
            tree_of(result, outputs, "the result"),
            tuple([SizeRange(r.name, place[r.leaf], r.axis, r.low, r.high) for r in self.ranges]),
        )

    # -- inputs -------------------------------------------------------------------------------
    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, in order.

        Raises ArityError (number, names or structure of the inputs), ArgumentError (a plain value
        that differs), ShapeMismatchError (a size that the program was not exported for).
        """
        bound = bound_inputs((*self.positional, *self.keywords), args, kwargs, _LEFT_OUT)
        tree = (
            tuple([bound[n] for n in self.positional]),
            {n: bound[n] for n in self.keywords},
        )
        try:
            leaves = self.in_spec.flatten_up_to(tree)
        except ValueError as error:
            for name, spec in self._specs():
                _check_structure(spec, bound[name], f"input {name!r}")
            raise ArityError(
                f"the inputs ({', '.join(bound)}) are not structured as at compilation: {error}"
            ) from None
        for i, (leaf, known) in enumerate(zip(leaves, self.inputs, strict=True)):
            if known is not _TENSOR and not (
                leaf is known or (type(leaf) is type(known) and leaf == known)
            ):
                raise ArgumentError(
                    f"{self._owner(i)}: {known!r} at compilation, which became part of the "
                    f"program; got {found_in_call(leaf)}. Compile again for another value."
                )
        for r in self.ranges:
            check_size(leaves[r.leaf], self._owner(r.leaf), r.name, r.axis, r.low, r.high)
        for condition in self.conditions:
            condition.check(leaves)
        return [leaf for leaf, known in zip(leaves, self.inputs, strict=True) if known is _TENSOR]

    def _specs(self) -> list[tuple[str, Any]]:
        """The structure of each input, by name."""
        args, kwargs = self.in_spec.children()
        names = (*self.positional, *kwargs.context)
        return list(zip(names, (*args.children(), *kwargs.children()), strict=True))

    def _owner(self, leaf: int) -> str:
        """The input that a leaf belongs to, for errors."""
        end = 0
        for name, spec in self._specs():
            end += spec.num_leaves
            if leaf < end:
                return f"input {name!r}"
        raise AssertionError(f"there are {end} leaves, and no leaf {leaf}")

    def fill(self, tensors: Iterable[Any]) -> list[Any]:
        """Every leaf of a call from its tensors; the plain values are those of the export."""
        rest = iter(tensors)
        return [next(rest) if known is _TENSOR else known for known in self.inputs]

    # -- outputs ------------------------------------------------------------------------------
    def unflatten(self, tensors: Sequence[Any]) -> Any:
        """The flat outputs in the structure that ``forward`` returned."""
        rest = iter(tensors)
        leaves = [next(rest) if is_program_output(known) else known for known in self.outputs]
        for i in self.numbers:
            leaves[i] = as_number(leaves[i])
        return self._build(leaves)

    @cached_property
    def numbers(self) -> tuple[int, ...]:
        """The leaves of the result that are numbers which the program computes."""
        return tuple([i for i, known in enumerate(self.outputs) if known is _COMPUTED])

    @cached_property
    def _build(self) -> Callable[[list[Any]], Any]:
        return _builder(self.out_spec, 0)


def _builder(spec: Any, first: int) -> Callable[[list[Any]], Any]:
    """What makes the structure of a spec from a list of leaves, its own from ``first`` on: for
    lists, tuples and dicts a fraction of the time that the general way takes."""
    if spec.is_leaf():
        return itemgetter(first)
    parts = []
    for child in spec.children():
        parts.append(_builder(child, first))
        first += child.num_leaves
    if spec.type is list:
        return lambda leaves: [part(leaves) for part in parts]
    if spec.type is tuple:
        return lambda leaves: tuple([part(leaves) for part in parts])
    if spec.type is dict:
        keyed = list(zip(spec.context, parts, strict=True))
        return lambda leaves: {key: part(leaves) for key, part in keyed}
    end, begin = first, first - spec.num_leaves
    return lambda leaves: pytree.tree_unflatten(leaves[begin:end], spec)


def _check_structure(spec: Any, value: Any, what: str) -> None:
    """Raise ArityError for what is not structured as at compilation, with the place."""
    if spec.is_leaf():
        return
    children = spec.children()
    if issubclass(spec.type, Mapping):
        check_keys(what, value, spec.context)
        for key, child in zip(spec.context, children, strict=True):
            _check_structure(child, value[key], f"{what}[{key!r}]")
        return
    kind = spec.type.__name__
    if spec.type in (list, tuple):
        check_items(what, value, kind, len(children))
    if type(value) is not spec.type:
        raise ArityError(
            f"{what}: expected a {kind}, which it was at compilation; found {found_in_call(value)}."
        )
    if spec.type in (list, tuple):
        for i, child in enumerate(children):
            _check_structure(child, value[i], f"{what}[{i}]")
        return
    given = pytree.tree_structure(value)
    if given.context != spec.context or given.num_children != spec.num_children:
        raise ArityError(
            f"{what}: this {kind} holds other parts or numbers than the one at compilation (a "
            "cache whose windows have left tokens behind, or that is empty, is another one). "
            "Compile for such an example, too."
        )


def _said(known: Any, what: str) -> Any:
    if known is _COMPUTED:
        return NUMBER
    return TENSOR if known is _TENSOR else value_tree(known, what)


def _leaf(argument: Any, what: str) -> Any:
    if isinstance(argument, TensorArgument):
        return _TENSOR
    if isinstance(argument, ConstantArgument):
        return argument.value
    raise FrontendError(
        f"{what} {argument.name!r} is no tensor but a "
        f"{type(argument).__name__.removesuffix('Argument')}; "
        + (
            "return tensors and numbers."
            if what == "output"
            else "make it static, or pass a tensor."
        )
    )


def is_program_output(known: Any) -> bool:
    """Whether a leaf of ``CallStructure.outputs`` comes out of the program."""
    return known is _TENSOR or known is _COMPUTED


__all__ = ["CallStructure", "DimRange", "SizeCondition", "is_program_output"]
