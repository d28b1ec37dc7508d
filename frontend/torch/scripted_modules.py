"""Modules of TorchScript inside of one that is exported.

A scripted module that has a class of Python's is traced as that class by torch, which hands it
itself twice. The same module without the class, with the same weights, is traced as what it is: its
script is run. A script that asks a named size for its value makes a constant of it, which torch
refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch.jit._recursive import wrap_cpp_module


@contextmanager
def scripts_alone(module: torch.nn.Module) -> Iterator[None]:
    """In a module its scripted parts are the scripts without their classes."""
    places = [
        (owner._modules, name, part)
        for owner in module.modules()
        if not isinstance(owner, torch.jit.ScriptModule)
        for name, part in owner._modules.items()
        if isinstance(part, torch.jit.RecursiveScriptModule)
    ]
    try:
        for parts, name, part in places:
            parts[name] = wrap_cpp_module(part._c)
        yield
    finally:
        for parts, name, part in places:
            parts[name] = part


__all__ = ["scripts_alone"]
