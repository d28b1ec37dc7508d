"""Einsum of ONNX, two operands at a time: each step is a matrix product, or a product by elements.

The letters of two operands are of four kinds: of both and wanted afterwards (batch), of both and
not wanted (contracted), of the left alone (rows), of the right alone (columns). Letters of one
operand that nothing wants are summed first.

    bik,bkj->bij        batch b, rows i, contracted k, columns j
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass

from onnx import NodeProto

from ...graphir.dim import dim_equal, print_dim, product, static_value
from ...graphir.expr import Atom
from ...support.errors import FrontendError
from ...tensorir.expr import Expr, IntImm
from .registry import Context, Value, attribute, converts, node_name
from .term import Term


@dataclass(frozen=True)
class _Term:
    """A tensor and the letter of each of its dims."""

    value: Atom
    letters: str


@converts("Einsum")
def einsum(context: Context, node: NodeProto) -> Value:
    operands = [context.operand(node, i) for i in range(len(node.input))]
    ranks = [context.type(x).ndim for x in operands]
    inputs, output = _parse(node, str(attribute(node, "equation")), ranks)
    terms = [
        _diagonal(context, _Term(x, letters)) for x, letters in zip(operands, inputs, strict=True)
    ]
    inputs = [t.letters for t in terms]
    _check_sizes(context, node, terms)
    result = _summed(context, terms[0], output + "".join(inputs[1:]))
    for i in range(1, len(terms)):
        later = output + "".join(inputs[i + 1 :])
        right = _summed(context, terms[i], later + result.letters)
        left = _summed(context, result, later + right.letters)
        result = _product(context, left, right, later)
    result = _summed(context, result, output)
    return _arranged(context, result, output)


def _parse(node: NodeProto, equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each operand and of the result; an ellipsis gets letters of its own."""
    text = equation.replace(" ", "")
    left, arrow, right = text.partition("->")
    inputs = left.split(",")
    used = set(text)
    spare = [c for c in string.ascii_letters if c not in used]
    if len(inputs) != len(ranks):
        raise FrontendError(
            f"{node_name(node)}: {equation!r} has {len(inputs)} terms, and there are {len(ranks)} "
            "operands."
        )
    widest = 0
    for i, (letters, rank) in enumerate(zip(inputs, ranks, strict=True)):
        hidden = rank - len(letters.replace("...", ""))
        if hidden < 0 or (hidden and "..." not in letters) or hidden > len(spare):
            raise FrontendError(
                f"{node_name(node)}: {letters!r} of {equation!r} does not fit an operand of {rank} "
                "dims."
            )
        widest = max(widest, hidden)
        inputs[i] = letters.replace("...", "".join(reversed(spare[:hidden])))
    if not arrow:
        joined = left.replace(",", "").replace(".", "")
        once = sorted(c for c in set(joined) if joined.count(c) == 1)
        right = ("..." if "..." in left else "") + "".join(once)
    output = right.replace("...", "".join(reversed(spare[:widest])))
    if len(set(output)) != len(output):
        raise FrontendError(f"{node_name(node)}: {equation!r} names a dim of its result twice.")
    missing = set(output) - set("".join(inputs))
    if missing:
        raise FrontendError(
            f"{node_name(node)}: {equation!r} makes dims {sorted(missing)} of nothing."
        )
    return inputs, output


def _diagonal(context: Context, term: _Term) -> _Term:
    """The elements at equal places of axes of one letter: of n * n numbers every (n + 1)th."""
    twice = next((c for c in term.letters if term.letters.count(c) > 1), None)
    if twice is None:
        return term
    first = term.letters.index(twice)
    second = term.letters.index(twice, first + 1)
    rest = [i for i in range(len(term.letters)) if i not in (first, second)]
    turned = Term(context, term.value).permute(*rest, first, second)
    rows, columns = turned.sizes("a diagonal", len(rest))
    if rows != columns:
        raise FrontendError(f"a diagonal of dims {rows} and {columns}, which are not equal.")
    flat = turned.reshape(*turned.shape[:-2], rows * rows)
    letters = "".join([term.letters[i] for i in rest]) + twice
    return _diagonal(context, _Term(flat.cut(-1, 0, None, rows + 1).atom, letters))


def _check_sizes(context: Context, node: NodeProto, terms: Sequence[_Term]) -> None:
    sizes: dict[str, Expr] = {}
    for term in terms:
        for letter, dim in zip(term.letters, context.type(term.value).shape, strict=True):
            known = sizes.setdefault(letter, dim)
            if static_value(known) == 1:
                sizes[letter] = dim
            elif static_value(dim) != 1 and not dim_equal(known, dim):
                raise FrontendError(
                    f"{node_name(node)}: dims of {print_dim(known)} and {print_dim(dim)} stand for "
                    "the same letter."
                )


def _summed(context: Context, term: _Term, wanted: str) -> _Term:
    """Without the letters that are not in ``wanted``."""
    axes = tuple([i for i, c in enumerate(term.letters) if c not in wanted])
    if not axes:
        return term
    kept = "".join([c for c in term.letters if c in wanted])
    return _Term(context.op("sum", term.value, axis=axes, keepdims=False), kept)


def _arranged(context: Context, term: _Term, letters: str) -> Atom:
    axes = tuple([term.letters.index(c) for c in letters])
    if axes == tuple(range(len(axes))):
        return term.value
    return context.op("permute_dims", term.value, axes=axes)


def _product(context: Context, left: _Term, right: _Term, wanted: str) -> _Term:
    both = [c for c in left.letters if c in right.letters]
    batch = "".join([c for c in both if c in wanted])
    inner = "".join([c for c in both if c not in wanted])
    rows = "".join([c for c in left.letters if c not in both])
    columns = "".join([c for c in right.letters if c not in both])
    sizes = dict(zip(right.letters, context.type(right.value).shape, strict=True))
    sizes |= {
        c: d
        for c, d in zip(left.letters, context.type(left.value).shape, strict=True)
        if c not in sizes or static_value(sizes[c]) == 1
    }
    if not inner:
        return _by_elements(context, left, right, batch + rows + columns)
    k = product([sizes[c] for c in inner])
    n, m = product([sizes[c] for c in rows]), product([sizes[c] for c in columns])
    a = _block(context, left, batch, rows, inner, [n, k], sizes)
    transposed = right.letters == batch + columns + inner
    parts = (columns, inner) if transposed else (inner, columns)
    b = _block(context, right, batch, *parts, [m, k] if transposed else [k, m], sizes)
    found: Atom = context.op("matmul", a, b, transpose_b=transposed)
    shape = context.type(found).shape[: len(batch)]
    dims = [*shape, *[sizes[c] for c in rows], *[sizes[c] for c in columns]]
    if len(rows) != 1 or len(columns) != 1:
        found = context.reshape(found, dims)
    return _Term(found, batch + rows + columns)


def _block(
    context: Context,
    term: _Term,
    batch: str,
    first: str,
    second: str,
    matrix: Sequence[Expr],
    sizes: dict[str, Expr],
) -> Atom:
    """``term`` as [batch..., first, second], each of the two one dim. A dim of 1 that stands for
    more is stretched where it is summed over."""
    value = _arranged(context, term, batch + first + second)
    shape = context.type(value).shape
    wide = [*shape[: len(batch)], *[sizes[c] for c in first + second]]
    if any(not dim_equal(a, b) for a, b in zip(shape, wide, strict=True)):
        value = context.op("broadcast_to", value, context.shape(wide))
    if len(first) == 1 and len(second) == 1:
        return value
    return context.reshape(value, [*wide[: len(batch)], *matrix])


def _by_elements(context: Context, left: _Term, right: _Term, letters: str) -> _Term:
    values: list[Atom] = []
    for term in (left, right):
        value = _arranged(context, term, "".join([c for c in letters if c in term.letters]))
        sizes = iter(context.type(value).shape)
        dims: list[Expr] = [next(sizes) if c in term.letters else IntImm(1) for c in letters]
        values.append(context.reshape(value, dims))
    return _Term(context.op("multiply", *values), letters)
