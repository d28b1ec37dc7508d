"""Passes over a graph, written by hand: match operators, group them, lower them, fuse the kernels.

A model is built operator by operator. One pass finds each addition to a matrix product and moves
the two into a function of their own; another turns operators into tensor programs; the built-in
ones merge the tensor programs of a group and remove what nothing calls any more.

    python examples/course/graph_passes.py
"""

from __future__ import annotations

import numpy as np

import burnish
from burnish import graph, topi, transform


def create_model(params):
    """Two layers, each a product and an addition, with a relu between them."""
    bb = burnish.BlockBuilder()
    x = graph.Var("x", graph.tensor_type((1, 784)))
    w0, b0 = graph.const(params["w0"].T), graph.const(params["b0"])
    w1, b1 = graph.const(params["w1"].T), graph.const(params["b1"])
    with bb.function("main", [x]):
        with bb.dataflow():
            lv0 = bb.emit(graph.op("matmul", x, w0))
            lv1 = bb.emit(graph.op("add", lv0, b0))
            lv2 = bb.emit(graph.op("relu", lv1))
            lv3 = bb.emit(graph.op("matmul", lv2, w1))
            gv = bb.emit_output(graph.op("add", lv3, b1))
        bb.emit_func_output(gv)
    return bb.get()


class MatmulAddFusor(burnish.ExprMutator):
    """Moves ``add(matmul(x, w), b)`` into a function that stands for one kernel."""

    def visit_Call(self, call):
        call = super().visit_Call(call)
        if call.op != "add":
            return call
        product = self.lookup_binding(call.args[0])
        if not isinstance(product, graph.Call) or product.op != "matmul":
            return call
        x, w = product.args
        return self.call_fused(x, w, call.args[1])

    def call_fused(self, *args):
        """A call of a new function of the two operators on these arguments."""
        x, w, b = (graph.Var(name, graph.type_of(a)) for name, a in zip("xwb", args, strict=True))
        bb = burnish.BlockBuilder()
        with bb.function("fused_matmul_add", [x, w, b], attrs={"primitive": True}):
            with bb.dataflow():
                lv = bb.emit(graph.op("matmul", x, w))
                gv = bb.emit_output(graph.op("add", lv, b))
            bb.emit_func_output(gv)
        func = self.builder.add_func(bb.get()["fused_matmul_add"])
        return graph.CallFunction(func, args, gv.type)


@burnish.module_pass(name="fuse-matmul-add", opt_level=2)
def fuse_matmul_add(mod, ctx):
    """The hand-written fusion, and what is left of the operators that it moved taken away."""
    return transform.DeadCodeElimination()(MatmulAddFusor(mod).transform())


class LowerToTensorIR(burnish.ExprMutator):
    """Replaces operators by tensor programs."""

    def __init__(self, mod, op_map):
        super().__init__(mod)
        self.op_map = op_map

    def visit_Call(self, call):
        call = super().visit_Call(call)
        if call.op not in self.op_map:
            return call
        return self.builder.call_te(self.op_map[call.op], *call.args)


@burnish.module_pass(name="lower-to-tensor-ir", opt_level=0)
class LowerPass:
    def __init__(self, op_map):
        self.op_map = op_map

    def transform_module(self, mod, ctx):
        return LowerToTensorIR(mod, self.op_map).transform()


OP_MAP = {"matmul": topi.matmul, "add": topi.add, "relu": topi.relu}


def random_params(seed=0):
    """Weights and biases of the model."""
    rng = np.random.default_rng(seed)
    shapes = {"w0": (128, 784), "b0": (128,), "w1": (10, 128), "b1": (10,)}
    return {k: (rng.standard_normal(s) * 0.05).astype("float32") for k, s in shapes.items()}


def run(mod, x):
    """The model's answer."""
    vm = burnish.VirtualMachine(burnish.build(mod, target="llvm"))
    return vm["main"](x).numpy()


def main():
    params = random_params()
    x = np.random.default_rng(1).random((1, 784), dtype="float32")
    hidden = np.maximum(x @ params["w0"].T + params["b0"], 0)
    expected = hidden @ params["w1"].T + params["b1"]

    mod = create_model(params)
    print(mod.script())
    merge = transform.Sequential([transform.FusePrimFuncs(), transform.DeadCodeElimination()])
    for pass_ in (fuse_matmul_add, LowerPass(OP_MAP), merge):
        mod = pass_(mod)
        print(f"# after {pass_}")
        print(mod.script())
        np.testing.assert_allclose(run(mod, x), expected, rtol=1e-4, atol=1e-5)

    # The same as one sequence.
    passes = transform.Sequential([fuse_matmul_add, LowerPass(OP_MAP), merge])
    fused = passes(create_model(params))
    print(f"{passes}: {', '.join(fused.functions)}")
    error = np.abs(run(fused, x) - expected).max()
    print(f"Largest error: {error:.1e}")


if __name__ == "__main__":
    main()
