"""The C of an exported model: its header, its source, and an example.

A model of fixed sizes is called with its inputs and outputs alone. One with named sizes takes their
values too, tells the shapes that they give, and says why it refuses some.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..support.abi import ABI_VERSION, ALIGNMENT
from ..support.call_form import SizeRange
from ..support.dtype import DType
from ..support.target import Target
from ..tensorir.codegen.thread_pool import CREATE, DESTROY, LAUNCH
from ..vm.fast_entry import CallBody
from ..vm.parallel import CAPACITY
from ..vm.program import Kernel, TensorSpec, VMFunction
from ..vm.shape_text import static_value
from .c_sizes import ARITHMETIC, CSizes

_FEATURES = (
    *("sse4.2", "avx", "avx2", "fma", "bmi", "bmi2", "avx512f", "avx512bw", "avx512dq"),
    *("avx512cd", "avx512vl", "avx512vnni", "avx512bf16", "avx512vbmi", "avx512vbmi2"),
    *("avx512ifma", "avx512bitalg", "avx512vpopcntdq", "avxvnni"),
)
"""What C compilers can ask a CPU for."""


@dataclass(frozen=True, kw_only=True)
class CLibrary:
    """What the C of a model speaks of."""

    name: str
    target: Target
    main: VMFunction
    body: CallBody
    kernel: Kernel
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    ranges: tuple[SizeRange, ...]
    """What the named sizes may be."""
    places: tuple[int, ...]
    """Where in the file of weights each constant is."""
    weights_bytes: int
    symbols: tuple[str, ...]
    """What the objects define."""
    has_pool: bool

    @property
    def dims(self) -> tuple[str, ...]:
        """The named sizes, whose values each call gives."""
        return self.main.dim_names

    @property
    def params(self) -> list[TensorSpec]:
        """The types of the inputs."""
        return [p.spec for p in self.main.params]

    @property
    def order(self) -> list[int]:
        """The outputs in the order of allocation, as the result has them."""
        return _leaves(self.body.result)

    @property
    def results(self) -> list[TensorSpec]:
        """The types of the outputs, as the result has them."""
        return [self.body.outputs[k] for k in self.order]

    # -- the header --------------------------------------------------------------------------------
    def header(self) -> str:
        """The declarations that a caller includes."""
        name = self.name
        open_sizes = " -1 and 0 bytes stand where named sizes decide." if self.dims else ""
        parts = [
            f"""/* Made by burnish. Link with {name}.c and the objects. */
#ifndef {name.upper()}_H
#define {name.upper()}_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {{
#endif

/* One input or output: row-major, of this dtype (bfloat16 as 16 bits, bool as a
   byte).{open_sizes} */
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
""",
            _DECLARED_SIZES if self.dims else "",
            _DECLARED_THREADS if self.has_pool else "",
            _DECLARED_RUN_SIZES if self.dims else _DECLARED_RUN,
            f"""void {name}_free({name}_model *model);

#ifdef __cplusplus
}}
#endif
#endif
""",
        ]
        return _filled("".join(parts), name, dims=", ".join(self.dims))

    # -- the source --------------------------------------------------------------------------------
    def source(self) -> str:
        """The functions of the header."""
        name = self.name
        asked = [f for f in _FEATURES if f"+{f}" in self.target.features]
        checks = [
            f'    if (!__builtin_cpu_supports("{f}")) return fail(problem, "this CPU lacks {f}");\n'
            for f in (asked if self.target.is_x86 else [])
        ]
        tiles = self.target.instructions.tiles
        if tiles is not None and not tiles.is_emulated:
            checks.append(_ASK_FOR_TILES)
        prepared = "" if self.dims else " || prepare(model, NULL)"
        parts = [
            f"/* Made by burnish for {self.target.cpu}. */\n",
            _BEGIN,
            f"extern void {self.kernel.symbol}(void **args, const int64_t *dims, void *workspace,\n"
            "    const runtime *rt);\n",
            _POOL if self.has_pool else "",
            "\n/* Nobody else finds these, or stands in for them. */\n",
            *[f'__asm__(".hidden {symbol}");\n' for symbol in self.symbols],
            _MODEL,
            ARITHMETIC if self.dims or self.kernel.dims else "",
            _tensors("input", self.inputs, self.params, name),
            _tensors("output", self.outputs, self.results, name),
            self._preparing(),
            self._sizes() if self.dims else "",
            _LOAD.replace("CHECKS", "".join(checks))
            .replace("ROOM", str(max(self.weights_bytes, ALIGNMENT)))
            .replace("SIZE", str(self.weights_bytes))
            .replace("PREPARED", prepared),
            f"int NAME_num_inputs(void) {{ return {len(self.params)}; }}\n",
            f"int NAME_num_outputs(void) {{ return {len(self.results)}; }}\n",
            "const NAME_tensor *NAME_input(int i) { return &input_table[i]; }\n",
            "const NAME_tensor *NAME_output(int i) { return &output_table[i]; }\n",
            _THREADS.replace("PREPARED", prepared or " || 0") if self.has_pool else "",
            self._run(),
            _FREE.replace("POOL", _FREE_POOL if self.has_pool else ""),
        ]
        return _filled("".join(parts), name)

    def _preparing(self) -> str:
        """The function that sees to the workspace for values of the kernel's dims."""
        sizes = CSizes(self.kernel.dims)
        shared, thread = map(sizes.expression, (self.kernel.shared_bytes, self.kernel.thread_bytes))
        return _PREPARE.replace("ZEROS", sizes.divided_by_zero()).replace(
            "NEEDED", f"{shared} + {thread} * model->rt.threads"
        )

    def _sizes(self) -> str:
        """What a library with named sizes has more than one with fixed ones."""
        sizes = CSizes(self.dims)
        tellers = [
            _teller("input", self.params, sizes),
            _teller("output", self.results, sizes),
        ]
        checks = [
            f"    if (d[{i}] < 0) return {_quoted(f'{dim} is negative')};\n"
            for i, dim in enumerate(self.dims)
        ]
        bounds = []
        for r in self.ranges:
            at = sizes.expression(self.params[r.tensor].shape[r.axis])
            wanted = f"{r.low} or more" if r.high is None else f"from {r.low} to {r.high}"
            above = "" if r.high is None else f" || {at} > {r.high}"
            problem = _quoted(f"{r.name} has to be {wanted}")
            bounds.append(f"    if ({at} < {r.low}{above}) return {problem};\n")
        for condition in self.body.conditions:
            problem = _quoted(f"the sizes have to be such that {condition}")
            bounds.append(f"    if (!{sizes.expression(condition)}) return {problem};\n")
        for text in self.body.dims:
            sizes.expression(text)
        names = ", ".join(map(_quoted, self.dims))
        return "".join(
            [
                f"\nstatic const char *const dim_names[] = {{{names}}};\n",
                f"int NAME_num_dims(void) {{ return {len(self.dims)}; }}\n",
                "const char *NAME_dim(int i) { return dim_names[i]; }\n",
                "\n/* Why the model does not take these sizes; NULL where it does. */\n",
                "static const char *refused(const int64_t *d) {\n",
                *checks,
                sizes.divided_by_zero(),
                *bounds,
                "    return NULL;\n}\n",
                *tellers,
            ]
        )

    def _run(self) -> str:
        sizes = CSizes(self.dims)
        where = {"param": "(void *)inputs[{}]", "out": "outputs[{}]"}
        args = [
            f"(char *)model->weights + {self.places[i]}"
            if what == "const"
            else where[what].format(i)
            for what, i in self.body.operands
        ]
        dims = ", ".join([sizes.expression(text) for text in self.body.dims]) or "0"
        out = "".join([f"    outputs[{k}] = given[{i}];\n" for i, k in enumerate(self.order)])
        return (
            (_RUN_SIZES if self.dims else _RUN)
            .replace("COUNT", str(max(1, len(self.order))))
            .replace("OUTPUTS", out)
            .replace("ARGS", ", ".join(args) or "NULL")
            .replace("DIMS", dims)
            .replace("KERNEL", self.kernel.symbol)
        )

    # -- the example -------------------------------------------------------------------------------
    def example(self) -> str:
        """A program that runs the model once."""
        sizes = "named sizes as batch=3, all 1 unless given; " if self.dims else ""
        threads = "-2 for two threads; " if self.has_pool else ""
        return _filled(
            _EXAMPLE.replace("OPTIONS", f"{sizes}{threads}a file for each input")
            .replace("SET_THREADS", _EXAMPLE_THREADS if self.has_pool else "")
            .replace("SET_SIZES", _EXAMPLE_SIZES if self.dims else "")
            .replace("ALLOCATE_DIMS", _EXAMPLE_DIMS if self.dims else "")
            .replace("COUNT", str(len(self.dims)))
            .replace("INPUT_BYTES", _example_bytes("input", is_open=bool(self.dims)))
            .replace("OUTPUT_BYTES", _example_bytes("output", is_open=bool(self.dims)))
            .replace("RUN", _EXAMPLE_RUN_SIZES if self.dims else _EXAMPLE_RUN),
            self.name,
        )


def _filled(text: str, name: str, dims: str = "") -> str:
    return text.replace("NAME", name).replace("THE_DIMS", dims)


def _leaves(value: object) -> list[int]:
    if isinstance(value, tuple):
        return [int(value[1])]
    assert isinstance(value, list)
    return [k for inner in value for k in _leaves(inner)]


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tensors(which: str, names: Sequence[str], specs: Sequence[TensorSpec], name: str) -> str:
    """The table of inputs or outputs."""
    lines, rows = [""], []
    for i, (called, spec) in enumerate(zip(names, specs, strict=True)):
        shape = [static_value(text) for text in spec.shape]
        fixed = [size for size in shape if size is not None]
        is_open = len(fixed) < len(shape)
        size = 0 if is_open else math.prod(fixed) * DType(spec.dtype).itemsize
        sizes = ", ".join([str(-1 if s is None else s) for s in shape]) or "1"
        lines.append(f"static const int64_t {which}_shape{i}[] = {{{sizes}}};")
        row = f'{_quoted(called)}, "{spec.dtype}", {len(shape)}, {which}_shape{i}, {size}'
        rows.append(f"    {{{row}}},")
    rows = rows or ["    {0},"]
    table = [f"static const {name}_tensor {which}_table[] = {{", *rows, "};", ""]
    return "\n".join([*lines, *table])


def _teller(which: str, specs: Sequence[TensorSpec], sizes: CSizes) -> str:
    """The function that tells the shape and the bytes of an input or output."""
    cases = []
    for i, spec in enumerate(specs):
        texts = [sizes.expression(text) for text in spec.shape]
        lines = [f"        s[{k}] = {text};\n" for k, text in enumerate(texts)]
        lines.append(f"        rank = {len(texts)}, bytes = {DType(spec.dtype).itemsize};\n")
        cases.append(f"    case {i}:\n{''.join(lines)}        break;\n")
    most = max([1, *[len(spec.shape) for spec in specs]])
    return f"""
int64_t NAME_{which}_bytes(int i, const int64_t *d, int64_t *shape) {{
    int64_t s[{most}] = {{0}}, bytes = 0;
    int rank = 0;
    if (refused(d)) return -1;
    switch (i) {{
{"".join(cases)}    default:
        return -1;
    }}
    for (int k = 0; k < rank; k++) {{
        if (shape) shape[k] = s[k];
        if (s[k] < 0 || __builtin_mul_overflow(bytes, s[k], &bytes)) return -1;
    }}
    return bytes;
}}
"""


def _example_bytes(which: str, *, is_open: bool) -> str:
    return f"NAME_{which}_bytes(i, dims, NULL)" if is_open else f"NAME_{which}(i)->bytes"


_DECLARED_SIZES = """
/* The named sizes, in the order that dims has their values in: THE_DIMS. */
int NAME_num_dims(void);
const char *NAME_dim(int i);
/* The bytes of an input or output, and where shape is not NULL its sizes there, rank of them; -1
   for values that the model does not take. */
int64_t NAME_input_bytes(int i, const int64_t *dims, int64_t *shape);
int64_t NAME_output_bytes(int i, const int64_t *dims, int64_t *shape);
"""
_DECLARED_THREADS = f"""
/* How many threads a call may take: 1 at first, {CAPACITY} at most; not while one runs. Results are
   the same bits. 0, or -1 for another number, and where there is no memory. */
int NAME_set_threads(NAME_model *model, int threads);
"""
_DECLARED_RUN = """
/* Runs the model on inputs and into outputs, all aligned to their dtype. One call of a model at a
   time. */
void NAME_run(NAME_model *model, const void *const *inputs, void *const *outputs);
"""
_DECLARED_RUN_SIZES = """
/* Runs the model on inputs and into outputs, all aligned to their dtype and of the bytes that dims
   give. One call of a model at a time. NULL, or a sentence where it did not run. */
const char *NAME_run(NAME_model *model, const int64_t *dims, const void *const *inputs,
                     void *const *outputs);
"""
_BEGIN = """\
#define _ISOC11_SOURCE
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    int64_t abi_version, threads;
    void *launch, *pool;
    int64_t cancel;
} runtime;

"""
_POOL = f"""\
extern void *{CREATE}(int64_t capacity);
extern void {LAUNCH}(void);
extern void {DESTROY}(void *pool);
"""
_MODEL = """
struct NAME_model {
    void *weights, *workspace;
    int64_t room;
    runtime rt;
};

"""
_PREPARE = f"""
/* Why there is no workspace for these sizes; NULL where there is. */
static const char *prepare(NAME_model *model, const int64_t *d) {{
    (void)d;
ZEROS    int64_t needed = NEEDED;
    if (model->workspace && needed <= model->room) return NULL;
    int64_t room = (needed / {ALIGNMENT} + 1) * {ALIGNMENT};
    void *made = aligned_alloc({ALIGNMENT}, room);
    if (!made) return "there is no memory";
    free(model->workspace);
    model->workspace = made;
    model->room = room;
    return NULL;
}}
"""
_ASK_FOR_TILES = """    extern long syscall(long, ...);
    if (syscall(158L, 0x1023L, 18L))
        return fail(problem, "the CPU or the system has no tile registers (AMX) for us");
"""
_LOAD = f"""
static NAME_model *fail(const char **problem, const char *text) {{
    if (problem) *problem = text;
    return NULL;
}}

NAME_model *NAME_load(const char *path, const char **problem) {{
CHECKS    NAME_model *model = calloc(1, sizeof *model);
    if (!model) return fail(problem, "there is no memory");
    model->rt.abi_version = {ABI_VERSION};
    model->rt.threads = 1;
    model->weights = aligned_alloc({ALIGNMENT}, ROOM);
    if (!model->weightsPREPARED) {{
        NAME_free(model);
        return fail(problem, "there is no memory");
    }}
    FILE *file = fopen(path, "rb");
    size_t found = file ? fread(model->weights, 1, SIZE, file) : 0;
    int more = file ? fgetc(file) : EOF;
    if (!file || found != SIZE || more != EOF) {{
        const char *text = file ? "the file of weights is another" : "there are no weights to read";
        if (file) fclose(file);
        NAME_free(model);
        return fail(problem, text);
    }}
    fclose(file);
    return model;
}}

"""
_THREADS = f"""
int NAME_set_threads(NAME_model *model, int threads) {{
    if (threads < 1 || threads > {CAPACITY}) return -1;
    if (threads > 1 && !model->rt.pool) {{
        model->rt.pool = {CREATE}({CAPACITY});
        if (!model->rt.pool) return -1;
        model->rt.launch = (void *){LAUNCH};
    }}
    int64_t before = model->rt.threads;
    model->rt.threads = threads;
    if (0PREPARED) {{
        model->rt.threads = before;
        return -1;
    }}
    return 0;
}}
"""
_CALL = """\
    void *outputs[COUNT];
OUTPUTS    void *args[] = {ARGS};
"""
_RUN = f"""
void NAME_run(NAME_model *model, const void *const *inputs, void *const *given) {{
    (void)inputs;
{_CALL}    int64_t dims[] = {{DIMS}};
    KERNEL(args, dims, model->workspace, &model->rt);
}}
"""
_RUN_SIZES = f"""
const char *NAME_run(NAME_model *model, const int64_t *d, const void *const *inputs,
                     void *const *given) {{
    const char *problem = refused(d);
    if (problem) return problem;
{_CALL}    int64_t dims[] = {{DIMS}};
    problem = prepare(model, dims);
    if (problem) return problem;
    KERNEL(args, dims, model->workspace, &model->rt);
    return NULL;
}}
"""
_FREE = """
void NAME_free(NAME_model *model) {
    if (!model) return;
POOL    free(model->weights);
    free(model->workspace);
    free(model);
}
"""
_FREE_POOL = f"""\
    if (model->rt.pool) {DESTROY}(model->rt.pool);
    free(model->rt.pool);
"""
_EXAMPLE = """\
/* Runs the model once, on zeros where no files are given, and writes the bytes of the outputs to
   standard output. Arguments: the file of weights; then OPTIONS. */
#include "NAME.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    const char *problem = "";
    NAME_model *model = NAME_load(argc > 1 ? argv[1] : "NAME.weights", &problem);
    if (!model) {
        fprintf(stderr, "NAME: %s\\n", problem);
        return 1;
    }
    int m = NAME_num_inputs(), n = NAME_num_outputs(), next = 2;
ALLOCATE_DIMSSET_THREADSSET_SIZES    const void **inputs = calloc(m + 1, sizeof *inputs);
    void **outputs = calloc(n + 1, sizeof *outputs);
    for (int i = 0; i < m; i++) {
        int64_t bytes = INPUT_BYTES;
        void *data = bytes < 0 ? NULL : calloc(bytes + 1, 1);
        const char *path = next < argc ? argv[next++] : NULL;
        FILE *file = path ? fopen(path, "rb") : NULL;
        if (!data) {
            fprintf(stderr, "NAME: %s: there is no memory for this size, or the model does not "
                    "take it\\n", NAME_input(i)->name);
            return 1;
        }
        if (path && (!file || (int64_t)fread(data, 1, bytes, file) != bytes)) {
            fprintf(stderr, "NAME: %s: expected %lld bytes\\n", path, (long long)bytes);
            return 1;
        }
        if (file) fclose(file);
        inputs[i] = data;
    }
    for (int i = 0; i < n; i++) outputs[i] = calloc(OUTPUT_BYTES + 1, 1);
RUN    for (int i = 0; i < n; i++) {
        fwrite(outputs[i], 1, OUTPUT_BYTES, stdout);
        free(outputs[i]);
    }
    for (int i = 0; i < m; i++) free((void *)inputs[i]);
    free(inputs);
    free(outputs);
    NAME_free(model);
    return 0;
}
"""
_EXAMPLE_DIMS = """\
    int64_t dims[COUNT];
    for (int i = 0; i < NAME_num_dims(); i++) dims[i] = 1;
"""
_EXAMPLE_THREADS = """\
    for (; next < argc && argv[next][0] == '-'; next++) {
        if (NAME_set_threads(model, atoi(argv[next] + 1)) != 0) {
            fprintf(stderr, "NAME: %s: no number of threads\\n", argv[next]);
            return 1;
        }
    }
"""
_EXAMPLE_SIZES = """\
    for (; next < argc && strchr(argv[next], '='); next++) {
        for (int i = 0; i < NAME_num_dims(); i++) {
            size_t length = strlen(NAME_dim(i));
            if (strncmp(argv[next], NAME_dim(i), length) == 0 && argv[next][length] == '=')
                dims[i] = atoll(argv[next] + length + 1);
        }
    }
"""
_EXAMPLE_RUN = "    NAME_run(model, inputs, outputs);\n"
_EXAMPLE_RUN_SIZES = """\
    problem = NAME_run(model, dims, inputs, outputs);
    if (problem) {
        fprintf(stderr, "NAME: %s\\n", problem);
        return 1;
    }
"""
