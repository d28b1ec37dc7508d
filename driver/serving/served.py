"""The models that are served: loaded from their files, checked for serving, exchanged whole."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...support.errors import ArgumentError, RequestError
from ...vm.program import ResultSpec, TensorSpec
from ...vm.tensor import Tensor
from ..load import load
from ..loaded_model import LoadedModel, LoadedSignature
from .batching import Arrays, Batcher
from .protocol import DATATYPES, TensorForm
from .rows import row_dependence


@dataclass(frozen=True)
class BatchOptions:
    """``dim``: the named dim that requests are joined along; ``wait`` in seconds."""

    dim: str = "batch"
    max_rows: int = 32
    wait: float = 0.002

    def __post_init__(self) -> None:
        if self.max_rows < 1 or self.wait < 0:
            raise ArgumentError(
                f"expected max_rows of at least 1 and wait of at least 0; found {self.max_rows} "
                f"and {self.wait}."
            )


@dataclass(frozen=True)
class Servable:
    """A model that was checked for serving. ``unbatched`` says why its requests are not joined;
    None where they are."""

    name: str
    signature: LoadedSignature
    inputs: tuple[TensorForm, ...]
    outputs: tuple[TensorForm, ...]
    unbatched: str | None

    def run(self, arrays: Arrays) -> Arrays:
        """A call. Raises what the model raises."""
        return _run(self.signature, self.inputs, arrays)


def load_servable(
    name: str, path: Path, options: BatchOptions, *, threads: int | None = None
) -> Servable:
    """Load a model and see whether its requests can be joined, which runs it a few times.

    Raises as ``burnish.load`` does, and ArgumentError for a model that requests cannot share: one
    with state or inputs that calls change, with several signatures, or with a dtype that the
    protocol has no name for.
    """
    signature = _checked(name, load(path, threads=threads))
    inputs, outputs = _forms(signature)
    for form in (*inputs, *outputs):
        if form.dtype not in DATATYPES:
            raise ArgumentError(
                f"{name}: {form.name} is of dtype {form.dtype}; served are {', '.join(DATATYPES)}."
            )
    if options.max_rows == 1:
        unbatched: str | None = "one row at most was asked for"
    elif not _joins((*inputs, *outputs), options.dim):
        unbatched = f"the dim {options.dim!r} is not the first of each input and output, or another"
    else:
        unbatched = row_dependence(lambda arrays: _run(signature, inputs, arrays), inputs, outputs)
    return Servable(name, signature, inputs, outputs, unbatched)


class ServedModel:
    """A model with its batcher. Made within the event loop."""

    def __init__(
        self,
        servable: Servable,
        options: BatchOptions,
        seen: Callable[[int], None] = lambda rows: None,
    ) -> None:
        self.name, self.inputs, self.outputs = servable.name, servable.inputs, servable.outputs
        self.unbatched = servable.unbatched
        rows = 1 if self.unbatched else options.max_rows
        self._batcher = Batcher(servable.run, max_rows=rows, wait=options.wait, seen=seen)

    @property
    def is_batched(self) -> bool:
        """Whether requests are joined; else ``unbatched`` says why not."""
        return self.unbatched is None

    async def infer(self, arrays: Arrays) -> dict[str, np.ndarray]:
        """Outputs by name. Raises RequestError and what the model raises."""
        if self.is_batched and len({a.shape[0] for a in arrays}) > 1:
            raise RequestError(
                f"the inputs have different numbers of rows: {[a.shape[0] for a in arrays]}."
            )
        results = await self._batcher.submit(arrays)
        return {form.name: r for form, r in zip(self.outputs, results, strict=True)}

    async def close(self) -> None:
        """Answer what waits, then end."""
        await self._batcher.close()


class Repository:
    """Models by name. A reload loads the new file first; requests that have begun end on the old
    model, later ones run on the new one, and a file that cannot be loaded changes nothing."""

    def __init__(
        self,
        paths: Mapping[str, Path],
        *,
        threads: int | None = None,
        options: BatchOptions | None = None,
        seen: Callable[[str, int], None] = lambda name, rows: None,
    ) -> None:
        self._paths, self._threads, self._seen = dict(paths), threads, seen
        self._options = options or BatchOptions()
        self._models: dict[str, ServedModel] = {}
        self._prepared: dict[str, Servable] = {}
        self._lock = asyncio.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._paths)

    def __getitem__(self, name: str) -> ServedModel:
        """Raises RequestError (404) for a model that is not served."""
        found = self._models.get(name)
        if found is None:
            raise RequestError(
                f"no model {name[:80]!r} is served here; there are {', '.join(self._models)}.",
                status=404,
            )
        return found

    def prepare(self) -> None:
        """Load every model now, which ``load_all`` then takes: what is wrong with one is raised
        here, as ``load_servable`` does, before there is a server."""
        self._prepared = {name: self._loaded(name) for name in self._paths}

    def _loaded(self, name: str) -> Servable:
        return load_servable(name, self._paths[name], self._options, threads=self._threads)

    async def load(self, name: str) -> None:
        """Load or reload a model from the file that the server was started with. Raises as
        ``load_servable`` does, and RequestError (404)."""
        if name not in self._paths:
            self[name]
        async with self._lock:
            servable = self._prepared.pop(name, None)
            if servable is None:
                servable = await asyncio.to_thread(self._loaded, name)
            if servable.unbatched and self._options.max_rows > 1:
                print(
                    f"burnish: requests of {name} run one by one: {servable.unbatched}.",
                    file=sys.stderr,
                    flush=True,
                )
            old = self._models.get(name)
            self._models[name] = ServedModel(
                servable, self._options, lambda rows: self._seen(name, rows)
            )
            if old is not None:
                await old.close()

    async def load_all(self) -> None:
        """Load or reload every model. Raises for the first that cannot be."""
        for name in self._paths:
            await self.load(name)

    async def close(self) -> None:
        """Answer what waits, then end."""
        for model in self._models.values():
            await model.close()


def _run(signature: LoadedSignature, inputs: tuple[TensorForm, ...], arrays: Arrays) -> Arrays:
    values = [
        Tensor(x, form.dtype) if form.dtype == "bfloat16" else x
        for form, x in zip(inputs, arrays, strict=True)
    ]
    return tuple([t.data for t in signature.run(values)])


def _checked(name: str, model: LoadedModel) -> LoadedSignature:
    if len(model.signatures) != 1:
        raise ArgumentError(
            f"{name} has {len(model.signatures)} signatures; served are models with one. Name the "
            "dims that vary with dynamic_shapes, and save it again."
        )
    signature = model.signatures[0]
    if signature.imported.state or signature.imported.written:
        raise ArgumentError(
            f"{name} has state or inputs that calls change, which requests would share."
        )
    return signature


def _forms(signature: LoadedSignature) -> tuple[tuple[TensorForm, ...], tuple[TensorForm, ...]]:
    function = signature.executable.program.functions["main"]
    inputs = [
        TensorForm(name, param.spec.dtype, tuple(map(str, param.spec.shape)))
        for name, param in zip(signature.imported.input_names, function.params, strict=True)
    ]
    names = signature.imported.form().output_names
    outputs = [
        TensorForm(name, spec.dtype, tuple(map(str, spec.shape)))
        for name, spec in zip(names, _flat(function.result), strict=True)
    ]
    return tuple(inputs), tuple(outputs)


def _flat(result: ResultSpec) -> list[TensorSpec]:
    if isinstance(result, TensorSpec):
        return [result]
    return [spec for part in result for spec in _flat(part)]


def _joins(forms: tuple[TensorForm, ...], dim: str) -> bool:
    """Whether the named dim is the first of every tensor, and of none another."""
    return all(f.shape[:1] == (dim,) and not any(dim in t for t in f.shape[1:]) for f in forms)


__all__ = ["BatchOptions", "Repository", "Servable", "ServedModel", "load_servable"]
