"""From any ExportedProgram to one whose operators are pure and have converters.

Programs of torch.export may write in place, also through views; that is removed here
(``functionalize``), or where that does not know how by torch's own functionalisation. Operators
without a converter are decomposed by torch's table, again and again while that helps, call by call
(``decompose_calls``); operators with one are kept whole. torch traces the whole program once more
only where it has to, since that takes longer than all else of an import. What remains without a
converter is reported by the importer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

import torch
from torch._decomp import global_decomposition_table
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._sympy.value_ranges import ValueRanges

from ...support.errors import FrontendError
from . import (
    decompositions_counting,
    decompositions_data,
    decompositions_gamma,
    decompositions_image,
    decompositions_losses,
    decompositions_segments,
    decompositions_special,
    frequencies,
)
from .complex_pairs import without_complex
from .decompose_calls import decompose_calls
from .decompositions import BATCH_NORMS, DECOMPOSITIONS, FIRST_RESULT, OTHER_RESULTS
from .decompositions_data import has_mask
from .decompositions_packages import BY_NAME
from .decompositions_quantized import QUANTIZED
from .export import error_text
from .exportable_functions import LOOKS
from .fallback import can_fall_back, has_complex
from .functionalize import copied, functionalized, is_write, with_graph
from .registry import REGISTRY, arguments, location, operator_name
from .surroundings import quiet_torch

_FURTHER_ROWS = (
    decompositions_image, decompositions_counting, decompositions_data, decompositions_gamma,
    decompositions_losses, decompositions_segments, decompositions_special, frequencies,
)  # fmt: skip
_MOST_TURNS = 4
"""How often an operator is decomposed: others may be made of it, and it of itself."""
_FURTHER = global_decomposition_table["post_autograd"]
"""torch's own, of which its table for export leaves out those of core operators."""
_CHECKING = frozenset(
    [f"aten.{name}.default" for name in (
        "linalg_cholesky", "linalg_inv", "inverse", "linalg_lu_factor", "linalg_ldl_factor",
        "linalg_solve",
    )]
)  # fmt: skip
"""Operators whose decomposition raises by an operator without a result. Those that torch is to run
stay whole."""
_READS = {torch.ops.aten.item.default: torch.ops.aten._local_scalar_dense.default}
"""What reads a number out of a tensor. torch does not trace the first once more where the number
lies behind as many as a named size says (``x[-1].item()``)."""
_WRAPPERS = ("wrap_with_set_grad_enabled", "wrap_with_autocast")
"""Operators that only hold a part of the graph, which torch inlines when it decomposes."""
_VMAP = "torch._functorch.predispatch"
"""The module of the calls around what ``torch.vmap`` runs: decomposing takes their place."""


def operators(program: ExportedProgram) -> list[Node]:
    """The calls of operators on tensors, in order; arithmetic on sizes is not among them."""
    return _operators(program.graph)


def all_operators(program: ExportedProgram) -> list[Node]:
    """The same, with those of the graphs that control flow holds."""
    return [*operators(program), *_held_operators(program)]


def _held_operators(program: ExportedProgram) -> list[Node]:
    graphs = [m.graph for m in program.graph_module.modules() if isinstance(m, GraphModule)]
    return [n for graph in graphs if graph is not program.graph for n in _operators(graph)]


def _operators(graph: Graph) -> list[Node]:
    numbers = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)
    return [
        n
        for n in graph.nodes
        if n.op == "call_function" and not isinstance(n.meta.get("val"), numbers)
    ]


def prepare_program(program: ExportedProgram, *, falls_back: bool = False) -> ExportedProgram:
    """The program made pure, and decomposed where it has to be; itself where nothing has to. What
    ``falls_back`` to torch may stay whole."""
    if any(map(is_write, all_operators(program))):
        program = functionalized(program) or program
    tried: Counter[Any] = Counter()
    has_pairs = False
    while True:
        if not has_pairs and not any(map(is_write, operators(program))):
            program, has_pairs = without_complex(program), True
        calls = [
            n
            for n in all_operators(program)
            if _is_missing(n)
            and tried[n.target] < _MOST_TURNS
            and not (falls_back and _stays_whole(n))
        ]
        missing = {n.target for n in calls}
        found = {
            op: DECOMPOSITIONS.get(op) or _table().get(op) or _composite(op) or _further(op)
            for op in missing
        }
        chosen = {op: function for op, function in found.items() if function is not None}
        is_pure = not any(map(_is_impure, all_operators(program)))
        if not chosen and is_pure:
            return program
        tried.update(missing)
        retrace = partial(_decomposed, functions=chosen)
        calls = [n for n in calls if n.target in chosen]
        may_stay = is_pure and all(n.graph is program.graph for n in calls)
        made = decompose_calls(program, calls, retrace) if may_stay else None
        program = retrace(program) if made is None else made
        has_pairs = False  # operators on complex numbers are made of others, too


@cache
def _table() -> Mapping[Any, Callable[..., Any]]:
    """torch's decompositions for export."""
    return dict(torch.export.default_decompositions().items())


_SELECT = torch.ops.aten.masked_select.default


def _bound_selections(program: ExportedProgram) -> None:
    """Let one element at most be selected of one: torch bounds its number by 2 as it exports, by 1
    as it traces once more, and does not take the one for the other."""
    for node in program.graph.find_nodes(op="call_function", target=_SELECT):
        operands = [x.meta["val"].shape for x in node.args if isinstance(x, Node)]
        if all(isinstance(size, int) and size == 1 for shape in operands for size in shape):
            (count,) = node.meta["val"].shape
            for symbol in free_unbacked_symbols(count):
                count.node.shape_env.var_to_range[symbol] = ValueRanges(0, 1)


def _decomposed(
    program: ExportedProgram, functions: Mapping[Any, Callable[..., Any]]
) -> ExportedProgram:
    """The program traced once more: without writes, and with functions in the place of
    operators."""
    program = _with_loops_apart(program)
    _bound_selections(program)
    try:
        with quiet_torch(), torch.no_grad():
            return program.run_decompositions({**_READS, **functions})
    except LOOKS as error:
        names = ", ".join(sorted(map(str, functions)))
        raise FrontendError(
            f"what {names} is made of (one of them) branches on a size that data tell, which "
            f"cannot be compiled: {error_text(error)}\nUse sizes that the shapes of inputs tell, "
            "or a mask in the place of the size."
        ) from error
    except Exception as error:  # torch's own, of a program that it has made
        raise FrontendError(
            f"torch cannot trace the exported program once more: {error_text(error)}\nThat is so "
            "where what forward() writes has two names, as a buffer of a module that stands in two "
            "places, or is a view of another buffer or input: keep it in one place. Elsewhere, "
            "write into a copy (x.clone()), and in branches and bodies of loops into nothing."
        ) from error


def _with_loops_apart(program: ExportedProgram) -> ExportedProgram:
    """The program with copies of what a loop begins with and also reads: torch exports such a loop,
    and takes it for one that writes when it traces the program once more."""
    loops = program.graph.find_nodes(op="call_function", target=torch.ops.higher_order.while_loop)
    if not any(_given_twice(loop) for loop in loops):
        return program
    graph, nodes = Graph(), dict[Node, Node]()
    for node in program.graph.nodes:
        again = _given_twice(node) if node in loops else []
        nodes[node] = made = copied(graph, node, nodes.__getitem__)
        for i in again:
            begun: list[Any] = list(made.args[2])  # type: ignore[arg-type]
            old = begun[i]
            with graph.inserting_before(made):
                begun[i] = graph.call_function(torch.ops.aten.clone.default, (old,))
            begun[i].meta["val"] = old.meta["val"]
            made.args = (*made.args[:2], tuple(begun), *made.args[3:])
    return with_graph(program, graph)


def _given_twice(loop: Node) -> list[int]:
    """The states of a loop that begin as a tensor which it is given elsewhere too."""
    begun: Sequence[Any]
    read: Sequence[Any]
    begun, read = loop.args[2:4]  # type: ignore[assignment]
    return [i for i, a in enumerate(begun) if isinstance(a, Node) and a in (*begun[:i], *read)]


def _is_missing(node: Node) -> bool:
    """Whether an operator has no converter for what is used of it."""
    return (
        _divides_sizes(node)
        or _wants_others(node)
        or _trains(node)
        or _has_mask(node)
        or _counts_sizes(node)
        or (operator_name(node) not in REGISTRY and not _wants_more(node))
    )


def _stays_whole(node: Node) -> bool:
    """Whether torch is to run the operator as it is: torch's decompositions are for real
    numbers."""
    return operator_name(node) in _CHECKING or (has_complex(node) and can_fall_back(node))


def _composite(op: Any) -> Callable[..., Any] | None:
    """What torch runs for an operator that is made of others. Its table leaves out those that may
    give a view (ravel, movedim); in a pure program that makes no difference."""
    is_composite = isinstance(op, torch._ops.OpOverload) and op._can_decompose()
    return op.decompose if is_composite else None


def _further(op: Any) -> Callable[..., Any] | None:
    """The decompositions of operators that torch or another package has for itself."""
    return _FURTHER.get(op) or BY_NAME.get(str(op)) or QUANTIZED.get(str(op))


def _wants_more(node: Node) -> bool:
    """Whether results are used that a decomposition does not make."""
    return node.target in FIRST_RESULT and any(user.args[1] != 0 for user in node.users)


def _wants_others(node: Node) -> bool:
    """Whether a result is used that the operator's converter does not make."""
    return node.target in OTHER_RESULTS and any(
        user.args[1] != 0 and user.users for user in node.users
    )


def _counts_sizes(node: Node) -> bool:
    """Whether numbers run to or from one that is made of named sizes, or as many as one says."""
    return node.target is torch.ops.aten.linspace.default and any(
        isinstance(argument, Node) for argument in node.args
    )


def _divides_sizes(node: Node) -> bool:
    """Whether named sizes are divided into windows, more than one; their indices stay refused."""
    if "adaptive" not in str(node.target) or "_backward" in str(node.target):
        return False
    x, sizes = node.args[:2]
    assert isinstance(x, Node)
    assert isinstance(sizes, (list, tuple))
    named = [isinstance(s, torch.SymInt) for s in x.meta["val"].shape[-len(sizes) :]]
    is_divided = any(n and size != 1 for n, size in zip(named, sizes, strict=True))
    is_divided = is_divided or any(isinstance(size, Node) for size in sizes)
    if is_divided and _wants_others(node):
        raise FrontendError(
            f"{operator_name(node)} at {location(node)}: the indices of maxima of an image of "
            "named sizes cannot be compiled; leave return_indices out, or make the dims static."
        )
    return is_divided


def _has_mask(node: Node) -> bool:
    """Whether elements are taken where a mask is true: as many as that says."""
    if node.target is not torch.ops.aten.index.Tensor:
        return False
    indices = node.args[1]
    assert isinstance(indices, (list, tuple))
    return has_mask([i.meta["val"] if isinstance(i, Node) else None for i in indices])


def _trains(node: Node) -> bool:
    """Whether a batch norm takes the batch's statistics and updates running ones by them."""
    if node.target not in BATCH_NORMS:
        return False
    given = arguments(node)
    updates = given.get("training") or given.get("use_input_stats")
    return bool(updates) and given.get("running_mean") is not None


def _is_impure(node: Node) -> bool:
    is_part = getattr(node.target, "__module__", "") == _VMAP or str(node.target) in _WRAPPERS
    return is_part or is_write(node)
