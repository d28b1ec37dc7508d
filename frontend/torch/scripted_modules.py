"""Modules of TorchScript: what a file of ``torch.jit.save`` holds, and parts of other modules.

A scripted module that has a class of Python's is traced as that class by torch, which hands it
itself twice. The same module without the class, with the same weights, is traced as what it is: its
script is run. A script that asks a named size for its value makes a constant of it, which torch
refuses. torch exports no script by itself, but a module that holds one.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.jit import ScriptModule
from torch.jit._recursive import wrap_cpp_module
from torch.jit._script import RecursiveScriptModule


class _Holder(nn.Module):
    """A module whose ``forward()`` is that of a script."""

    def __init__(self, script: Any) -> None:
        super().__init__()
        self.script = script
        self.training = getattr(script, "training", False)  # frozen, it has none

        def forward(*args: Any, **kwargs: Any) -> Any:
            return self.script(*args, **kwargs)

        forward.__signature__ = _signature(script)  # type: ignore[attr-defined]
        self.forward = forward


def _signature(script: Any) -> inspect.Signature:
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(
                argument.name,
                kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else kinds.empty,
            )
            for argument in script.forward.schema.arguments[1:]
        ]
    )


def without_script(module: nn.Module) -> nn.Module:
    """The module; where it is a script, one of the script's name that holds it."""
    if not isinstance(module, ScriptModule):
        return module
    holder: Any = type(module.original_name, (_Holder,), {})
    made: nn.Module = holder(module)
    return made


@contextmanager
def scripts_alone(module: nn.Module) -> Iterator[None]:
    """In a module its scripted parts are the scripts without their classes. Parameters out of a
    file are tensors without a class of theirs, which torch.export asks for: they are given it."""
    places = [
        (owner._modules, name, part)
        for owner in module.modules()
        if not isinstance(owner, ScriptModule)
        for name, part in owner._modules.items()
        if isinstance(part, RecursiveScriptModule)
    ]
    for parameter in module.parameters():
        if type(parameter) is Tensor:
            parameter.__class__ = nn.Parameter
    try:
        for parts, name, part in places:
            parts[name] = wrap_cpp_module(part._c)
        yield
    finally:
        for parts, name, part in places:
            parts[name] = part


__all__ = ["scripts_alone", "without_script"]
