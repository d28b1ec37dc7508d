"""Tensors that a program writes and that are no buffers of its module: ``self.last += 1`` of a
plain attribute, one in a list, one that a file of Python has by a name.

torch.export counts them among the constants, and refuses their writes later on. To a program they
are buffers. None may share its memory with another that the program uses, since each is an input of
its own.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec
from torch.fx import Node

from ...support.errors import FrontendError
from .assignments import names_of_tensors
from .functionalize import is_write

_HELD = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


def keep_written(program: ExportedProgram, module: nn.Module) -> tuple[Tensor, ...]:
    """Count the constants that a program writes among its buffers, and give all tensors of the
    module that it writes. Raises FrontendError for a
    tensor that is written, and shares memory with another that the program uses."""
    signature = program.graph_signature
    nodes = {n.name: n for n in program.graph.find_nodes(op="placeholder") if n.users}
    held = {s.arg.name: s for s in signature.input_specs if s.kind in _HELD and s.arg.name in nodes}
    writes = [n for n in program.graph.nodes if is_write(n)]
    memories = {m for n in writes for m in _memory(n.args[0])}
    changed = [name for name in held if memories & set(_memory(nodes[name]))]
    tensors = {name: _stored(program, spec) for name, spec in held.items()}
    for name in changed:
        for other, tensor in tensors.items():
            if other != name and _overlap(tensors[name], tensor):
                known = names_of_tensors(module)
                first, second = (
                    known.get(id(tensors[n])) or str(held[n].target) for n in (name, other)
                )
                raise FrontendError(
                    f"forward() writes {first} in place, and reads {second}, which shares memory "
                    "with it: a compiled model keeps the two apart. Take the view of "
                    f"{first} in forward(), or make {second} a copy (.clone())."
                )
    for i, spec in enumerate(signature.input_specs):
        if spec.kind is InputKind.CONSTANT_TENSOR and spec.arg.name in changed:
            signature.input_specs[i] = replace(spec, kind=InputKind.BUFFER, persistent=False)
    found = [tensors[name] for name in changed]
    return tuple([x for x in found if isinstance(x, Tensor)])


def _stored(program: ExportedProgram, spec: InputSpec) -> Tensor | None:
    """The tensor that a program holds for an input."""
    found = program.state_dict.get(spec.target or "")
    return program.constants.get(spec.target or "") if found is None else found


def _memory(node: object) -> list[int]:
    fake = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(fake, Tensor) or fake.layout is not torch.strided:
        return []
    if not torch._C._has_storage(fake):  # one of many, as vmap runs them
        return []
    return [int(fake.untyped_storage()._cdata)]


def _overlap(a: Tensor | None, b: Tensor | None) -> bool:
    """Whether two tensors have bytes in common."""
    if not isinstance(a, Tensor) or not isinstance(b, Tensor) or not a.numel() or not b.numel():
        return False
    (first, end), (other, last) = _bytes(a), _bytes(b)
    return first < last and other < end


def _bytes(x: Tensor) -> tuple[int, int]:
    if x.layout is not torch.strided:
        return 0, 0
    far = sum((size - 1) * step for size, step in zip(x.shape, x.stride(), strict=True))
    return x.data_ptr(), x.data_ptr() + (far + 1) * x.element_size()


__all__ = ["keep_written"]
