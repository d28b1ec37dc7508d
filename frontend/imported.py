"""Imported: what a front end gives the driver, the same for every kind of model.

The module holds nothing of torch or onnx but, where memory can be shared, the weights of a torch
module: whoever compiles it copies what he keeps. What a call of the foreign model looks like is
kept as two functions. Nothing is compiled here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..graphir.module import IRModule
from ..support.call_form import CallForm

LOOK_UPS = ("take", "gather_elements", "scatter_elements", "advanced_index", "scatter_index")
"""Our operators that read or write at places that data say."""


@dataclass(frozen=True)
class SizeRelation:
    """That the symbolic dim ``name`` is what the text ``other`` says, in terms of others.
    ``places`` has a place of each of these dims: its name, an input, and an axis of it."""

    name: str
    other: str
    places: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Question:
    """What an import must know to go on, because the program depends on it: ``"types"``, the shapes
    of all inputs, which earlier answers are forgotten for; or ``"sizes"``, that those of data are
    not to be bound to names, which earlier values are forgotten for; or whether a relation of sizes
    holds; or the value that ``main`` of this module gives; or (a number) that of an input.
    ``reason`` says where that is so."""

    wanted: str | int | SizeRelation
    reason: str


@dataclass(frozen=True)
class IndexRange:
    """What the foreign framework asks of the indices of a call, where our operator takes more of
    them: none is negative. ``operator`` names the call; of None it is a look-up, whose indices
    count along an axis, otherwise its first operand holds numbers below ``size``."""

    operator: str | None = None
    size: int | None = None


@dataclass(frozen=True)
class InputTypes:
    """The answer to a question for types. ``shapes`` has a shape for each input; for a sequence a
    list of them, and None for an absent optional."""

    shapes: tuple[Any, ...]


@dataclass(frozen=True)
class RelatedSizes:
    """The answer to a question for a relation of sizes."""

    relation: SizeRelation
    holds: bool


@dataclass(frozen=True)
class KnownSizes:
    """The answer to a question for sizes: from here on each is asked for."""


@dataclass(frozen=True)
class Imported:
    """``module`` has one graph Function ``main``: a parameter for each tensor input, weights as
    constants, a tuple of outputs as result (or a bare one).

    ``flatten_inputs(args, kwargs)`` gives the tensors of a call in parameter order; it raises
    ArityError, ArgumentError or ShapeMismatchError where the call does not fit.
    ``unflatten_outputs(tensors)`` puts a list of outputs into the model's own structure.
    """

    module: IRModule
    input_names: tuple[str, ...]
    """The names users know the tensor inputs by, in parameter order."""
    flatten_inputs: Callable[[tuple[Any, ...], dict[str, Any]], list[Any]]
    unflatten_outputs: Callable[[list[Any]], Any]
    form: Callable[[], CallForm]
    """How calls look, as data: what a saved model keeps of the functions above. Raises
    ArtifactError where that cannot be said."""
    numbers: tuple[int, ...] = ()
    """Places among the leaves of the result where the model gives a number of Python that the
    program computes, of named sizes, as a tensor of one element."""
    single_output: bool = True
    """The model gives one bare tensor: ``unflatten_outputs`` is ``lambda outputs: outputs[0]``."""
    bare_tuple: bool = False
    """The model gives a tuple of bare tensors, two or more: ``unflatten_outputs`` is ``tuple``."""
    positional_only: bool = True
    """Every call with exactly the right number of positional tensors flattens to itself."""
    is_quantized: bool = False
    """Its products were made ones of bytes, with ranges that are not the foreign model's."""
    state: tuple[str, ...] = ()
    """Tensors of the foreign model that calls change: the last inputs, which ``flatten_inputs``
    adds by itself."""
    held: tuple[Any, ...] = ()
    """Those tensors."""
    written: tuple[int, ...] = ()
    """The inputs that a call changes, in the order of its first results, which are what they become
    and are no outputs."""
    dim_names: tuple[str, ...] = ()
    """The symbolic dims of ``main``, under the names the user gave them."""
    source: str = ""
    """What was imported, for reports: ``torch MLP``, ``mlp.onnx``."""
    notes: tuple[str, ...] = ()
    """What a user may want to know, a sentence each."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """What the front end took, by part: ``torch.export`` is not ours, ``import`` is."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Name of a value in the foreign model to the variable of ``main`` that holds it."""

    places: Mapping[str, str] = field(default_factory=dict)
    """Variable of ``main`` to where it comes from in the foreign model: ``net.py:12``, or the name
    of a value."""

    index_ranges: Mapping[str, IndexRange] = field(default_factory=dict)
    """By the variable of ``main`` that a call is bound to."""

    functions: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    """The environment functions that ``main`` calls and nobody has registered: operators that the
    foreign framework runs."""

    declared: tuple[tuple[str, tuple[str, ...], str], ...] = ()
    """(name, shape, dtype) of each input as the foreign model says them, where the module has no
    ``main`` yet."""

    question: Question | None = None
    """The module is no model yet, but what answers this: import once more, with the answer."""

    def without_module(self) -> Imported:
        """What is left when the module is compiled: how calls look."""
        return replace(self, module=IRModule())
