"""``compile(..., specialize=[{"batch": 1}])``: programs of given sizes beside that of all sizes.

A kernel of a named size does not know how often its loops run: it has no tiles that fit, and checks
at their ends. Where a few sizes are most of the calls, these get programs of their own, compiled of
the same import with the sizes bound. A call of one of them takes it; any other takes the general
one. All have the same weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..frontend.imported import Imported
from ..graphir.module import fork_module
from ..graphir.passes.bind_symbolic_vars import BindSymbolicVars
from ..support.errors import ArgumentError
from .given_sizes import Sizes, sets_of_sizes, verify_name
from .signature import CompiledSignature, Entry

MOST = 8
"""Sets of sizes that a model is specialised for."""


def check_sizes(specialize: Any) -> tuple[Sizes, ...]:
    """The sets of sizes that were asked for. Raises ArgumentError for anything else."""
    given = sets_of_sizes(specialize, "specialize")
    if len(given) > MOST:
        raise ArgumentError(
            f"specialize takes up to {MOST} sets of sizes, each a program; found {len(given)}."
        )
    return tuple([s for s in given if s])


def specialised(imported: Imported, sizes: Sizes) -> Imported:
    """The import with some of its named sizes bound. Its weights are the import's, in a table of
    their own. Raises ArgumentError for names that there are not."""
    for name in sizes:
        verify_name(name, "specialize", imported.dim_names)
    bound = BindSymbolicVars(sizes, "main")(fork_module(imported.module))
    note = f"specialised: this program is for {describe(sizes)} alone."
    return replace(
        imported,
        module=bound,
        dim_names=tuple([n for n in imported.dim_names if n not in sizes]),
        notes=(*imported.notes, note),
    )


def describe(sizes: Sizes) -> str:
    """``batch = 1, length = 128``"""
    return ", ".join([f"{name} = {size}" for name, size in sizes.items()])


def fits(signature: CompiledSignature, values: Sequence[Any]) -> bool:
    """Whether the inputs of a call have the sizes that a specialised program is for."""
    params = signature.executable.program.functions["main"].params
    shapes = [tuple(getattr(v, "shape", ())) for v in values]
    pairs = list(zip([p.spec.shape for p in params], shapes, strict=False))
    return len(params) == len(values) and all(
        len(texts) == len(shape)
        and all(not t.isdecimal() or int(t) == n for t, n in zip(texts, shape, strict=True))
        for texts, shape in pairs
    )


def chained(
    general: CompiledSignature, special: Sequence[CompiledSignature], kind: str, slow: Entry
) -> Entry:
    """The entry that tries the specialised programs first: each hands what is not of its sizes to
    the next."""
    entry = general.entry(kind, slow)
    for signature in reversed(special):
        entry = signature.entry(kind, entry)
    return entry
