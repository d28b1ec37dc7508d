"""The model that a command is about, compiled or loaded as its options say."""

from __future__ import annotations

import argparse
from pathlib import Path

from ..support.errors import ArgumentError
from ..vm.artifact import is_artifact
from .auto_precision import AUTO
from .compile import compile
from .compiled_model import CompiledModel
from .load import load
from .loaded_model import LoadedModel

_OF_COMPILING = ("precision", "fallback", "checked", "specialize", "database")


def compile_model(options: argparse.Namespace) -> CompiledModel:
    """The model, compiled now. Raises as ``burnish.compile`` does."""
    if options.precision == AUTO:
        raise ArgumentError(
            "--precision auto compares with the model in float64, for which it takes a "
            'torch.nn.Module: burnish.compile(module, (x,), precision="auto", max_error=1e-2) in '
            "Python. Give a word, or words by layer."
        )
    return compile(
        Path(options.model),
        target="native" if options.target is None else options.target,
        threads=options.threads,
        precision="fast" if options.precision is None else options.precision,
        fallback=options.fallback,
        checked=options.checked,
        specialize=options.specialize,
        database=None if options.tunes else options.database,
    )


def load_model(options: argparse.Namespace) -> CompiledModel | LoadedModel:
    """The model, compiled now, or from a file of ``save``. Raises ArgumentError where options say
    how to compile what is compiled."""
    if not is_artifact(options.model):
        return compile_model(options)
    if given := [f"--{name}" for name in _OF_COMPILING if getattr(options, name)]:
        raise ArgumentError(
            f"{', '.join(given)}: {options.model} is a saved model, of which this was decided when "
            "it was compiled. Leave it out, or give the model that it was saved from."
        )
    return load(options.model, threads=options.threads, target=options.target)


__all__ = ["compile_model", "load_model"]
