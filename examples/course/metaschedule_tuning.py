"""Tuning: a search through the programs of a space, the built-in space, and a tuned layer put back.

``tune_tir`` builds and times candidates in worker processes and keeps a record of each;
``compile_tir`` gives the schedule of the best one. What was tuned is a tensor program like any
other: it replaces the original one in its module.

    python examples/course/metaschedule_tuning.py [--trials N]
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
from end_to_end import MyModuleMixture, load, numpy_mlp
from schedules_and_traces import MyModule, measure, stochastic_schedule_mm

import burnish
from burnish.models.fashion_mnist import CLASS_NAMES

TARGET = "native -threads=1"


def tune(mod, trials, space=None):
    """The best schedule of a module with one tensor program, called main."""
    with tempfile.TemporaryDirectory() as work_dir:
        database = burnish.tune_tir(
            mod,
            target=TARGET,
            max_trials=trials,
            trials_per_iter=trials,
            space=space,
            work_dir=work_dir,
            task_name="main",
            seed=0,
        )
        sch = burnish.compile_tir(database, mod, TARGET)
        database.close()
    return sch


def replace_linear0(mod, trials):
    """The module with its linear0 tuned: taken out under the name main, tuned, and put back."""
    alone = burnish.IRModule.from_expr(mod["linear0"].with_attr("global_symbol", "main"))
    sch = tune(alone, trials)
    tuned = mod.copy()
    new_func = sch.mod["main"].with_attr("global_symbol", "linear0")
    tuned.update_func(tuned.get_global_var("linear0"), new_func)
    return tuned


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=8)
    trials = parser.parse_args(argv).trials

    print(f"Time cost of MyModule: {measure(MyModule):.3f} ms")
    sch = tune(MyModule, trials, space=stochastic_schedule_mm)
    print(sch.trace)
    print(f"Time cost after tuning in our own space: {measure(sch.mod):.3f} ms")

    sch = tune(MyModule, trials)
    print(sch.trace)
    print(f"Time cost after tuning in the built-in space: {measure(sch.mod):.3f} ms")

    params, images, _ = load()
    data, expected = images[:1], numpy_mlp(images[:1], params)
    with_params = burnish.transform.BindParams("main", params)(MyModuleMixture)
    for name, mod in (
        ("MyModuleWithParams", with_params),
        ("MyModuleWithParams2", replace_linear0(with_params, trials)),
    ):
        vm = burnish.VirtualMachine(burnish.build(mod, target="llvm"))
        result = vm["main"](data).numpy()
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-4)
        print(f"{name} prediction: {CLASS_NAMES[result.argmax()]}")
        time = vm.time_evaluator("main", number=50)(data).mean
        print(f"{name} time-cost: {time * 1000:g} ms")


if __name__ == "__main__":
    main()
