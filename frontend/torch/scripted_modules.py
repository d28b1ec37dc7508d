"""Modules of TorchScript: what a file of ``torch.jit.save`` holds, and parts of other modules.

A scripted module that has a class of Python's is traced as that class by torch, which hands it
itself twice. The same module without the class, with the same weights, is traced as what it is: its
script is run. A script that asks a named size for its value makes a constant of it, which torch
refuses. torch exports no script by itself, but a module that holds one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import ScriptMethod, Tensor, nn
from torch.export import ExportedProgram
from torch.jit import ScriptModule
from torch.jit._recursive import wrap_cpp_module
from torch.jit._script import RecursiveScriptModule

from ...support.errors import FrontendError


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
    if not module._c._has_method("forward"):
        names = ", ".join(module._c._method_names()) or "none"
        raise FrontendError(
            f"the script {module.original_name} has no forward(), which is what is compiled; its "
            f"methods are: {names}. Call one in the forward() of an nn.Module that holds the "
            "script, and compile that."
        )
    holder: Any = type(module.original_name, (_Holder,), {})
    made: nn.Module = holder(module)
    return made


@contextmanager
def scripts_alone(module: nn.Module) -> Iterator[None]:
    """In a module its scripted parts are the scripts without their classes. Parameters out of a
    file are tensors without a class of theirs, which torch.export asks for: they have it
    meanwhile."""
    places = [
        (owner._modules, name, part)
        for owner in module.modules()
        if not isinstance(owner, ScriptModule)
        for name, part in owner._modules.items()
        if isinstance(part, RecursiveScriptModule)
    ]
    plain: list[Tensor] = [
        parameter for parameter in module.parameters() if type(parameter) is Tensor
    ]
    try:
        for parameter in plain:
            parameter.__class__ = nn.Parameter
        for parts, name, part in places:
            parts[name] = _without_class(part)
        yield
    finally:
        for parts, name, part in places:
            parts[name] = part
        for parameter in plain:
            parameter.__class__ = Tensor


def give_class(program: ExportedProgram) -> None:
    """A program's parameters are of that class, also those out of a file, as torch asks for it
    wherever it works on the program: others on the same memory."""
    made: dict[int, nn.Parameter] = {}
    for name in program.graph_signature.parameters:
        tensor = program.state_dict.get(name)
        if type(tensor) is Tensor:
            known = made.setdefault(id(tensor), nn.Parameter(tensor, tensor.requires_grad))
            program.state_dict[name] = known


def _without_class(script: RecursiveScriptModule) -> nn.Module:
    """The same script, with the attributes that Python has given it."""
    made: RecursiveScriptModule = wrap_cpp_module(script._c)
    own = {k: v for k, v in vars(script).items() if not isinstance(v, ScriptMethod)}
    vars(made).update({k: v for k, v in own.items() if k not in vars(made)})
    vars(made)["forward"] = _writing_buffers(made)
    return made


def _writing_buffers(script: Any) -> Callable[..., Any]:
    """The ``forward()`` of a script, that writes the buffers which the script sets to other tensors
    (``self.seen = self.seen + 1``): torch sees no attributes that scripts set."""
    run = script.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        held = [
            (f"{name}.{key}" if name else key, part, key, buffer)
            for name, part in script.named_modules()
            for key, buffer in part.named_buffers(recurse=False)
        ]
        found = run(*args, **kwargs)
        for name, part, key, buffer in held:
            now = part._c.getattr(key)
            if now is buffer:
                continue
            if now.shape != buffer.shape or now.dtype != buffer.dtype:
                raise FrontendError(
                    f"the script {script.original_name} sets its buffer {name} from "
                    f"{buffer.dtype}{list(buffer.shape)} to {now.dtype}{list(now.shape)}, which "
                    "cannot be compiled: a model keeps its buffers' types and shapes."
                )
            buffer.copy_(now)
            part._c.setattr(key, buffer)
        return found

    return forward


@contextmanager
def own_slots(module: nn.Module) -> Iterator[list[str]]:
    """Afterwards what the scripts in a module hold is what they held: Python's attributes are
    copies of it. Gives a list, which then has the names of what was another meanwhile."""
    held = [
        (name, part, _slots(part))
        for name, part in module_of(module).named_modules()
        if isinstance(part, ScriptModule)
    ]
    written: list[str] = []
    try:
        yield written
    finally:
        for name, part, slots in held:
            now = _slots(part)
            for key, value in slots.items():
                if not _is_same(now[key], value):
                    part._c.setattr(key, value)
                    written.append(f"{name}.{key}" if name else key)


def _slots(script: Any) -> dict[str, Any]:
    """The attributes of a script, weights among them, but no modules."""
    kind: Any = torch._C.ConcreteModuleType.from_jit_type(script._c._type())
    return {name: script._c.getattr(name) for name in kind.get_attributes()}


def _is_same(a: Any, b: Any) -> bool:
    """Whether two values out of a script are the same tensors, and equal numbers and texts."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, Tensor):
        return False
    if isinstance(a, dict):
        return _is_same([*a, *a.values()], [*b, *b.values()])
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(_is_same, a, b))
    return bool(a == b)


def changes_in_training(module: nn.Module) -> bool:
    """Whether a module of torch's gives something else in training mode: a dropout, or a norm that
    keeps statistics. Of a script the name tells what it was, since files hold no classes."""
    kind, is_script = type(module), isinstance(module, ScriptModule)
    if isinstance(module, ScriptModule):
        named = getattr(nn, module.original_name, None)
        kind = named or getattr(module._concrete_type, "py_class", None) or kind
    if issubclass(kind, nn.modules.dropout._DropoutNd):
        return _probability(module) > 0
    if not issubclass(kind, nn.modules.batchnorm._NormBase):
        return False
    if is_script:  # traced, it does not tell whether it tracks them
        return getattr(module, "running_mean", None) is not None
    return bool(module.track_running_stats)


def _probability(dropout: Any) -> float:
    """That of a dropout; where it is traced, the number that stands in its graph."""
    if hasattr(dropout, "p"):
        return float(dropout.p)
    constants = [n.output().toIValue() for n in dropout.graph.findAllNodes("prim::Constant")]
    return max([x for x in constants if isinstance(x, float)], default=1.0)


def kind_of(module: nn.Module) -> str:
    """The name of a module's class, of a script that of the class that it was."""
    return str(module.original_name if isinstance(module, ScriptModule) else type(module).__name__)


def module_of(module: nn.Module) -> nn.Module:
    """The script that a module holds whose ``forward()`` it has; any other module itself."""
    script: nn.Module = module.script if isinstance(module, _Holder) else module
    return script


__all__ = [
    "changes_in_training", "give_class", "kind_of", "module_of", "own_slots", "scripts_alone",
    "without_script",
]  # fmt: skip
