"""An operator searched over from its definition alone, with a log file of what was measured.

The definition says what is computed; the task gives it sizes and a target; the search keeps every
measurement in a log. From the log comes the best schedule, its equivalent Python, and the state in
which a later search goes on.

    python examples/course/task_and_log.py [--size 1024] [--trials 10] [--log matmul.json]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import burnish
from burnish import auto_scheduler, te


@auto_scheduler.register_workload
def matmul_add(N, L, M, dtype):
    A = te.placeholder((N, L), name="A", dtype=dtype)
    B = te.placeholder((L, M), name="B", dtype=dtype)
    C = te.placeholder((N, M), name="C", dtype=dtype)
    k = te.reduce_axis((0, L), name="k")
    matmul = te.compute((N, M), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="matmul")
    out = te.compute((N, M), lambda i, j: matmul[i, j] + C[i, j], name="out")
    return [A, B, C, out]


def check(lib, n):
    """Compare with NumPy; the time of a call in seconds."""
    rng = np.random.default_rng(0)
    a, b, c = (rng.uniform(size=(n, n)).astype("float32") for _ in range(3))
    out = np.empty((n, n), "float32")
    lib["main"](a, b, c, out)
    np.testing.assert_allclose(out, a.dot(b) + c, rtol=1e-3)
    arrays = [burnish.array(x) for x in (a, b, c, out)]
    return lib.time_evaluator("main", min_repeat_ms=50)(*arrays).mean


def resume(task, log, trials):
    """Search on: what the log has is not measured again, and search and model know it."""
    cost_model = auto_scheduler.XGBModel()
    cost_model.update_from_file(log)
    search_policy = auto_scheduler.SketchPolicy(
        task, cost_model, init_search_callbacks=[auto_scheduler.PreloadMeasuredStates(log)]
    )
    options = auto_scheduler.TuningOptions(
        num_measure_trials=trials, measure_callbacks=[auto_scheduler.RecordToFile(log)]
    )
    task.tune(options, search_policy=search_policy)


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--log", type=Path, default=Path("matmul.json"))
    options = parser.parse_args(argv)
    n, log = options.size, options.log

    task = auto_scheduler.SearchTask(
        func=matmul_add, args=(n, n, n, "float32"), target="native -threads=1"
    )
    print("Computational DAG:")
    print(task.compute_dag)

    tune_option = auto_scheduler.TuningOptions(
        num_measure_trials=options.trials,
        measure_callbacks=[auto_scheduler.RecordToFile(log)],
        verbose=2,
    )
    task.tune(tune_option)
    sch, args = task.apply_best(log)

    print("Lowered:")
    print(burnish.lower(sch, args, simple_mode=True))
    lib = burnish.build(sch, args, "native -threads=1")
    print(f"Execution time of this operator: {check(lib, n) * 1000:.3f} ms")

    print("Equivalent Python schedule:")
    print(task.print_best(log))

    print("Resume:")
    resume(task, log, max(1, options.trials // 2))
    print(f"{len(list(auto_scheduler.load_records(log)))} records in {log}")


if __name__ == "__main__":
    main()
