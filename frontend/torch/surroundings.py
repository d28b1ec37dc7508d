"""What surrounds an export: torch's words are kept back, its ways to trace are mended."""

from __future__ import annotations

import contextlib
import inspect
import logging
import warnings
from collections.abc import Iterator
from typing import Any, cast

import torch
import torch.backends.opt_einsum as opt_einsum
import torch.fx.experimental._config as symbolic_config
from torch._subclasses.fake_tensor import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.export import ExportedProgram, _trace
from torch.fx import Tracer
from torch.utils._python_dispatch import _disable_current_modes

from .dynamic_shapes import ExportPlan
from .known_types import replaced_forward
from .numbers_of_data import SYMBOLIC

_LOGGERS = (
    "torch._guards", "torch._subclasses.fake_tensor", "torch.export._trace",
    "torch.fx.experimental.symbolic_shapes",
)  # fmt: skip
"""Loggers that tell of an error which is raised behind that."""


def size_oblivious() -> Any:
    patch: Any = symbolic_config.patch  # type: ignore[attr-defined]
    return patch(backed_size_oblivious=True)


@contextlib.contextmanager
def quiet_torch() -> Iterator[None]:
    """Silences what torch's exporter says about its own code, and what it logs of an error before
    it raises that, the graph of half a module that it prints then too; a model's warnings pass, and
    the logs of who asks for more than warnings."""
    with warnings.catch_warnings(), contextlib.ExitStack() as stack:
        stack.callback(vars(_trace).pop, "print", None)
        vars(_trace)["print"] = lambda *values, **options: None
        for logger in map(logging.getLogger, _LOGGERS):
            if logger.getEffectiveLevel() >= logging.WARNING:
                stack.callback(logger.setLevel, logger.level)
                logger.setLevel(logging.CRITICAL)
        warnings.filterwarnings("ignore", r".*treespec, LeafSpec", FutureWarning)
        # What a module sets is followed; recurrent layers list their weights anew.
        warnings.filterwarnings("ignore", r"The tensor attributes? self\.")
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("ignore", "", category, module=r"torch\.")
        yield


@contextlib.contextmanager
def named_keywords(module: torch.nn.Module, plan: ExportPlan) -> Iterator[None]:
    """Lets ``forward(**inputs)`` have the names it is called with, where dims have names:
    torch.export then counts such inputs twice, by name and below ``inputs``."""
    signature = inspect.signature(module.forward)
    parameters = list(signature.parameters.values())
    if plan.specification is None or not any(p.kind is p.VAR_KEYWORD for p in parameters):
        yield
        return
    forward = module.forward

    def named(*args: Any, **kwargs: Any) -> Any:
        return forward(*args, **kwargs)

    known = [p for p in parameters if p.kind is not p.VAR_KEYWORD]
    more = [n for n in plan.kwargs if n not in signature.parameters]
    keywords = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY) for n in more]
    named.__signature__ = signature.replace(parameters=known + keywords)  # type: ignore[attr-defined]
    specification = plan.specification
    plan.specification = {}
    for name, entry in specification.items():
        is_rest = name in signature.parameters and (
            signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        )
        plan.specification |= entry if is_rest else {name: entry}
    try:
        with replaced_forward(module, named):
            yield
    finally:
        plan.specification = specification


@contextlib.contextmanager
def paths_of_examples() -> Iterator[None]:
    """Where opt_einsum is installed, ``torch.einsum`` asks it for the order of three operands and
    more. It compares their sizes, which would make constants of named ones: it is told those of the
    example."""
    if not opt_einsum.is_available():
        yield
        return
    held, own = opt_einsum.get_opt_einsum(), vars(opt_einsum).get("get_opt_einsum")

    class Paths:
        @staticmethod
        def contract_path(equation: str, *operands: torch.Tensor, **options: Any) -> Any:
            shapes = [tuple([_example_size(s) for s in x.shape]) for x in operands]
            return held.contract_path(equation, *shapes, shapes=True, **options)

    opt_einsum.get_opt_einsum = lambda: Paths
    try:
        yield
    finally:
        del opt_einsum.get_opt_einsum
        if own is not None:
            opt_einsum.get_opt_einsum = own


def _example_size(size: Any) -> int:
    return int(size.node.hint) if isinstance(size, torch.SymInt) else int(size)


def _text(value: Any, form: str) -> str:
    held = value
    if isinstance(value, FunctionalTensor):
        held = torch._from_functional_tensor(value.elem)
    constant = getattr(held, "constant", None)
    if isinstance(constant, torch.Tensor) and not constant.ndim:
        with _disable_current_modes():
            return format(constant.item(), form)
    return str(value)


@contextlib.contextmanager
def formatted_numbers() -> Iterator[None]:
    """What is known when a model runs alone has a text in every format (``f"{x.max():.3f}"`` in
    what a module prints): its name. A constant has that of its number."""
    kinds: tuple[Any, ...] = (*SYMBOLIC, FakeTensor, FunctionalTensor)
    held = [kind.__dict__.get("__format__") for kind in kinds]
    for kind in kinds:
        kind.__format__ = _text
    try:
        yield
    finally:
        for kind, own in zip(kinds, held, strict=True):
            if own is None:
                del kind.__format__
            else:
                kind.__format__ = own


@contextlib.contextmanager
def attribute_set(owner: Any, name: str, value: Any) -> Iterator[None]:
    """A class or a module with another value of what it has, and afterwards with what it had."""
    held = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, held)


@contextlib.contextmanager
def failing_calls() -> Iterator[None]:
    """Lets a module try to call another and catch what that raises (``except TypeError``): torch's
    tracer would count what follows as inside of the other."""
    call = Tracer.call_module

    def call_module(self: Tracer, *args: Any) -> Any:
        depth = len(self.module_stack)
        try:
            return call(self, *args)
        except BaseException:
            while len(self.module_stack) > depth:
                self.module_stack.popitem()
            raise

    with attribute_set(Tracer, "call_module", call_module):
        yield


@contextlib.contextmanager
def kept_conversions() -> Iterator[None]:
    """``self.layer.to(self.dtype)`` in ``forward()`` leaves the layer as it is, where it is of that
    dtype: torch puts parameters in place of parameters anyway, and cannot while they are traced."""
    held: Any = torch.nn.Module._apply

    def apply(self: torch.nn.Module, fn: Any, recurse: bool = True) -> torch.nn.Module:
        parts = [*self.parameters(recurse), *self.buffers(recurse)]
        with torch.no_grad():
            if parts and all(isinstance(x, FakeTensor) and fn(x) is x for x in parts):
                return self
        try:
            return cast(torch.nn.Module, held(self, fn, recurse))
        except RuntimeError as error:
            if "Couldn't swap" in str(error):
                error.args = (
                    f"forward() makes other parameters of those of a {type(self).__name__}, which "
                    "cannot be compiled; convert it once, before compiling.",
                )
            raise

    with attribute_set(torch.nn.Module, "_apply", apply):
        yield


def drop_failed_calls(program: ExportedProgram) -> None:
    """Take out the operators that raised while they were traced, where the model caught that."""
    for node in reversed(program.graph.nodes):
        returns = getattr(getattr(node.target, "_schema", None), "returns", ())
        if returns and node.meta.get("val") is None and not node.users:
            program.graph.erase_node(node)
    program.graph_module.recompile()


__all__ = [
    "attribute_set",
    "drop_failed_calls",
    "failing_calls",
    "formatted_numbers",
    "kept_conversions",
    "named_keywords",
    "paths_of_examples",
    "quiet_torch",
    "size_oblivious",
]
