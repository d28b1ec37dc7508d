"""A product with a bias, from its definition alone: scheduled by default, then tuned.

The workload is a function of its sizes that returns the tensors it reads and writes. Nobody writes
a schedule for it: the default one is chosen from the target's caches and registers, the tuned one
is the fastest of those that a search has measured.

    python examples/course/matmul_add.py [--size N] [--trials N]
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np

import burnish
from burnish import te, transform

TARGET = "native -threads=1"


def matmul_add(n, p, m, dtype="float32"):
    """A @ B + C; the layout of B may be changed by whoever schedules it."""
    a = te.placeholder((n, p), name="A", dtype=dtype)
    b = te.placeholder((p, m), name="B", dtype=dtype)
    c = te.placeholder((n, m), name="C", dtype=dtype)
    k = te.reduce_axis((0, p), name="k")
    matmul = te.compute(
        (n, m),
        lambda i, j: te.sum(a[i, k] * b[k, j], axis=k),
        name="matmul",
        attrs={"layout_free_placeholders": [b]},
    )
    out = te.compute((n, m), lambda i, j: matmul[i, j] + c[i, j], name="out")
    return [a, b, c, out]


def measure(mod, size):
    """Milliseconds that a call takes; its result is compared with NumPy's."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.random((size, size), dtype="float32") for _ in range(3))
    out = np.empty((size, size), "float32")
    lib = burnish.build(mod, target=TARGET)
    lib["main"](a, b, c, out)
    np.testing.assert_allclose(out, a @ b + c, rtol=1e-3)
    return lib.time_evaluator("main", number=1, min_repeat_ms=20)(a, b, c, out).median * 1000


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--trials", type=int, default=8)
    options = parser.parse_args(argv)
    size = options.size

    func = te.create_prim_func(matmul_add(size, size, size))
    print(func.script())
    mod = burnish.IRModule.from_expr(func)
    print(f"Execution time as written: {measure(mod, size):.3f} ms")

    scheduled = transform.DefaultSchedule(TARGET)(mod)
    print(f"Execution time with the default schedule: {measure(scheduled, size):.3f} ms")

    with tempfile.TemporaryDirectory() as work_dir:
        trials = options.trials
        database = burnish.tune_tir(
            mod, TARGET, max_trials=trials, trials_per_iter=trials, work_dir=work_dir, seed=0
        )
        sch = burnish.compile_tir(database, mod, TARGET)
        database.close()
    print(sch.trace)
    print(f"Execution time after tuning: {measure(sch.mod, size):.3f} ms")


if __name__ == "__main__":
    main()
