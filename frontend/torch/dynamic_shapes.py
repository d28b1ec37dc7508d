"""Which dims of the example inputs vary: from what users write to what torch.export takes.

torch.export takes a dim of size 0 or 1 for a constant, and may take one that happens to equal
another size for the same. So each named dim is exported at a size of its own: a prime that no input
and no weight has. Only the shapes and dtypes of the examples matter to export; their values do not.
"""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from math import isqrt
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from ...support.errors import FrontendError, nearest

_Hint: Any = type(Dim.AUTO)
_Derived: Any = type(2 * Dim("n"))
_MOST_CANDIDATES = 1000


@dataclass
class ExportPlan:
    """Inputs and specification for torch.export, and where the named dims stand."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    specification: dict[str, Any] | None = None
    places: list[tuple[int, int, str]] = field(default_factory=list)
    """(leaf of (args, kwargs), axis, name) of every named dim."""
    extents: list[tuple[int, int, Callable[[int], int]]] = field(default_factory=list)
    """(leaf, axis, function) of the same: the size there where each dim is as small as allowed, but
    no smaller than the function's argument."""
    least: dict[tuple[int, int], int] = field(default_factory=dict)
    """The ``min`` that a user has stated, or what the module needs, by (leaf, axis): of ``"2*n"``
    it is twice that of the name."""
    examples: dict[int, torch.Tensor] = field(default_factory=dict)
    """What was given for the leaves that have named dims, whose place zeros of other sizes take."""
    names: tuple[str, ...] = ()
    shown: dict[str, int] = field(default_factory=dict)
    """What names stand for in the examples."""
    taken: frozenset[int] = frozenset()
    """The sizes that inputs, weights and named dims have while the module is exported."""
    doubtful: tuple[int, ...] = ()
    """Sizes at which what is exported may not be the module: it was traced before."""
    short: tuple[int, ...] = ()
    """Sizes of names at which the module may cut axes into less parts than the program: where it
    does, dims are larger."""
    parameters: tuple[str, ...] = ()
    """The names of the positional inputs, those of ``*args`` as ``args[0]``."""
    scripted: tuple[str, ...] = ()
    """Attributes that scripts in the module set to something else while it was exported."""
    assigned: tuple[str, ...] = ()
    """Those that its own ``forward()`` sets, and the program does not."""
    unknown: tuple[str, ...] = ()
    """What may give something else in each call without showing it: iterators, random numbers."""
    unsaid: tuple[str, ...] = ()
    """Where ``forward()`` prints, warns or logs for some values, and the program does not."""
    sampled: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Names of which torch leaves out more sizes than are looked at, and those that are."""
    conditions: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Guards over ``size0``, ``size1``, ... and the names that these are, outside of which the
    module computes something else."""
    compared: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """Of each name some of the sizes that torch leaves out, at which the program was compared."""
    turns: tuple[tuple[str, int], ...] = ()
    """Where ``forward()`` loops over places that data tell, and of how many each has its turn."""
    changed: tuple[torch.Tensor, ...] = ()
    """The tensors of the module that the program writes in place."""

    def leaves_out(self, size: int, name: str | None = None) -> bool:
        """Whether dims made of a name, or all, are larger than they are where it has this size."""
        return all(
            self.least.get((i, axis), 0) > extent(size)
            for (i, axis, extent), (_, _, own) in zip(self.extents, self.places, strict=True)
            if name in (None, own)
        )

    def at_size(self, size: int, name: str) -> ExportPlan:
        """This plan with other examples, whose dims made of a name have this size of it."""
        leaves, structure = pytree.tree_flatten((self.args, self.kwargs))
        shapes = {i: list(leaves[i].shape) for i, _, own in self.places if own == name}
        for (i, axis, extent), (_, _, own) in zip(self.extents, self.places, strict=True):
            if own == name:
                shapes[i][axis] = extent(size)
        for i, shape in shapes.items():
            leaves[i] = leaves[i].new_zeros(shape)
        args, kwargs = pytree.tree_unflatten(leaves, structure)
        return replace(self, args=args, kwargs=kwargs)

    def leaves_examples_out(self) -> bool:
        """Whether dims are larger than they are in the examples."""
        return any(
            self.examples[i].shape[axis] < least
            for (i, axis), least in self.least.items()
            if i in self.examples
        )

    def leave_out(self, size: int, name: str | None = None) -> None:
        """Makes dims made of a name, or all, larger than they are where it has this size."""
        for (i, axis, extent), (_, _, own) in zip(self.extents, self.places, strict=True):
            if name in (None, own):
                self.least[i, axis] = max(extent(size + 1), self.least.get((i, axis), 0))


def plan_export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    bounds: Mapping[str, Mapping[str, int]] | None = None,
) -> ExportPlan:
    """Normalise inputs and dynamic shapes.

    ``dynamic_shapes`` is None, a sequence with an entry for each input, or a mapping from parameter
    names. An entry follows the structure of its input down to tensors, whose entry maps dims to a
    name, arithmetic on one (``"2*h"``), a ``torch.export.Dim`` (or arithmetic on one, or a hint),
    an int or None. Such an entry for what holds tensors (a list, a dict, a dataclass, a cache of
    transformers) is for each of them. ``bounds`` are the ``min`` and ``max`` of dims that are plain
    names. Raises FrontendError where inputs do not fit ``forward()`` or the entries do not fit the
    inputs.
    """
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind(*args, **dict(kwargs or {}))
    except TypeError as error:
        raise FrontendError(
            f"the example inputs do not fit {type(module).__name__}.forward{signature}: {error}."
            + (" A dict that is itself an input stands in a tuple, (inputs,)." * (not args))
        ) from None
    kinds = {name: p.kind for name, p in signature.parameters.items()}
    plan = ExportPlan(bound.args, {})
    given = dict(bound.arguments)
    # by position where forward was called so, by keyword otherwise; torch does not reorder these
    plan.parameters = _positional_names(given, kinds, len(args))
    plan.kwargs = {n: v for n, v in _by_keyword(given, kinds) if n in (kwargs or {})}
    plan.args = tuple(args)
    values = _separate(given)
    entries = _entries(_given_alone(dynamic_shapes, signature.parameters, values), values, kinds)
    if entries is not None:
        planner = _Planner(values, _sizes(module, values), bounds or {})
        planner.collect(entries)
        planned = {n: planner.plan(v, entries.get(n), f"input {n!r}") for n, v in values.items()}
        values = {n: p[0] for n, p in planned.items()}
        plan.specification = {n: p[1] for n, p in planned.items()}
        plan.names = tuple(planner.sizes)
        plan.taken = frozenset(planner.taken)
        plan.shown = {name: size for name, (size, _) in planner.shown.items()}
        _assign(plan, values, kinds)
        leaves = pytree.tree_leaves((plan.args, plan.kwargs))
        for i, leaf in enumerate(leaves):
            for axis, name, extent in planner.named.get(id(leaf), ()):
                plan.places.append((i, axis, name))
                plan.extents.append((i, axis, extent))
            if id(leaf) in planner.examples:
                plan.examples[i] = planner.examples[id(leaf)]
            for axis, least in planner.least.get(id(leaf), ()):
                plan.least[i, axis] = least
    else:
        _assign(plan, values, kinds)
    return plan


def _positional_names(
    given: Mapping[str, Any], kinds: Mapping[str, Any], count: int
) -> tuple[str, ...]:
    names: list[str] = []
    for name, value in given.items():
        if kinds[name] is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{name}[{i}]" for i in range(len(value))]
        elif kinds[name] is not inspect.Parameter.VAR_KEYWORD:
            names.append(name)
    return tuple(names[:count])


def _by_keyword(given: Mapping[str, Any], kinds: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in given.items():
        if kinds[name] is inspect.Parameter.VAR_KEYWORD:
            yield from value.items()
        else:
            yield name, value


def _assign(plan: ExportPlan, values: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Put the (resized) values back where the originals stood."""
    positional: list[Any] = []
    for name, value in values.items():
        positional += value if kinds[name] is inspect.Parameter.VAR_POSITIONAL else [value]
    by_keyword = dict(_by_keyword(values, kinds))
    plan.args = tuple(positional[: len(plan.args)])
    plan.kwargs = {name: by_keyword[name] for name in plan.kwargs}


def _separate(given: dict[str, Any]) -> dict[str, Any]:
    """The inputs with a tensor object for each place: torch.export takes two places that hold one
    object for one input, and forgets the other."""
    seen: set[int] = set()

    def separate(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        key = id(x)
        result = x.detach().clone() if key in seen else x
        seen.add(key)
        return result

    return {name: pytree.tree_map(separate, value) for name, value in given.items()}


def _given_alone(dynamic_shapes: Any, known: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    """The entries without those for inputs that ``forward()`` knows and a call leaves out."""
    names = [n for n, p in known.items() if p.kind is not p.VAR_POSITIONAL]
    is_longer = isinstance(dynamic_shapes, (list, tuple)) and len(dynamic_shapes) > len(given)
    if is_longer and len(names) == len(known) and len(dynamic_shapes) <= len(names):
        dynamic_shapes = dict(zip(names, dynamic_shapes, strict=False))
    if not isinstance(dynamic_shapes, Mapping):
        return dynamic_shapes
    return {n: e for n, e in dynamic_shapes.items() if n in given or n not in known}


def _entries(
    dynamic_shapes: Any, values: Mapping[str, Any], kinds: Mapping[str, Any]
) -> dict[str, Any] | None:
    """One entry for each parameter of ``forward()``, whichever form was given; None for no dims."""
    if not dynamic_shapes:
        return None
    if isinstance(dynamic_shapes, Mapping):
        inner = [n for n in values if kinds[n] is inspect.Parameter.VAR_KEYWORD]
        known = [*values, *[k for n in inner for k in values[n]]]
        for name in dynamic_shapes:
            if isinstance(name, int) and len(values) == 1 and name not in known:
                shown = repr(dynamic_shapes).replace("'", '"')
                raise FrontendError(
                    f"dynamic_shapes has an entry for each input; {shown} is one of them: write "
                    f'({shown},), or {{"{known[0]}": {shown}}}.'
                )
            if name not in known:
                raise FrontendError(
                    f"dynamic_shapes names {name!r}, but the inputs of forward() are "
                    f"{', '.join(known)}.{nearest(str(name), known)} Write a dict by these, as in "
                    f'{{"{known[0]}": {{0: "batch"}}}}, or a tuple with an entry for each.'
                )
        result = {n: dynamic_shapes.get(n) for n in values}
        for n in inner:
            result[n] = result[n] or {k: dynamic_shapes.get(k) for k in values[n]}
        return result
    if not isinstance(dynamic_shapes, (tuple, list)):
        raise FrontendError(
            "dynamic_shapes takes a tuple with an entry for each input, as in ({0: 'batch'},), or "
            f"a dict by input name; found {type(dynamic_shapes).__name__}."
        )
    return _entries_in_order(list(dynamic_shapes), values, kinds)


def _entries_in_order(
    specs: list[Any], values: Mapping[str, Any], kinds: Mapping[str, Any]
) -> dict[str, Any]:
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    counts = {n: len(v) if kinds[n] in variadic else 1 for n, v in values.items()}
    total = sum(counts.values())
    if len(specs) == total:
        rest = iter(specs)
        result: dict[str, Any] = {}
        for name, value in values.items():
            match kinds[name]:
                case inspect.Parameter.VAR_POSITIONAL:
                    entries = tuple([next(rest) for _ in value])
                    result[name] = entries[0] if _is_torch_form(entries) else entries
                case inspect.Parameter.VAR_KEYWORD:
                    result[name] = {k: next(rest) for k in value}
                case _:
                    result[name] = next(rest)
        return result
    if len(specs) == len(values):
        return dict(zip(values, specs, strict=True))
    raise FrontendError(
        f"dynamic_shapes has {len(specs)} entries for {total} inputs; give one an input (None: "
        "static)."
    )


def _is_torch_form(entries: tuple[Any, ...]) -> bool:
    """Whether the one entry for ``*args`` of one input is itself the tuple of entries."""
    inner = entries[0] if len(entries) == 1 else None
    if not isinstance(inner, (tuple, list)) or len(inner) != 1:
        return False
    return isinstance(inner[0], (Mapping, tuple, list))


def _sizes(module: torch.nn.Module, values: Mapping[str, Any]) -> set[int]:
    """Every size of an input, a parameter or a buffer."""
    tensors = [x for x in pytree.tree_leaves(values) if isinstance(x, torch.Tensor)]
    tensors += [*module.parameters(), *module.buffers()]
    return {int(size) for t in tensors for size in t.shape}


class _Planner:
    """Walks inputs and entries together, collecting dims and resizing tensors."""

    def __init__(
        self,
        values: Mapping[str, Any],
        taken: set[int],
        bounds: Mapping[str, Mapping[str, int]],
    ) -> None:
        self.values = values
        self.taken = taken
        self.bounds = bounds
        self.dims: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}
        self.named: dict[int, list[tuple[int, str, Callable[[int], int]]]] = {}
        self.least: dict[int, list[tuple[int, int]]] = {}
        self.examples: dict[int, torch.Tensor] = {}
        self.kept: list[torch.Tensor] = []
        self.shown: dict[str, tuple[int, str]] = {}
        """What a name stands for in the example, and where that is seen."""

    def collect(self, entries: Any) -> None:
        """Dims that users made themselves, of which names elsewhere mean the same ones, and from
        where on sizes are that others are less than."""
        for leaf in pytree.tree_leaves(entries, is_leaf=lambda e: isinstance(e, (_Derived, _Hint))):
            dim = getattr(leaf, "root", leaf) if isinstance(leaf, _Derived) else leaf
            if not isinstance(dim, (str, int, _Hint)) and hasattr(dim, "__name__"):
                self._add(dim.__name__, dim)
            elif isinstance(dim, str) and not dim.isidentifier():
                name, factor, more = _linear(dim)
                known = self.bounds.get(name, {})
                lowest = max(known.get("min", 0), -(more // factor))
                self.bounds = {**self.bounds, name: {**known, "min": lowest}}

    def _add(self, name: str, dim: Any = None, least: int = 0) -> Any:
        if name in self.dims:
            return self.dims[name]
        if not name.isidentifier() or keyword.iskeyword(name):
            raise _no_name(name)
        if dim is None:
            dim = Dim(name, **{"min": 0, **self.bounds.get(name, {})})
        self.dims[name] = dim
        self.sizes[name] = self._free_size(self.dims[name], least)
        return self.dims[name]

    def _free_size(self, dim: Any, least: int) -> int:
        """One that nothing has, and no smaller than the example's, for which ``forward()`` is
        known to work."""
        low = max(2, int(dim.min))
        high = int(dim.max) if isinstance(dim.max, int) else low + least + _MOST_CANDIDATES
        low = min(max(low, least), high)
        for size in _candidates(low, high):
            if size not in self.taken:
                self.taken.add(size)
                return size
        return min(low, high)

    def plan(self, value: Any, entry: Any, where: str) -> tuple[Any, Any]:
        """(the value resized, the entry for torch)."""
        if entry is None or value is None:
            return value, _for_each(value, None)
        if isinstance(value, torch.Tensor):
            return self._plan_tensor(value, entry, where)
        if _are_dims(entry, value) and not pytree.tree_structure(value).is_leaf():
            entry = _for_each(value, entry)
        if type(value) in pytree.SUPPORTED_NODES and type(value) not in pytree.BUILTIN_TYPES:
            return self._plan_object(value, entry, where)
        if isinstance(value, Mapping):
            return self._plan_mapping(value, entry, where)
        if isinstance(value, (list, tuple)):
            if hasattr(value, "_fields") and isinstance(entry, Mapping):
                entry = _in_order(entry, value._fields, type(value), where)
            if not isinstance(entry, (list, tuple)) or len(entry) != len(value):
                raise FrontendError(
                    f"dynamic_shapes for {where}: expected a list of {len(value)} entries, found "
                    f"{entry!r}."
                )
            pairs = [
                self.plan(v, e, f"{where}[{i}]")
                for i, (v, e) in enumerate(zip(value, entry, strict=True))
            ]
            made, planned = [p[0] for p in pairs], [p[1] for p in pairs]
            return _of_kind(value, made), _of_kind(value, planned)
        raise FrontendError(f"dynamic_shapes for {where}: a {type(value).__name__} has no dims.")

    def _plan_object(self, value: Any, entry: Any, where: str) -> tuple[Any, Any]:
        """Of an object of a registered type: torch takes its entry as a list of its parts."""
        node = pytree.SUPPORTED_NODES[type(value)]
        parts, context = node.flatten_fn(value)
        if isinstance(entry, Mapping) and node.flatten_with_keys_fn is not None:
            paths = [str(path) for path, _ in node.flatten_with_keys_fn(value)[0]]
            known = [path.lstrip(".[").rstrip("]").strip("'") for path in paths]
            entry = _in_order(entry, known, type(value), where)
        planned, specification = self.plan(list(parts), entry, f"{where} ({type(value).__name__})")
        return node.unflatten_fn(planned, context), specification

    def _plan_mapping(self, value: Mapping[Any, Any], entry: Any, where: str) -> tuple[Any, Any]:
        unknown = [k for k in entry if k not in value] if isinstance(entry, Mapping) else [entry]
        if unknown:
            raise FrontendError(
                f"dynamic_shapes for {where}: expected entries for {list(value)}, found "
                f"{unknown[0]!r}."
            )
        pairs = {k: self.plan(v, entry.get(k), f"{where}[{k!r}]") for k, v in value.items()}
        made: Any = copy(value)  # of its own class, with its own default
        made.update({k: p[0] for k, p in pairs.items()})
        return made, {k: p[1] for k, p in pairs.items()}

    def _plan_tensor(self, value: torch.Tensor, entry: Any, where: str) -> tuple[Any, Any]:
        if isinstance(entry, (list, tuple)) and len(entry) == value.ndim:
            entry = dict(enumerate(entry))
        if not isinstance(entry, Mapping):
            raise FrontendError(
                f"dynamic_shapes for {where}: expected a dict from dims to names, as in "
                f"{{0: 'batch'}} "
                f"(or a list of {value.ndim}), found {entry!r}."
            )
        planned: dict[int, Any] = {}
        shape = list(value.shape)
        named: list[tuple[int, str, Callable[[int], int]]] = []
        for axis, dim in entry.items():
            if not isinstance(axis, int) or not -value.ndim <= axis < value.ndim:
                raise FrontendError(
                    f"dynamic_shapes for {where}: there is no dim {axis!r} in a tensor of "
                    f"{value.ndim} dims. Keys are the numbers of dims, as in {{0: 'batch'}}."
                )
            i = axis % value.ndim
            dim = self._written(dim, shape[i])
            planned[i], shape[i], name = self._dim(dim, shape[i], f"{where}, dim {i}")
            if name:
                self._fit(dim, name, int(value.shape[i]), f"{where}, dim {i}")
                named.append((i, name, self._extent(dim, name)))
        if named:
            example, value = value, torch.zeros(shape, dtype=value.dtype)
            self.kept.append(value)
            self.examples[id(value)] = example
            self.named[id(value)] = named
        self.least[id(value)] = [(axis % value.ndim, _stated(dim)) for axis, dim in entry.items()]
        return value, planned

    def _written(self, dim: Any, size: int) -> Any:
        """The dim that arithmetic on a name stands for."""
        if not isinstance(dim, str) or dim.isidentifier():
            return dim
        name, factor, more = _linear(dim)
        made = factor * self._add(name, least=-((more - size) // factor))
        return made + more if more > 0 else made - -more if more else made

    def _fit(self, dim: Any, name: str, size: int, where: str) -> None:
        """Raise FrontendError for an example's size that is none of the dim's, whatever the name
        stands for, or another than where it was seen first."""
        more = int(dim.fn(0)) if isinstance(dim, _Derived) else 0
        factor = int(dim.fn(1)) - more if isinstance(dim, _Derived) else 1
        known, rest = divmod(size - more, factor)
        text = _text(name, factor, more)
        first, place = self.shown.setdefault(name, (known, where))
        if rest or known < 0:
            raise FrontendError(
                f"dynamic_shapes for {where}: the example's {size} is {text} for no {name} from 0 "
                "up; give an example of such a size, or another dim."
            )
        if known != first:
            raise FrontendError(
                f"dynamic_shapes for {where}: the example's {size} is no {text}, as {name} is "
                f"{first} in {place}; give examples that agree, or the dim a name of its own."
            )

    def _extent(self, dim: Any, name: str) -> Callable[[int], int]:
        allowed = int(self.dims[name].min)

        def extent(least: int) -> int:
            size = max(least, allowed)
            return int(dim.fn(size)) if isinstance(dim, _Derived) else size

        return extent

    def _dim(self, dim: Any, size: int, where: str) -> tuple[Any, int, str]:
        """(the dim for torch, the size to export at, the name or nothing)."""
        if dim is None or isinstance(dim, (int, _Hint)):
            return dim, size, ""
        if isinstance(dim, str):
            return self._add(dim, least=size), self.sizes[dim], dim
        if isinstance(dim, _Derived):
            name = dim.root.__name__
            return dim, int(dim.fn(self.sizes[name])), name
        if hasattr(dim, "__name__") and dim.__name__ in self.dims:
            return self.dims[dim.__name__], self.sizes[dim.__name__], dim.__name__
        raise FrontendError(
            f"dynamic_shapes for {where}: expected a name, a torch.export.Dim, an int or None, "
            f"found {dim!r}."
        )


def _in_order(entry: Any, known: Sequence[str], kind: type, where: str) -> list[Any]:
    """The entries of an object's parts, given by their names."""
    unknown = [key for key in entry if key not in known]
    if unknown:
        raise FrontendError(
            f"dynamic_shapes for {where}: expected entries for {list(known)} of a {kind.__name__}, "
            f"or one of dims, as in {{0: 'batch'}}, for all that it holds; found {unknown[0]!r}."
        )
    return [entry.get(key) for key in known]


def _are_dims(entry: Any, value: Any) -> bool:
    """Whether an entry is one of dims, and not one by the keys of what it is for."""
    is_keyed = isinstance(value, Mapping) and any(key in value for key in entry or ())
    return (
        isinstance(entry, Mapping) and all(isinstance(key, int) for key in entry) and not is_keyed
    )


def _for_each(value: Any, entry: Any) -> Any:
    """An entry of dims for every tensor that something holds, in the form that torch takes."""
    if isinstance(value, torch.Tensor):
        return entry if value.ndim else None  # what counts has no dims
    if isinstance(value, Mapping):
        return {key: _for_each(part, entry) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return _of_kind(value, [_for_each(part, entry) for part in value])
    node = pytree.SUPPORTED_NODES.get(type(value))
    return None if node is None else [_for_each(x, entry) for x in node.flatten_fn(value)[0]]


def _of_kind(like: Any, parts: list[Any]) -> Any:
    """A list, a tuple or a NamedTuple of these parts."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def _text(name: str, factor: int, more: int) -> str:
    product = name if factor == 1 else f"{factor}*{name}"
    return product if not more else f"{product} {'-' if more < 0 else '+'} {abs(more)}"


def _no_name(text: str) -> FrontendError:
    return FrontendError(
        f"dynamic_shapes: {text!r} is no name; use letters, digits and _, or whole multiples of "
        "one name and a number, as in '2*h' or 'h + 1'. Where a dim is half of another, it has the "
        "name, and the other is twice it."
    )


def _linear(text: str) -> tuple[str, int, int]:
    """(name, factor, number) of ``2*h + 1``. Raises FrontendError for anything else, and where the
    factor is not 1 or more."""
    try:
        known = _terms(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError):
        raise _no_name(text) from None
    more = known.pop("", 0)
    names = [(name, factor) for name, factor in known.items() if factor]
    if len(names) != 1 or names[0][1] < 1 or keyword.iskeyword(names[0][0]):
        raise _no_name(text)
    return (*names[0], more)


def _terms(node: ast.expr) -> dict[str, int]:
    """The factor of each name, and the number as that of "". Raises ValueError for what is not
    linear."""
    match node:
        case ast.Name(id=name):
            return {name: 1}
        case ast.Constant(value=int(number)) if not isinstance(number, bool):
            return {"": number}
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return {name: -factor for name, factor in _terms(operand).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            sign = 1 if isinstance(node.op, ast.Add) else -1
            total = dict(_terms(left))
            for name, factor in _terms(right).items():
                total[name] = total.get(name, 0) + sign * factor
            return total
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            a, b = _terms(left), _terms(right)
            scale, scaled = (a, b) if set(a) == {""} else (b, a)
            if set(scale) != {""}:
                raise ValueError("a product of two names")
            return {name: factor * scale[""] for name, factor in scaled.items()}
    raise ValueError("no arithmetic on a name")


def _stated(dim: Any) -> int:
    """The least size that a Dim or a hint of the user's states; 0 for names and numbers."""
    return int(getattr(dim, "min", None) or 0)


def _candidates(low: int, high: int) -> Iterator[int]:
    """Primes from 5 on, then every size, between the bounds."""
    primes = (n for n in range(max(low, 5), high + 1) if all(n % d for d in range(2, isqrt(n) + 1)))
    yield from islice(primes, _MOST_CANDIDATES)
    yield from range(low, min(high, low + _MOST_CANDIDATES) + 1)
