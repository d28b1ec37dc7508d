"""A model without Python: a C header and source, kernels as object files, weights as a file.

    model.h        load, describe inputs and outputs, run, free
    model.c        the same, plain C11: it reads the weights, checks the CPU, and calls the kernels
    model.weights  the constants, each at a multiple of 64 bytes
    kernel0.o ...  the machine code
    example.c      a program that runs the model on zeros

Compile it with any C compiler: ``cc example.c model.c kernel*.o -lm``. Calls run on one thread; a
loaded model is one caller's at a time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..support.abi import ABI_VERSION, ALIGNMENT
from ..support.dtype import DType
from ..support.errors import ArtifactError
from ..support.target import Target
from ..support.whole_file import written_whole
from ..vm.fast_entry import CallBody, analyse_body
from ..vm.program import Kernel, Program, TensorSpec
from ..vm.shape_text import compile_shapes
from ..vm.tensor import Tensor, as_tensor

_NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
_FEATURES = (
    *("sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "avx512f", "avx512bw", "avx512dq"),
    *("avx512cd", "avx512vl", "avx512vnni", "avx512bf16", "avx512vbmi", "avx512vbmi2"),
    *("avx512ifma", "avx512bitalg", "avx512vpopcntdq", "avxvnni"),
)
"""What C compilers can ask a CPU for."""


@dataclass(frozen=True)
class ExportedLibrary:
    """What ``export_library`` wrote: the files with their sizes in bytes."""

    folder: Path
    files: dict[str, int]

    def __str__(self) -> str:
        lines = [f"{name:16} {size / 1e3:10.1f} kB" for name, size in self.files.items()]
        return "\n".join([str(self.folder), *lines])


def export_library(
    program: Program, target: Target, inputs: Sequence[str], folder: str | Path, name: str
) -> ExportedLibrary:
    """Write the files for a program whose ``main`` has fixed sizes and is one native call.

    Raises ArtifactError for other programs, for a name that C has not, and where a file cannot be
    written.
    """
    if not _NAME.match(name):
        raise ArtifactError(f"name: expected a name of C in lower case; found {name!r}.")
    main = program.functions["main"]
    if main.dim_names:
        raise ArtifactError(
            f"The model has named sizes ({', '.join(main.dim_names)}), and the C library fixed "
            "ones: compile it for the sizes that it shall have."
        )
    body = analyse_body(main)
    if body is None:
        raise ArtifactError(
            "The model is more than one native call (it calls functions of the environment, or "
            "gives inputs back), which the C library cannot make."
        )
    constants = [as_tensor(c, "a constant") for c in program.constants]
    weights, places = _weights(constants)
    source = _source(program, target, body, inputs, places, len(weights), name)
    files: dict[str, bytes] = {
        f"{name}.h": _header(name).encode(),
        f"{name}.c": source.encode(),
        f"{name}.weights": weights,
        "example.c": _example(name).encode(),
    }
    files |= {f"kernel{i}.o": image for i, image in enumerate(program.objects)}
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            with written_whole(path / file) as out:
                out.write(content)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
    return ExportedLibrary(path, {file: len(content) for file, content in files.items()})


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


def _header(name: str) -> str:
    return f"""/* Made by burnish. Link with {name}.c and the kernels' objects. */
#ifndef {name.upper()}_H
#define {name.upper()}_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* One input or output: row-major, of this dtype (bfloat16 as 16 bits, bool as a byte). */
typedef struct {{
    const char *name;
    const char *dtype;
    int rank;
    const int64_t *shape;
    size_t bytes;
}} {name}_tensor;

typedef struct {name}_model {name}_model;

/* A model with its weights; NULL, and a sentence in *problem (where that is not NULL), where the
   file is another, there is no memory, or this CPU lacks an instruction. */
{name}_model *{name}_load(const char *weights, const char **problem);
int {name}_num_inputs(void);
int {name}_num_outputs(void);
const {name}_tensor *{name}_input(int i);
const {name}_tensor *{name}_output(int i);
/* Runs the model on inputs and into outputs, all aligned to their dtype. One call of a model at a
   time. */
void {name}_run({name}_model *model, const void *const *inputs, void *const *outputs);
void {name}_free({name}_model *model);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _tensors(which: str, names: Sequence[str], specs: Sequence[TensorSpec], name: str) -> str:
    lines, rows = [], []
    for i, (called, spec) in enumerate(zip(names, specs, strict=True)):
        shape = compile_shapes(spec.shape, ())(())
        sizes = ", ".join(map(str, shape)) or "1"
        lines.append(f"static const int64_t {which}_shape{i}[] = {{{sizes}}};")
        size = math.prod(shape) * DType(spec.dtype).itemsize
        quoted = called.replace("\\", "\\\\").replace('"', '\\"')
        rows.append(f'    {{"{quoted}", "{spec.dtype}", {len(shape)}, {which}_shape{i}, {size}}},')
    rows = rows or ["    {0},"]
    table = [f"static const {name}_tensor {which}s[] = {{", *rows, "};"]
    return "\n".join([*lines, *table])


def _source(
    program: Program,
    target: Target,
    body: CallBody,
    inputs: Sequence[str],
    places: Sequence[int],
    size: int,
    name: str,
) -> str:
    kernel = program.kernels[body.kernel]
    main = program.functions["main"]
    outputs = [f"output_{i}" for i in range(len(body.outputs))]
    arguments = {"param": "(void *)inputs[{}]", "out": "outputs[{}]"}
    args = [
        f"(char *)model->weights + {places[i]}" if what == "const" else arguments[what].format(i)
        for what, i in body.operands
    ]
    order = _result_order(body)
    asked = [f for f in _FEATURES if f"+{f}" in target.features] if target.is_x86 else []
    checks = "\n".join(
        f'    if (!__builtin_cpu_supports("{f}")) return fail(problem, "this CPU lacks {f}");'
        for f in asked
    )
    out = "\n".join(f"    outputs[{k}] = given[{i}];" for i, k in enumerate(order))
    return f"""/* Made by burnish for {target.cpu}. */
#define _ISOC11_SOURCE
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {{
    int64_t abi_version, threads;
    void *launch, *pool;
    int64_t cancel;
}} runtime;

extern void {kernel.symbol}(void **args, const int64_t *dims, void *workspace, const runtime *rt);

struct {name}_model {{
    void *weights, *workspace;
}};

{_tensors("input", inputs, [p.spec for p in main.params], name)}
{_tensors("output", outputs, [body.outputs[k] for k in order], name)}

static {name}_model *fail(const char **problem, const char *text) {{
    if (problem) *problem = text;
    return NULL;
}}

{name}_model *{name}_load(const char *path, const char **problem) {{
{checks}
    {name}_model *model = calloc(1, sizeof *model);
    if (!model) return fail(problem, "there is no memory");
    model->weights = aligned_alloc({ALIGNMENT}, {max(size, ALIGNMENT)});
    model->workspace = aligned_alloc({ALIGNMENT}, {_workspace(kernel)});
    if (!model->weights || !model->workspace) {{
        {name}_free(model);
        return fail(problem, "there is no memory");
    }}
    FILE *file = fopen(path, "rb");
    size_t found = file ? fread(model->weights, 1, {size}, file) : 0;
    int more = file ? fgetc(file) : EOF;
    if (!file || found != {size} || more != EOF) {{
        const char *text = file ? "the file of weights is another" : "there are no weights to read";
        if (file) fclose(file);
        {name}_free(model);
        return fail(problem, text);
    }}
    fclose(file);
    return model;
}}

int {name}_num_inputs(void) {{ return {len(main.params)}; }}
int {name}_num_outputs(void) {{ return {len(body.outputs)}; }}
const {name}_tensor *{name}_input(int i) {{ return &inputs[i]; }}
const {name}_tensor *{name}_output(int i) {{ return &outputs[i]; }}

void {name}_run({name}_model *model, const void *const *inputs, void *const *given) {{
    static const runtime rt = {{{ABI_VERSION}, 1, NULL, NULL, 0}};
    void *outputs[{max(1, len(order))}];
{out}
    void *args[] = {{{", ".join(args) or "NULL"}}};
    int64_t dims[1] = {{0}};
    {kernel.symbol}(args, dims, model->workspace, &rt);
}}

void {name}_free({name}_model *model) {{
    if (!model) return;
    free(model->weights);
    free(model->workspace);
    free(model);
}}
"""


def _result_order(body: CallBody) -> list[int]:
    """The outputs in the order of allocation, as the result has them."""

    def leaves(value: object) -> list[int]:
        if isinstance(value, tuple):
            return [int(value[1])]
        assert isinstance(value, list)
        return [k for inner in value for k in leaves(inner)]

    return leaves(body.result)


def _workspace(kernel: Kernel) -> int:
    shared, thread = compile_shapes((kernel.shared_bytes, kernel.thread_bytes), ())(())
    return max(ALIGNMENT, -(-(shared + thread) // ALIGNMENT) * ALIGNMENT)


def _example(name: str) -> str:
    return f"""/* Runs the model once: on files, one an input, or on zeros. Writes the bytes
   of the outputs to standard output. */
#include "{name}.h"
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {{
    const char *problem = "";
    {name}_model *model = {name}_load(argc > 1 ? argv[1] : "{name}.weights", &problem);
    if (!model) {{
        fprintf(stderr, "{name}: %s\\n", problem);
        return 1;
    }}
    int m = {name}_num_inputs(), n = {name}_num_outputs();
    const void **inputs = calloc(m + 1, sizeof *inputs);
    void **outputs = calloc(n + 1, sizeof *outputs);
    for (int i = 0; i < m; i++) {{
        size_t bytes = {name}_input(i)->bytes;
        void *data = calloc(bytes + 1, 1);
        FILE *file = argc > 2 + i ? fopen(argv[2 + i], "rb") : NULL;
        if (argc > 2 + i && (!file || fread(data, 1, bytes, file) != bytes)) {{
            fprintf(stderr, "{name}: %s: expected %zu bytes\\n", argv[2 + i], bytes);
            return 1;
        }}
        if (file) fclose(file);
        inputs[i] = data;
    }}
    for (int i = 0; i < n; i++) outputs[i] = calloc({name}_output(i)->bytes + 1, 1);
    {name}_run(model, inputs, outputs);
    for (int i = 0; i < n; i++) {{
        fwrite(outputs[i], 1, {name}_output(i)->bytes, stdout);
        free(outputs[i]);
    }}
    for (int i = 0; i < m; i++) free((void *)inputs[i]);
    free(inputs);
    free(outputs);
    {name}_free(model);
    return 0;
}}
"""
