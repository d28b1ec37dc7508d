"""A model as a module: tensor programs, functions of the environment, and a graph that calls them.

The graph function says which function computes what, in destination-passing style: the machine
allocates the outputs, the functions fill them. A function may be a tensor program of the module
(``call_dps``), or be found by name (``call_dps_packed``), in the module or in the environment.

    python examples/course/end_to_end.py
"""
# ruff: noqa: F821 - the functions of a module are names inside it

from __future__ import annotations

import numpy as np
import torch

import burnish
from burnish.models import fashion_mnist, mlp
from burnish.models.garments import draw_garments
from burnish.script import I, R, T


@I.ir_module
class MyModule:
    """Everything is a tensor program; sizes are read off the arguments."""

    @T.prim_func
    def relu0(x: T.handle, y: T.handle):
        n = T.int64()
        X = T.match_buffer(x, (1, n), "float32")
        Y = T.match_buffer(y, (1, n), "float32")
        for i, j in T.grid(1, n):
            with T.block("Y"):
                vi, vj = T.axis.remap("SS", [i, j])
                Y[vi, vj] = T.max(X[vi, vj], T.float32(0))

    @T.prim_func
    def linear0(x: T.handle, w: T.handle, b: T.handle, z: T.handle):
        m, n = T.int64(), T.int64()
        X = T.match_buffer(x, (1, m), "float32")
        W = T.match_buffer(w, (n, m), "float32")
        B = T.match_buffer(b, (n,), "float32")
        Z = T.match_buffer(z, (1, n), "float32")
        Y = T.alloc_buffer((1, n), "float32")
        for i, j, k in T.grid(1, n, m):
            with T.block("Y"):
                vi, vj, vk = T.axis.remap("SSR", [i, j, k])
                with T.init():
                    Y[vi, vj] = T.float32(0)
                Y[vi, vj] = Y[vi, vj] + X[vi, vk] * W[vj, vk]
        for i, j in T.grid(1, n):
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
            lv0 = R.call_dps(linear0, (x, w0, b0), R.Tensor((1, 128), dtype="float32"))
            lv1 = R.call_dps(relu0, (lv0,), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps(linear0, (lv1, w1, b1), R.Tensor((1, 10), dtype="float32"))
            R.output(out)
        return out


@I.ir_module
class MyModuleWithExternCall:
    """Everything is a function of the environment."""

    @R.function
    def main(
        x: R.Tensor((1, 784), "float32"),
        w0: R.Tensor((128, 784), "float32"),
        b0: R.Tensor((128,), "float32"),
        w1: R.Tensor((10, 128), "float32"),
        b1: R.Tensor((10,), "float32"),
    ):
        with R.dataflow():
            lv0 = R.call_dps_packed("env.linear", (x, w0, b0), R.Tensor((1, 128), dtype="float32"))
            lv1 = R.call_dps_packed("env.relu", (lv0,), R.Tensor((1, 128), dtype="float32"))
            out = R.call_dps_packed("env.linear", (lv1, w1, b1), R.Tensor((1, 10), dtype="float32"))
            R.output(out)
        return out


@I.ir_module
class MyModuleMixture:
    """The first layer is a tensor program, the others are functions of the environment."""

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
    """out = x @ w.T + b by PyTorch, in place."""
    out_torch = torch.from_dlpack(out)
    torch.mm(torch.from_dlpack(x), torch.from_dlpack(w).T, out=out_torch)
    torch.add(out_torch, torch.from_dlpack(b), out=out_torch)


@burnish.register_func("env.relu", override=True)
def numpy_relu(x, out):
    """out = max(x, 0) by NumPy, in place."""
    np.maximum(x.numpy(), 0, out=out.numpy())


def numpy_mlp(x, params):
    """The model in NumPy."""
    hidden = np.maximum(x @ params["w0"].T + params["b0"], 0)
    return hidden @ params["w1"].T + params["b1"]


def load(count=200):
    """Trained weights, and images with their labels to try them on; all drawn, nothing fetched."""
    images, labels = draw_garments(1500, seed=0)
    params = mlp.weights_of(mlp.train(images, labels))
    images, labels = draw_garments(count, seed=1)
    return params, (images.reshape(-1, 784) / 255).astype("float32"), labels


def main():
    params, images, labels = load()
    data, label = images[:1], labels[0]
    expected = numpy_mlp(data, params)
    print("Class:", fashion_mnist.CLASS_NAMES[label])
    print("NumPy prediction:", fashion_mnist.CLASS_NAMES[expected.argmax()])

    for name, mod in (
        ("MyModule", MyModule),
        ("MyModuleWithExternCall", MyModuleWithExternCall),
        ("MyModuleMixture", MyModuleMixture),
    ):
        vm = burnish.VirtualMachine(burnish.build(mod, target="llvm"))
        result = vm["main"](data, params["w0"], params["b0"], params["w1"], params["b1"])
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-3, atol=1e-4)
        print(f"{name} prediction:", fashion_mnist.CLASS_NAMES[result.numpy().argmax()])

    # Bound parameters are part of the program.
    with_params = burnish.transform.BindParams("main", params)(MyModuleMixture)
    print(with_params.script())
    vm = burnish.VirtualMachine(burnish.build(with_params, target="llvm"))
    predicted = np.array([vm["main"](image[None]).numpy().argmax() for image in images])
    print(f"MyModuleWithParams: {(predicted == labels).sum()} of {len(labels)} correct")
    time = vm.time_evaluator("main", number=100)(data).mean
    print(f"MyModuleWithParams time-cost: {time * 1000:g} ms")


if __name__ == "__main__":
    main()
