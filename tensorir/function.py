"""PrimFunc: one primitive tensor function, in destination-passing style.

Parameters are buffers (inputs first, then outputs: a buffer is an output if the body writes it) and
scalar variables. Symbolic dimensions are int64 Vars that appear in the parameters' shapes; callers
pass their values as ``dims`` (``support.abi``) in the order of ``shape_vars``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from ..support.display import as_html, show_text
from ..support.node import Node, children, node, replace, walk
from ..support.other_names import OtherName
from ..support.remembered import remembered
from .buffer import Buffer
from .expr import Expr, IntImm, Var
from .stmt import Block, BlockRealize, Stmt
from .text.printer import HEADER, print_func
from .visitor import stored_buffer

Param: TypeAlias = Buffer | Var


@node
class PrimFunc(Node):
    """``attrs`` is a tuple of (key, value) pairs. Those the compiler knows:

    ``global_symbol`` (str), ``tir.noalias`` (bool), ``is_scheduled`` (bool: nothing reschedules
    it), ``inplace`` (bool: outputs may overlap inputs), ``layout_free`` (list of parameter indices
    whose layout a schedule may change), ``op_pattern`` (str, see graphir's annotate_pattern),
    ``legalized`` (str: the operators it was made of).
    """

    params: tuple[Param, ...]
    body: Stmt
    attrs: tuple[tuple[str, Any], ...] = ()
    name: str = "main"
    buffer_map = OtherName("params, which are buffers; views of them are of T.match_buffer")
    ret_type = OtherName("nothing: results are parameters")

    def attr(self, key: str, default: Any = None) -> Any:
        """The value of an attribute, or ``default``."""
        for k, v in self.attrs:
            if k == key:
                return v
        return default

    def with_attr(self, key: str | Mapping[str, Any], value: Any = None) -> PrimFunc:
        """A copy with one attribute set (or replaced), or with all of a dict; ``global_symbol``
        also renames it."""
        if isinstance(key, Mapping):
            result = self
            for name, each in key.items():
                result = result.with_attr(name, each)
            return result
        kept = [(k, v) for k, v in self.attrs if k != key]
        index = next((i for i, (k, _) in enumerate(self.attrs) if k == key), len(kept))
        kept.insert(index, (key, value))
        name = value if key == "global_symbol" else self.name
        return replace(self, attrs=tuple(kept), name=name)

    def without_attr(self, key: str) -> PrimFunc:
        """A copy without an attribute."""
        return replace(self, attrs=tuple([(k, v) for k, v in self.attrs if k != key]))

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The buffer parameters."""
        return tuple([p for p in self.params if isinstance(p, Buffer)])

    @property
    def shape_vars(self) -> tuple[Var, ...]:
        """The symbolic dimensions, in order of first appearance in the parameters' shapes."""
        scalars = {id(p) for p in self.params if isinstance(p, Var)}
        seen: dict[int, Var] = {}
        for p in self.buffers:
            exprs: tuple[Expr, ...] = (*p.shape, *p.strides, p.elem_offset)
            for e in exprs:
                if isinstance(e, IntImm):
                    continue
                for n in walk(e):
                    if isinstance(n, Var) and id(n) not in scalars:
                        seen.setdefault(id(n), n)
        return tuple(seen.values())

    @property
    def written(self) -> tuple[Buffer, ...]:
        """The buffer parameters that the body writes: the outputs."""
        return _written(self)

    @property
    def root(self) -> Block:
        """The root block; only before lowering."""
        assert isinstance(self.body, BlockRealize)
        return self.body.block

    def script(self) -> str:
        """The function as text that ``burnish.parse`` reads back."""
        return HEADER + print_func(self)

    def show(self) -> None:
        """Print the function, in colours where that is possible."""
        show_text(self.script())

    def _repr_html_(self) -> str:
        """What a notebook shows of a function that ends a cell."""
        return as_html(self.script())

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"PrimFunc({self.name})"


@remembered
def _written(func: PrimFunc) -> tuple[Buffer, ...]:
    """What ``written`` gives."""
    stored = {id(b) for b in _stored(func.body)}
    return tuple([b for b in func.buffers if id(b) in stored])


@remembered
def _stored(s: Stmt) -> tuple[Buffer, ...]:
    """The buffers that a statement writes. A primitive makes few new statements of a function:
    only those are looked at."""
    found: dict[int, Buffer] = {}
    for child in children(s):
        if isinstance(child, Stmt):
            found.update((id(b), b) for b in _stored(child))
        else:
            nodes = walk(child, (Buffer,))
            found.update((id(b), b) for n in nodes if (b := stored_buffer(n)) is not None)
    own = stored_buffer(s)
    return (*found.values(), *(() if own is None else (own,)))
