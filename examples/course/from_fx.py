"""From a traced PyTorch module to a program, node by node, with an importer of fifty lines.

``torch.fx`` gives the nodes in order. Each kind of node has a function that emits what it computes:
a tensor expression becomes a tensor program and a call of it. Weights become constants.

    python examples/course/from_fx.py
"""

from __future__ import annotations

import numpy as np
import torch
from torch import fx, nn

import burnish
from burnish import graph, te, topi, transform


class MyModel(nn.Module):
    """One product with a weight, written with functions."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(128, 64))

    def forward(self, x):
        return torch.relu(torch.matmul(x, self.weight))


class MLP(nn.Module):
    """Two linear layers, written with modules."""

    def __init__(self):
        super().__init__()
        self.linear0 = nn.Linear(784, 128)
        self.relu = nn.ReLU()
        self.linear1 = nn.Linear(128, 10)

    def forward(self, x):
        return self.linear1(self.relu(self.linear0(x)))


def te_matmul(a, b):
    k = te.reduce_axis((0, a.shape[1]), name="k")
    return te.compute(
        (a.shape[0], b.shape[1]), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="matmul"
    )


def te_relu(a):
    return te.compute(a.shape, lambda *i: te.max(a[i], te.const(0, a.dtype)), name="relu")


def map_param(param):
    """A parameter's values, as a constant."""
    return graph.const(param.detach().numpy())


def fetch_attr(fx_mod, target):
    """The attribute at a dotted path."""
    found = fx_mod
    for name in target.split("."):
        found = getattr(found, name)
    return found


def from_fx(fx_mod, input_shapes, call_function_map, call_module_map):
    """An IRModule from a traced module; the maps say how each function and module is emitted."""
    shapes = iter(input_shapes)
    node_map = {}
    named_modules = dict(fx_mod.named_modules())
    bb = burnish.BlockBuilder()
    inputs = []
    with bb.function("main"):
        with bb.dataflow():
            for node in fx_mod.graph.nodes:
                match node.op:
                    case "placeholder":
                        inputs.append(graph.Var(node.target, graph.tensor_type(next(shapes))))
                        node_map[node] = inputs[-1]
                    case "get_attr":
                        node_map[node] = map_param(fetch_attr(fx_mod, node.target))
                    case "call_function":
                        node_map[node] = call_function_map[node.target](bb, node_map, node)
                    case "call_module":
                        nn_mod = named_modules[node.target]
                        emit = call_module_map[type(nn_mod)]
                        node_map[node] = emit(bb, node_map, node, nn_mod)
                    case "output":
                        output = bb.emit_output(node_map[node.args[0]])
        bb.emit_func_output(output, inputs)
    return bb.get()


def map_matmul(bb, node_map, node):
    return bb.emit_te(te_matmul, node_map[node.args[0]], node_map[node.args[1]])


def map_relu(bb, node_map, node):
    return bb.emit_te(te_relu, node_map[node.args[0]])


def map_nn_linear(bb, node_map, node, nn_mod):
    x, w, b = node_map[node.args[0]], map_param(nn_mod.weight), map_param(nn_mod.bias)
    return bb.emit_te(topi.linear, x, w, b)


def map_nn_relu(bb, node_map, node, nn_mod):
    return map_relu(bb, node_map, node)


CALL_FUNCTION_MAP = {torch.matmul: map_matmul, torch.relu: map_relu}
CALL_MODULE_MAP = {nn.Linear: map_nn_linear, nn.ReLU: map_nn_relu}


def translate(model, input_shapes):
    """The program of a PyTorch module."""
    return from_fx(
        fx.symbolic_trace(model),
        input_shapes=input_shapes,
        call_function_map=CALL_FUNCTION_MAP,
        call_module_map=CALL_MODULE_MAP,
    )


def optimize(mod):
    """Kernels that follow each other merged where that is possible, and all of them scheduled."""
    passes = [
        transform.AnnotatePattern(),
        transform.FuseOps(),
        transform.FusePrimFuncs(),
        transform.DeadCodeElimination(),
        transform.DefaultSchedule(),
    ]
    return transform.Sequential(passes)(mod)


def largest_error(mod, model, x):
    """How far the program's answer is from the model's."""
    vm = burnish.VirtualMachine(burnish.build(mod, target="llvm"))
    with torch.no_grad():
        expected = model(torch.from_numpy(x)).numpy()
    return float(np.abs(vm["main"](x).numpy() - expected).max())


def main():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    for model, width in ((MyModel(), 128), (MLP(), 784)):
        print(fx.symbolic_trace(model).graph)
        mod = translate(model, [(te.var("n"), width)])  # any number of rows
        print(mod.script())
        optimized = optimize(mod)
        print("Optimized:", ", ".join(optimized.functions))
        for rows in (1, 3):
            x = rng.random((rows, width), dtype="float32")
            errors = largest_error(mod, model, x), largest_error(optimized, model, x)
            print(f"{type(model).__name__} of {rows}: largest error {max(errors):.1e}")


if __name__ == "__main__":
    main()
