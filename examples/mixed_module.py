"""A module that mixes a tensor program with functions of the environment, before and after tuning.

``linear0`` is a tensor program; relu and the second linear are PyTorch calls, registered as
environment functions that write their output in place. The parameters are bound, the module is
built and run on the virtual machine; then ``linear0`` is taken out, tuned, put back, and
everything runs again: the same predictions in less time.

    python examples/mixed_module.py [--data DIR] [--trials N]
"""

from __future__ import annotations

import argparse

import numpy as np
import torch

import burnish
from burnish.models import fashion_mnist, mlp
from burnish.script import I, R, T


@I.ir_module
class MixedMLP:
    @T.prim_func
    def linear0(
        X: T.Buffer((1, 784), "float32"),
        W: T.Buffer((128, 784), "float32"),
        B: T.Buffer((128,), "float32"),
        Z: T.Buffer((1, 128), "float32"),
    ):
        T.func_attr({"global_symbol": "linear0", "tir.noalias": True})
        Y = T.alloc_buffer((1, 128), "float32")
        for i, j, k in T.grid(1, 128, 784):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, 128):
            with T.block("Z"):
                vi, vj = T.axis.remap("SS", [i, j])
                Z[vi, vj] = Y[vi, vj] + B[vj]

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_dps_packed("linear0", (x, w0, b0), R.Tensor((1, 128), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 10), dtype="float32"))
            R.output(out)
        return out


@burnish.register_func("env.linear", override=True)
def torch_linear(x, w, b, out):
    """out = x @ w.T + b, written in place."""
    result = torch.from_dlpack(out)
    torch.mm(torch.from_dlpack(x), torch.from_dlpack(w).T, out=result)
    torch.add(result, torch.from_dlpack(b), out=result)


@burnish.register_func("env.relu", override=True)
def torch_relu(x, out):
    """out = max(x, 0), written in place."""
    torch.maximum(torch.from_dlpack(x), torch.zeros(1), out=torch.from_dlpack(out))


def predict(vm, images):
    """The class of each image, one call an image."""
    return np.array([vm["main"](image[None]).numpy().argmax() for image in images])


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a folder with Fashion-MNIST; otherwise garments are drawn")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--images", type=int, default=200)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)

    data = fashion_mnist.load(options.data)
    print(f"Data: {data.source}")
    weights = data.weights or mlp.weights_of(mlp.train(data.train_images, data.train_labels))
    step = max(1, len(data.images) // options.images)
    images = (data.images[::step].reshape(-1, 784) / 255).astype(np.float32)
    labels = data.labels[::step]

    bound = burnish.transform.BindParams("main", weights)(MixedMLP)
    vm = burnish.VirtualMachine(burnish.build(bound))
    before = predict(vm, images)
    time_before = vm.time_evaluator("main", number=100)(images[:1]).median
    print(f"{(before == labels).sum()} of {len(labels)} correct, {time_before * 1e6:.1f} us a call")

    # Take linear0 out, tune it, and put the best schedule back under the same name.
    alone = burnish.IRModule.from_expr(MixedMLP["linear0"].with_attr("global_symbol", "main"))
    target = "native -threads=1"
    database = burnish.tune_tir(alone, target, max_trials=options.trials, task_name="main")
    schedule = burnish.compile_tir(database, alone, target)
    print(schedule.trace)
    tuned = burnish.transform.BindParams("main", weights)(MixedMLP)
    linear0 = schedule.mod["main"].with_attr("global_symbol", "linear0")
    tuned.update_func(tuned.get_global_var("linear0"), linear0)

    vm = burnish.VirtualMachine(burnish.build(tuned))
    after = predict(vm, images)
    time_after = vm.time_evaluator("main", number=100)(images[:1]).median
    print(f"{(after == labels).sum()} of {len(labels)} correct, {time_after * 1e6:.1f} us a call")
    same = bool((before == after).all())
    print(
        f"The predictions are {'the same' if same else 'DIFFERENT'}; "
        f"{time_before / time_after:.2f} times as fast."
    )
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
