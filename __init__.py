"""burnish: a graph-level model compiler for the CPU.

The public face is the table below. ``import burnish`` imports nothing of it: a name is resolved
when it is first asked for, so that running a program does not pay for compiling one.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

__version__ = "0.1.0"

if _TYPE_CHECKING:  # what type checkers and editors read; the table below is what runs
    from . import auto_scheduler as auto_scheduler
    from . import autotvm as autotvm
    from . import graph as graph
    from . import patterns as patterns
    from . import script as script
    from . import te as te
    from .driver import transform as transform
    from .driver.build import build as build
    from .driver.compile import compile as compile
    from .driver.load import load as load
    from .driver.lower import lower as lower
    from .driver.schedule import Schedule as Schedule
    from .driver.tasks import compile_tir as compile_tir
    from .driver.tasks import tune_tir as tune_tir
    from .frontend.onnx.custom_ops import register_onnx_op as register_onnx_op
    from .frontend.torch.custom_ops import register_torch_op as register_torch_op
    from .graphir.builder import BlockBuilder as BlockBuilder
    from .graphir.module import IRModule as IRModule
    from .graphir.mutator import ExprMutator as ExprMutator
    from .graphir.text.parser import parse_module as parse
    from .graphir.visitor import ExprVisitor as ExprVisitor
    from .support import errors as errors
    from .support.module_pass import module_pass as module_pass
    from .support.structural import assert_structural_equal as assert_structural_equal
    from .support.target import Target as Target
    from .tensorir import operators as topi
    from .tensorir.schedule import BlockHandle as BlockHandle
    from .tensorir.schedule import Instruction as Instruction
    from .tensorir.schedule import LoopHandle as LoopHandle
    from .tensorir.schedule import TensorIntrin as TensorIntrin
    from .tensorir.schedule import Trace as Trace
    from .vm.interpreter import VirtualMachine as VirtualMachine
    from .vm.registry import register_func as register_func
    from .vm.tensor import Tensor as Tensor
    from .vm.tensor import array as array
    from .vm.tensor import empty as empty

_PUBLIC = {
    # compile and run
    "compile": "driver.compile",
    "quantize": "driver.quantize",
    "load": "driver.load",
    "build": "driver.build",
    "lower": "driver.lower",
    "VirtualMachine": "vm.interpreter",
    "register_func": "vm.registry",
    "register_torch_op": "frontend.torch.custom_ops",
    "register_onnx_op": "frontend.onnx.custom_ops",
    "Tensor": "vm.tensor",
    "array": "vm.tensor",
    "empty": "vm.tensor",
    "Target": "support.target",
    # programs
    "parse": "graphir.text.parser:parse_module",
    "IRModule": "graphir.module",
    "BlockBuilder": "graphir.builder",
    "ExprMutator": "graphir.mutator",
    "ExprVisitor": "graphir.visitor",
    "module_pass": "support.module_pass",
    "assert_structural_equal": "support.structural",
    # schedules and tuning
    "Schedule": "driver.schedule",
    "TensorIntrin": "tensorir.schedule",
    "Trace": "tensorir.schedule",
    "Instruction": "tensorir.schedule",
    "BlockHandle": "tensorir.schedule",
    "LoopHandle": "tensorir.schedule",
    "tune_tir": "driver.tasks",
    "compile_tir": "driver.tasks",
    # modules
    "errors": "support.errors:",
    "transform": "driver.transform:",
    "auto_scheduler": "auto_scheduler:",
    "autotvm": "autotvm:",
    "graph": "graph:",
    "patterns": "patterns:",
    "script": "script:",
    "te": "te:",
    "topi": "tensorir.operators:",
}
"""Public name to ``module`` (which has it under that name), ``module:attribute``, or ``module:``
for a module itself."""

_ELSEWHERE = {
    "BurnishError": "burnish.errors.BurnishError",
    "Call": "burnish.graph.Call",
    "DataType": 'a string, such as "float32"',
    "DataflowBlock": "burnish.graph.BindingBlock, with is_dataflow",
    "ExternFunc": 'R.call_dps_packed("name", args, out_type)',
    "Function": "burnish.graph.Function",
    "GlobalVar": "burnish.graph.GlobalVar",
    "IRBuilder": "text: @I.ir_module and burnish.parse",
    "IndexMap": "a function of the indices, lambda i, j: (j, i)",
    "NDArray": "burnish.Tensor",
    "PyExprMutator": "burnish.ExprMutator",
    "PyExprVisitor": "burnish.ExprVisitor",
    "SeqExpr": "burnish.graph.SeqExpr",
    "ShapeExpr": "burnish.graph.ShapeExpr",
    "TVMError": "burnish.errors.BurnishError",
    "TensorStructInfo": "burnish.graph.tensor_type",
    "Tuple": "burnish.graph.Tuple",
    "Var": "burnish.graph.Var, and burnish.te.var for sizes",
    "analysis": "burnish.graph.verify_module and burnish.transform",
    "arith": "nothing: expressions are simplified where they are compiled",
    "const": "burnish.te.const in loops and burnish.graph.const in graphs",
    "contrib": "nothing; what is registered is called by name",
    "convert": "nothing: Python's numbers and lists are taken as they are",
    "cpu": "nothing: burnish runs on the CPU",
    "cuda": "nothing: burnish compiles for CPUs alone",
    "device": "nothing: burnish runs on the CPU",
    "dlight": "burnish.transform.DefaultSchedule",
    "dpl": "burnish.patterns",
    "error": "burnish.errors",
    "exec_builder": "burnish.build",
    "expr_functor": "burnish.ExprMutator and burnish.ExprVisitor, without a decorator",
    "from_exported_program": "burnish.compile(exported_program)",
    "from_fx": "burnish.compile(module, (x,))",
    "from_onnx": "burnish.compile(model or path)",
    "get_default_pipeline": "burnish.build, which runs all passes",
    "get_global_func": "the function that register_func was given",
    "get_pipeline": "burnish.build, which runs all passes",
    "gpu": "nothing: burnish compiles for CPUs alone",
    "instrument": "PrintAfter, TimePasses and VerifyEach of burnish.transform",
    "ir": "burnish.IRModule, burnish.transform and burnish.assert_structural_equal",
    "load_module": "burnish.load for models, burnish.build(..., objects=) for code of others",
    "max_value": "burnish.te.max_value",
    "meta_schedule": "burnish.tune_tir, and model.tune for whole models",
    "min_value": "burnish.te.min_value",
    "ms": "burnish.tune_tir, and model.tune for whole models",
    "mutator": "burnish.ExprMutator, without a decorator",
    "nd": "burnish.array, burnish.empty, burnish.Tensor; arrays of others are taken as they are",
    "nn": "torch.nn, and burnish.compile",
    "op": 'burnish.graph.op("add", x, y)',
    "parser": "burnish.parse",
    "register_global_func": "burnish.register_func",
    "relax": "burnish.graph, burnish.BlockBuilder and R of burnish.script",
    "relay": "burnish.compile, which imports models",
    "rpc": "the command burnish worker, which measures on other machines",
    "runtime": "burnish.array and burnish.VirtualMachine",
    "s_tir": "burnish.Schedule, burnish.TensorIntrin and T of burnish.script",
    "struct_info": "burnish.graph.type_of and burnish.graph.tensor_type",
    "structural_equal": "burnish.assert_structural_equal",
    "target": "burnish.Target",
    "tensor": "burnish.array",
    "testing": "numpy.testing",
    "tir": "burnish.Schedule, burnish.TensorIntrin, T of burnish.script, and burnish.te.var",
    "tirx": "burnish.Schedule, burnish.TensorIntrin and T of burnish.script",
    "tvm": "burnish; docs/from_tvm.md has the names",
    "visitor": "burnish.ExprVisitor, without a decorator",
}
"""Names of other compilers, and what does it here."""

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    place = _PUBLIC.get(name)
    if place is None:
        known = _ELSEWHERE.get(name)
        if not known and not name.startswith("_"):
            close = _import_module(".support.errors", __name__).nearest(name, _PUBLIC)
            if close:
                raise AttributeError(f"module 'burnish' has no attribute {name!r}.{close}")
        other_names = _import_module(".support.other_names", __name__)
        raise other_names.not_in_module(__name__, name, known)
    path, colon, attribute = place.partition(":")
    module = _import_module(f".{path}", __name__)
    value = module if colon and not attribute else getattr(module, attribute or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
