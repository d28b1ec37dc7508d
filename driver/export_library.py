"""A model without Python: a C header and source, kernels as object files, weights as a file.

    model.h        load, describe inputs and outputs, run, free
    model.c        the same, plain C11 (``driver.c_library``)
    model.weights  the constants, each at a multiple of 64 bytes
    kernel0.o ...  the machine code
    pool.o         the threads, for a model that is asked for several
    example.c      a program that runs the model, on zeros or on files

Compile it with any C compiler: ``cc example.c model.c *.o -lm -pthread``. A loaded model is one
caller's at a time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.abi import ALIGNMENT
from ..support.call_form import SizeRange
from ..support.errors import ArtifactError, CodegenError
from ..support.target import Target
from ..support.whole_file import written_whole
from ..tensorir.codegen.thread_pool import emit_thread_pool
from ..vm.elf import elf_symbols
from ..vm.fast_entry import analyse_body
from ..vm.program import Program
from ..vm.tensor import Tensor, as_tensor
from .c_library import CLibrary

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")


@dataclass(frozen=True)
class ExportedLibrary:
    """What ``export_library`` wrote: the files with their sizes in bytes."""

    folder: Path
    files: dict[str, int]

    def __str__(self) -> str:
        lines = [f"{name:16} {size / 1e3:10.1f} kB" for name, size in self.files.items()]
        return "\n".join([str(self.folder), *lines])


def export_library(
    program: Program,
    target: Target,
    inputs: Sequence[str],
    folder: str | Path,
    name: str,
    ranges: Sequence[SizeRange] = (),
    *,
    outputs: Sequence[str] = (),
) -> ExportedLibrary:
    """Write the files for a program whose ``main`` is one native call. ``ranges`` are what its
    named sizes may be, ``outputs`` their names, ``output_0`` and so on where there are none.

    Raises ArtifactError for other programs, for a name that C has not, and where a file cannot be
    written.
    """
    if not _NAME.match(name):
        raise ArtifactError(f"name: expected a name of C in lower case; found {name!r}.")
    main = program.functions["main"]
    found = [dim for dim in main.dim_names if dim not in main.entry_dims]
    if found:
        raise ArtifactError(
            f"The model has named sizes that only a call finds ({', '.join(found)}), because they "
            "depend on values; the caller of a C library makes its outputs before. Leave what "
            "selects by values to the caller."
        )
    body = analyse_body(main)
    if body is None:
        raise ArtifactError(
            "The model is more than one native call (it calls functions of the environment, or "
            "gives inputs back), which the C library cannot make."
        )
    weights, places = _weights([as_tensor(c, "a constant") for c in program.constants])
    objects = {f"kernel{i}.o": image for i, image in enumerate(program.objects)}
    pool = _pool(target)
    if pool is not None:
        objects["pool.o"] = pool
    kernel = program.kernels[body.kernel]
    symbols = {s for image in objects.values() for s, own in elf_symbols(image, name) if own}
    library = CLibrary(
        name=name,
        target=target,
        main=main,
        body=body,
        kernel=kernel,
        inputs=tuple(inputs),
        outputs=tuple(outputs) or tuple([f"output_{i}" for i in range(len(body.outputs))]),
        ranges=tuple(ranges),
        places=tuple(places),
        weights_bytes=len(weights),
        symbols=tuple(sorted(symbols)),
        has_pool=pool is not None,
    )
    files: dict[str, bytes] = {
        f"{name}.h": library.header().encode(),
        f"{name}.c": library.source().encode(),
        f"{name}.weights": weights,
        "example.c": library.example().encode(),
        **objects,
    }
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            with written_whole(path / file) as out:
                out.write(content)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
    return ExportedLibrary(path, {file: len(content) for file, content in files.items()})


def _pool(target: Target) -> bytes | None:
    """The object of the pool of threads; None for a system that it cannot be made for."""
    try:
        return emit_thread_pool(target)
    except CodegenError:
        return None


def _weights(constants: Sequence[Tensor]) -> tuple[bytes, list[int]]:
    """The file, and where in it each constant is."""
    parts, places, at = [], [], 0
    for tensor in constants:
        data = np.ascontiguousarray(tensor.data).tobytes()
        places.append(at)
        padded = -(-len(data) // ALIGNMENT) * ALIGNMENT
        parts.append(data.ljust(padded, b"\0"))
        at += padded
    return b"".join(parts), places
