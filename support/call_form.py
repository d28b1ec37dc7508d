"""How a call of a model looks, as data: what a saved model knows of the one it was made from.

A *tree* is a nest of plain Python: ``TENSOR`` where a tensor stands, ``{"value": x}`` for a plain
value that became part of the program, ``NUMBER`` in a result where a
number stands that the program computes (a size), ``{"list": [...]}``, ``{"tuple": [...]}`` and
``{"dict": [[key, tree], ...]}``. A ``"record"`` is a dict of another class, such as the
``ModelOutput`` of transformers: it comes back as a ``Record``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from .errors import ArgumentError, ArityError, ArtifactError, ShapeMismatchError, nearest

TENSOR, NUMBER = "tensor", "number"
Tree: TypeAlias = Any


class Record(dict[str, Any]):
    """A dict whose values are attributes too, and items by their place."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"no {name!r}; there are {', '.join(self)}") from None

    def __getitem__(self, key: Any) -> Any:
        return dict.__getitem__(self, key) if isinstance(key, str) else tuple(self.values())[key]


@dataclass(frozen=True)
class SizeRange:
    """The sizes that a named dim may have: of axis ``axis`` of the ``tensor``-th tensor."""

    name: str
    tensor: int
    axis: int
    low: int
    high: int | None


@dataclass(frozen=True)
class CallForm:
    """Inputs by name, in the order of positions, each with its tree; the result's tree."""

    names: tuple[str, ...]
    trees: tuple[Tree, ...]
    result: Tree
    ranges: tuple[SizeRange, ...] = ()
    takes_dict: bool = False
    """One dict of inputs by name may stand for all."""

    @staticmethod
    def plain(names: Sequence[str], outputs: int, *, takes_dict: bool = False) -> CallForm:
        """Tensors by position or name; one result bare, several as a tuple."""
        result = TENSOR if outputs == 1 else {"tuple": [TENSOR] * outputs}
        return CallForm(tuple(names), (TENSOR,) * len(names), result, takes_dict=takes_dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(known: Mapping[str, Any]) -> CallForm:
        form = CallForm(
            tuple(known["names"]),
            tuple(known["trees"]),
            known["result"],
            tuple([SizeRange(**r) for r in known["ranges"]]),
            known["takes_dict"],
        )
        tensors = sum(_count(tree) for tree in form.trees)
        if len(form.names) != len(form.trees) or any(r.tensor >= tensors for r in form.ranges):
            raise ValueError("the form of its calls does not fit itself")
        return form

    # -- what entries ask ------------------------------------------------------------------------
    @property
    def is_flat(self) -> bool:
        """Every call with the right number of positional tensors flattens to itself."""
        return self.has_bare_inputs and not self.ranges

    @property
    def has_bare_inputs(self) -> bool:
        """Each input is one tensor."""
        return all(tree == TENSOR for tree in self.trees)

    @property
    def is_single(self) -> bool:
        """The result is one bare tensor."""
        return bool(self.result == TENSOR)

    @property
    def is_tuple(self) -> bool:
        """The result is a tuple of bare tensors."""
        parts: Any = self.result.get("tuple") if isinstance(self.result, dict) else None
        return bool(parts) and all(part == TENSOR for part in parts)

    # -- calls -----------------------------------------------------------------------------------
    def flatten(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
        """The tensors of a call, in order. Raises ArityError, ArgumentError, ShapeMismatchError."""
        first = args[0] if args and not args[1:] and not kwargs else None
        if self.takes_dict and isinstance(first, Mapping):
            args, kwargs = (), first
        given = bound_inputs(self.names, args, kwargs)
        found: list[Any] = []
        owners: list[str] = []
        for name, tree in zip(self.names, self.trees, strict=True):
            found += _leaves(tree, given[name], f"input {name!r}")
            owners += [f"input {name!r}"] * (len(found) - len(owners))
        for r in self.ranges:
            check_size(found[r.tensor], owners[r.tensor], r.name, r.axis, r.low, r.high)
        return found

    def arguments(self, tensors: Sequence[Any]) -> list[Any]:
        """The arguments of a call, by position, that ``flatten`` takes apart into these tensors.

        Raises ArityError for another number of them.
        """
        count = sum(_count(tree) for tree in self.trees)
        if len(tensors) != count:
            raise ArityError(
                f"the model takes {count} input tensor{'s' if count != 1 else ''} "
                f"({', '.join(self.names)}); got {len(tensors)}."
            )
        rest = iter(tensors)
        return [_fill(tree, rest) for tree in self.trees]

    def unflatten(self, tensors: Sequence[Any]) -> Any:
        """The outputs in the structure of the result."""
        return _fill(self.result, iter(tensors))

    @property
    def output_names(self) -> list[str]:
        """The name of each output, by the way to it."""
        mark = object()
        result = self.unflatten([mark] * _count(self.result))
        return [name for name, leaf in named_outputs(result) if leaf is mark]


def named_leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The tensors and plain values of a nest, each called by the way to it: ``name.key``,
    ``name.0``."""
    if isinstance(value, (list, tuple, Mapping)):
        inner = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, part in inner:
            yield from named_leaves(part, f"{name}.{key}")
    else:
        yield name, value


def named_outputs(result: Any) -> list[tuple[str, Any]]:
    """The tensors and plain values of what a model gives, by name: ``output_0``, ``output_1`` of
    several, ``output_0.logits`` of a dict, ``output_0.1`` of a list inside."""
    outputs = list(result) if isinstance(result, (list, tuple)) else [result]
    return [leaf for i, o in enumerate(outputs) for leaf in named_leaves(o, f"output_{i}")]


def check_size(x: Any, owner: str, name: str, axis: int, low: int, high: int | None) -> None:
    """Whether the dim ``name`` at an axis of ``x`` may have its size.

    Raises ArgumentError for what has no shape, ShapeMismatchError for another size or no such axis.
    """
    shape = getattr(x, "shape", None)
    if shape is None:
        raise ArgumentError(f"{owner}: expected a tensor or an array; found {type(x).__name__}.")
    size = shape[axis] if axis < len(shape) else None
    if size is None or size < low or (high is not None and size > high):
        wanted = f"{low} and more" if high is None else f"{low} to {high}"
        found = f"{len(shape)} dims" if size is None else str(size)
        raise ShapeMismatchError(
            f"{owner}, dim {axis}", f"of {name} from {wanted}", found, "It was exported for these."
        )


def tree_of(value: Any, leaves: Mapping[int, Tree], what: str) -> Tree:
    """The tree of a nest of list, tuple and dict whose integers are numbers of ``leaves``.

    Raises ArtifactError for any other class, which a saved model could not build again.
    """
    if type(value) is int:
        return leaves[value]
    if type(value) in (list, tuple):
        return {type(value).__name__: [tree_of(v, leaves, what) for v in value]}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        kind = "dict" if type(value) is dict else "record"
        return {kind: [[k, tree_of(v, leaves, what)] for k, v in dict.items(value)]}
    if value is None:
        return {"value": None}
    raise ArtifactError(
        f"{what} is a {type(value).__name__}; a saved model knows tensors, plain values, lists, "
        "tuples and dicts with string keys. Wrap the module in one whose forward() uses these."
    )


def value_tree(value: Any, what: str) -> Tree:
    """The tree of a plain value. Raises ArtifactError for one that JSON has not."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return {"value": value}
    raise ArtifactError(f"{what} is a {type(value).__name__}, which cannot be saved.")


def _leaves(tree: Tree, value: Any, what: str) -> Iterator[Any]:
    if tree == TENSOR:
        yield value
        return
    ((kind, inner),) = tree.items()
    if kind == "value":
        if type(value) is not type(inner) or value != inner:
            raise ArgumentError(
                f"{what}: {inner!r} at compilation, which became part of the program; got "
                f"{found_in_call(value)}. Compile again for another value."
            )
    elif kind in ("dict", "record"):
        check_keys(what, value, [key for key, _ in inner])
        for key, part in inner:
            yield from _leaves(part, value[key], f"{what}[{key!r}]")
    else:
        check_items(what, value, kind, len(inner))
        for i, (part, item) in enumerate(zip(inner, value, strict=True)):
            yield from _leaves(part, item, f"{what}[{i}]")


def bound_inputs(
    names: Sequence[str], args: Sequence[Any], kwargs: Mapping[str, Any], advice: str = ""
) -> dict[str, Any]:
    """The inputs of a call by name, all of ``names`` and in their order. Raises ArityError for
    others, with ``advice`` where there are too many."""
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name in given:
            raise ArityError(f"{name!r} was given twice; the inputs are {', '.join(names)}.")
        if name not in names:
            hint = nearest(name, names) or advice
            listed = ", ".join(names) or "none"
            raise ArityError(f"{name!r} is no input of this model; the inputs are {listed}.{hint}")
        given[name] = value
    if len(args) > len(names) or len(given) < len(names):
        missing = [repr(n) for n in names if n not in given]
        problem = f": {', '.join(missing)} missing." if missing else f".{advice}"
        raise ArityError(
            f"the model takes {len(names)} input{'s' if len(names) != 1 else ''} "
            f"({', '.join(names)}); got {len(args) + len(kwargs)}{problem}"
        )
    return {name: given[name] for name in names}


def check_keys(what: str, value: Any, keys: Sequence[Any]) -> None:
    """Raise ArityError unless an input is a dict with these keys, in any order."""
    listed = ", ".join(map(repr, keys)) or "none"
    if not isinstance(value, Mapping):
        raise ArityError(
            f"{what}: expected a dict with the keys {listed}; found {found_in_call(value)}."
        )
    missing = [repr(key) for key in keys if key not in value]
    more = [repr(key) for key in value if key not in keys]
    problems = [f"without {', '.join(missing)}"] if missing else []
    problems += [f"with {', '.join(more)} too"] if more else []
    if problems:
        raise ArityError(
            f"{what}: expected a dict with the keys {listed}; found one {', '.join(problems)}."
        )


def check_items(what: str, value: Any, kind: str, count: int) -> None:
    """Raise ArityError unless an input is a list or tuple of so many; ``kind`` is the word for what
    it was at compilation."""
    if not isinstance(value, (list, tuple)) or len(value) != count:
        raise ArityError(f"{what}: expected a {kind} of {count}; found {found_in_call(value)}.")


def found_in_call(value: Any) -> str:
    """What a call has in the place of an input, for errors."""
    kind = type(value).__name__
    if isinstance(value, Mapping):
        return f"a {kind} with the keys {', '.join(map(repr, value)) or 'none'}"
    if isinstance(value, (list, tuple)):
        return f"a {kind} of {len(value)}"
    is_plain = value is None or isinstance(value, (bool, int, float, complex, str))
    return repr(value) if is_plain else f"a {kind}"


def as_number(x: Any) -> Any:
    """The number that a tensor of one element holds; itself for what is no tensor."""
    return x.item() if hasattr(x, "item") else x


def _fill(tree: Tree, tensors: Iterator[Any]) -> Any:
    if tree == TENSOR:
        return next(tensors)
    if tree == NUMBER:
        return as_number(next(tensors))
    ((kind, inner),) = tree.items()
    if kind == "value":
        return inner
    if kind in ("dict", "record"):
        filled = {key: _fill(part, tensors) for key, part in inner}
        return filled if kind == "dict" else Record(filled)
    made = [_fill(part, tensors) for part in inner]
    return made if kind == "list" else tuple(made)


def _count(tree: Tree) -> int:
    """The tensors of a tree."""
    if tree in (TENSOR, NUMBER):
        return 1
    ((kind, inner),) = tree.items()
    if kind == "value":
        return 0
    return sum(_count(part[1] if kind in ("dict", "record") else part) for part in inner)
