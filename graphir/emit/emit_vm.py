"""emit_vm: a module after fusion and scheduling becomes a program of the virtual machine.

    main(x) = linear0; relu0; env.f; linear1          match_shape(x)
                                               -->    t = tensor_at(arena, 0, ...)
                                                      kernel:main_segment0(x, w0, t)
                                                      env.f(t, u);  kernel:linear1(u, w1, y);
                                                      ret(y)

Runs of kernel calls become *segments* (``plan_segments``); ``emit_program`` returns their plans,
and the driver has them emitted. Values that cross a segment's border live in one arena a call, laid
out by ``plan_memory``; what a function returns is allocated on its own. A returned parameter or
constant is copied, and so is a value that is returned twice: results are always fresh memory, and
share none with each other.

A function that ends in an If, one branch of which ends in a call of that function, is a loop: that
call sets the parameters and begins anew.

The program has names only: no object code, which the driver adds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...support.errors import CodegenError
from ...tensorir.expr import Expr
from ...tensorir.expr import Var as DimVar
from ...tensorir.visitor import free_vars
from ...vm.assembler import Assembler, FunctionBuilder
from ...vm.program import Arg, Param, Program, Reg, ResultSpec, TensorSpec
from ..analysis import bound_dims
from ..dim import is_nonnegative, print_dim, shape_equal
from ..expr import Function, ShapeExpr
from ..module import IRModule
from ..passes.plan_memory import Lifetime, plan_memory
from ..type import ShapeType, TensorType, TupleType, Type, dims_of, substitute_type
from .computed_sizes import computed_sizes, unfused_sizes
from .linearize import (
    BindOp,
    CheckOp,
    EnvOp,
    FunctionOp,
    IfOp,
    KernelInfo,
    KernelOp,
    Linear,
    Memory,
    Op,
    Tree,
    View,
    leaves,
    linearize,
    read,
    written,
)
from .plan_segments import SegmentPlan, plan_segment, rename_dims, size_of, spec_of


def emit_program(
    module: IRModule,
    kernels: Mapping[str, KernelInfo],
    *,
    segments: bool = True,
    unfused: IRModule | None = None,
) -> tuple[Program, list[SegmentPlan]]:
    """The program of a module, and the segments its kernels need beside their own object code.

    ``kernels`` describes the compiled PrimFuncs by name; all of them become kernels of the program.
    ``unfused`` is the module before fusion, whose sizes are checked too.
    Without ``segments`` each kernel is called by the interpreter, for profiling and for comparison.
    Raises CodegenError for what is not legalised and UnknownFunctionError for a missing kernel.
    """
    asm = Assembler()
    plans: list[SegmentPlan] = []
    for info in kernels.values():
        asm.add_kernel(info.kernel)
    for name, func in module.graph_functions.items():
        dims, computed = _dims(name, func)
        rename = rename_dims(dims)
        # Where every dim keeps its name there is nothing to replace.
        changed = {old: new for old, new in rename.items() if old is not new}
        linear = linearize(module, func, kernels, changed)
        params = [Param(p.name, spec_of(_tensor(p.type, changed))) for p in func.params]
        names = [v.name for v in rename.values()]
        with asm.function(name, params, _result(func.ret_type, changed), names) as builder:
            late = {rename[v] for v in computed}
            emitter = _Emitter(asm, builder, list(rename.values()), late, segments)
            if unfused is not None and isinstance(before := unfused.functions.get(name), Function):
                emitter.add_unfused(unfused_sizes(before.body, linear, changed))
            emitter.body(linear)
            plans += emitter.plans
    return asm.finish(), plans


def _dims(name: str, func: Function) -> tuple[list[DimVar], list[DimVar]]:
    """The symbolic dims of the parameters, in order of appearance, with those behind them that the
    function computes; and the latter alone."""
    dims = free_vars([d for p in func.params for d in dims_of(p.type)])
    computed = bound_dims(func)
    dims += computed
    stray = [v.name for v in free_vars(dims_of(func.ret_type)) if v not in dims]
    if stray:
        raise CodegenError(
            f"{name}: the dimension {', '.join(stray)} of the result is a dimension of no "
            "parameter."
        )
    return dims, computed


def _tensor(kind: Type, rename: Mapping[DimVar, DimVar]) -> TensorType:
    result = substitute_type(kind, rename)
    assert isinstance(result, TensorType)
    return result


def _result(kind: Type, rename: Mapping[DimVar, DimVar]) -> ResultSpec:
    match kind:
        case TensorType():
            return spec_of(_tensor(kind, rename))
        case TupleType(fields):
            return tuple([_result(f, rename) for f in fields])
        case ShapeType(values):
            return TensorSpec((str(len(values)),), "int64")


Group = tuple[Op, ...]
"""A run of kernel calls, or a single operation of another kind."""


class _Emitter:
    """Emits one function."""

    def __init__(
        self,
        asm: Assembler,
        builder: FunctionBuilder,
        dims: Sequence[DimVar],
        computed: set[DimVar],
        segments: bool,
    ) -> None:
        self.asm, self.f, self.dims, self.segments = asm, builder, dims, segments
        self.computed = computed
        """Dims without a value at entry: what has them in its size is allocated when it is made."""
        self.bound: set[DimVar] = set()
        """Those that have one by now."""
        self.unfused: dict[Linear, list[Expr]] = {}
        """The sizes that a function or branch had before fusion."""
        self.negative: dict[str, bool] = {}
        """Whether a size, by its text, may be negative."""
        self.checked: set[str] = set()
        self.unchecked: dict[str, Expr] = {}
        """Sizes that may be negative, of dims that have no value yet, by their texts."""
        self.registers: dict[Memory, Arg] = {}
        self.returned: set[Memory] = set()
        self.start = builder.label("start")
        self.plans: list[SegmentPlan] = []

    def add_unfused(self, sizes: Iterable[tuple[Linear, Expr]]) -> None:
        """Those of dims that the function has no more are left out."""
        known = set(self.dims)
        for linear, size in sizes:
            if known.issuperset(free_vars([size])):
                self.unfused.setdefault(linear, []).append(size)

    def body(self, linear: Linear) -> None:
        """The whole function: entry check, arena, calls, fresh results."""
        self.f.place(self.start)
        self.f.match_shape()
        self.check_sizes(linear)
        groups = list(self.groups(linear.ops))
        returned = {v.memory for v in leaves(linear.result)}
        outside = [self.outside(groups, i, returned) for i in range(len(groups))]
        self.arena(groups, returned, outside)
        last = linear.ops[-1] if linear.ops else None
        if isinstance(last, IfOp) and last.result is linear.result and self.loops(last):
            self.run(groups[:-1], outside[:-1])
            self.conditional(last, repeats=True)
        else:
            self.run(groups, outside)
        self.f.ret(self.fresh(linear.result))

    def branch(self, linear: Linear) -> Tree:
        """The calls of a branch; its values are allocated one by one."""
        groups = list(self.groups(linear.ops))
        returned = {v.memory for v in leaves(linear.result)}
        self.check_sizes(linear, in_branch=True)
        self.run(groups, [self.outside(groups, i, returned) for i in range(len(groups))])
        return linear.result

    # -- sizes
    # --------------------------------------------------------------------------------------
    def check_sizes(self, linear: Linear, *, in_branch: bool = False) -> None:
        """Refuse, before anything is written, values of dims for which a computed size is negative:
        a kernel would write beside its buffers. Those of dims that are bound on the way are checked
        behind that."""
        sizes = [*computed_sizes(linear), *self.unfused.get(linear, ())]
        for text, dim in {print_dim(d): d for d in sizes}.items():
            if text in self.checked or not self.may_be_negative(text, dim):
                continue
            if not self.bound.issuperset(self.computed.intersection(free_vars([dim]))):
                self.unchecked[text] = dim
                continue
            if not in_branch:
                self.checked.add(text)
            self.check_size(text)

    def may_be_negative(self, text: str, dim: Expr) -> bool:
        """Proved once of each text."""
        if text not in self.negative:
            self.negative[text] = not is_nonnegative(dim)
        return self.negative[text]

    def check_size(self, text: str) -> None:
        self.f.check(f"{text} >= 0", f"the model computes a tensor of the size {text}")

    # -- memory
    # -------------------------------------------------------------------------------------
    def groups(self, ops: Iterable[Op]) -> Iterator[Group]:
        """Maximal runs of kernel calls, and everything else alone."""
        run: list[Op] = []
        for op in ops:
            if isinstance(op, KernelOp) and self.segments:
                run.append(op)
                continue
            if run:
                yield tuple(run)
                run = []
            yield (op,)
        if run:
            yield tuple(run)

    def outside(
        self, groups: Sequence[Group], index: int, returned: set[Memory]
    ) -> frozenset[Memory]:
        """The memories a group writes that something after it reads; all of a single call's."""
        mine = {m for op in groups[index] for m in written(op)}
        if len(groups[index]) == 1:
            return frozenset(mine)
        later = {m for g in groups[index + 1 :] for op in g for m in read(op)}
        return frozenset(mine & (later | returned))

    def arena(
        self,
        groups: Sequence[Group],
        returned: set[Memory],
        outside: Sequence[frozenset[Memory]],
    ) -> None:
        """Give each value that crosses groups, and is not returned, its place in one storage."""
        first = {
            m: i
            for i, group in enumerate(groups)
            for op in group
            for m in written(op)
            if m.kind == "call" and m in outside[i] and m not in returned
            if not self.computed.intersection(free_vars(m.type.shape))
        }
        last = dict(first)
        for i, group in enumerate(groups):
            for op in group:
                last.update({m: i for m in read(op) if m in first})
        if not first:
            return
        values = [Lifetime(size_of(m.type), begin, last[m]) for m, begin in first.items()]
        plan = plan_memory(values)
        storage = self.f.alloc_storage(print_dim(plan.total))
        for memory, offset in zip(first, plan.offsets, strict=True):
            spec = spec_of(memory.type)
            at = self.f.tensor_at(storage, print_dim(offset), spec.shape, spec.dtype)
            self.registers[memory] = at

    def register(self, memory: Memory) -> Arg:
        """Where a memory is: allocated now, if it is not yet anywhere."""
        known = self.registers.get(memory)
        if known is not None:
            return known
        if memory.kind == "param":
            made: Arg = self.f.param(memory.index)
        elif memory.constant is not None:
            made = self.asm.constant(memory.constant, str(memory.type.dtype))
        else:
            spec = spec_of(memory.type)
            made = self.f.alloc_tensor(spec.shape, spec.dtype)
        self.registers[memory] = made
        return made

    def operand(self, tree: Tree) -> Arg:
        """A value in a register, tensors under the shape they are seen with."""
        if isinstance(tree, tuple):
            return self.f.make_tuple([self.operand(field) for field in tree])
        if isinstance(tree, ShapeExpr):
            return self.f.make_shape([print_dim(d) for d in tree.values])
        held = self.register(tree.memory)
        if shape_equal(tree.type.shape, tree.memory.type.shape):
            return held
        # Not kept: a view made in one branch does not exist in the other.
        return self.f.reshape(held, [print_dim(d) for d in tree.type.shape])

    def fresh(self, tree: Tree) -> Arg:
        """A value to return: parameters and constants are copied, and what is returned already."""
        if isinstance(tree, tuple):
            return self.f.make_tuple([self.fresh(field) for field in tree])
        if isinstance(tree, View):
            if tree.memory.kind in ("param", "constant") or tree.memory in self.returned:
                return self.copied(tree)
            self.returned.add(tree.memory)
        return self.operand(tree)

    def copied(self, view: View) -> Reg:
        spec = spec_of(view.type)
        copy = self.f.alloc_tensor(spec.shape, spec.dtype)
        self.f.copy(self.operand(view), copy)
        return copy

    # -- calls
    # --------------------------------------------------------------------------------------
    def run(self, groups: Sequence[Group], outside: Sequence[frozenset[Memory]]) -> None:
        for group, escaping in zip(groups, outside, strict=True):
            if len(group) > 1:
                self.segment([op for op in group if isinstance(op, KernelOp)], escaping)
            else:
                self.op(group[0])

    def segment(self, run: Sequence[KernelOp], escaping: frozenset[Memory]) -> None:
        name = f"{self.f.name}_segment{len(self.plans)}"
        while name in self.asm.program.kernels:
            name += "_"
        plan = plan_segment(name, run, escaping, self.dims)
        self.plans.append(plan)
        self.asm.add_kernel(plan.kernel)
        self.f.call_kernel(name, [self.register(m) for m in plan.args], plan.dim_names)

    def op(self, op: Op) -> None:
        match op:
            case KernelOp(info, args, outs, dims):
                # Kernels see pointers only: no view is made for them.
                operands = [self.register(v.memory) for v in (*args, *outs)]
                self.f.call_kernel(info.kernel.name, operands, [print_dim(d) for d in dims])
            case BindOp(dim, value, place, expected, sizes):
                number = self.f.read_scalar(self.operand(value))
                self.f.bind_dim(dim.name, number, place, expected, [print_dim(d) for d in sizes])
                self.bound.add(dim)
                for text, size in list(self.unchecked.items()):
                    if self.bound.issuperset(self.computed.intersection(free_vars([size]))):
                        del self.unchecked[text]
                        self.check_size(text)
            case CheckOp(one, other):
                text = f"{print_dim(one)} == {print_dim(other)}"
                self.f.check(text, "the model needs these sizes to be equal")
            case EnvOp(name, args, outs):
                self.f.call_env(name, [self.operand(a) for a in (*args, *outs)])
            case FunctionOp(name, args, result):
                self.unpack(self.f.call_function(name, [self.operand(a) for a in args]), result)
            case IfOp():
                self.conditional(op)

    def unpack(self, value: Reg, tree: Tree) -> None:
        """Name the tensors of a returned structure."""
        if isinstance(tree, View):
            self.registers[tree.memory] = value
        elif isinstance(tree, tuple):
            for index, field in enumerate(tree):
                self.unpack(self.f.tuple_get(value, index), field)

    def conditional(self, op: IfOp, *, repeats: bool = False) -> None:
        """Run a branch. With ``repeats`` this is the function's end: a branch that ends in a call
        of the function goes to its start."""
        results = list(leaves(op.result))
        for view in results:
            self.registers[view.memory] = self.f.register()
        otherwise, end = self.f.label("else"), self.f.label("end")
        self.f.branch(self.f.read_scalar(self.operand(op.condition)), otherwise)
        for branch, after in ((op.true_branch, otherwise), (op.false_branch, end)):
            call = self.repeated(branch) if repeats else None
            if call is not None:
                self.again(branch, call)
            else:
                self.settle(branch, results)
                if after is otherwise:
                    self.f.goto(end)
            self.f.place(after)

    def loops(self, op: IfOp) -> bool:
        return any(self.repeated(b) is not None for b in (op.true_branch, op.false_branch))

    def repeated(self, branch: Linear) -> FunctionOp | None:
        """The call of this very function that a branch ends in, whose result is the branch's."""
        last = branch.ops[-1] if branch.ops else None
        if not isinstance(last, FunctionOp) or last.name != self.f.name:
            return None
        return last if last.result is branch.result else None

    def again(self, branch: Linear, call: FunctionOp) -> None:
        """Emit a branch whose call becomes a jump to the start, the arguments in the registers of
        the parameters. What the branch did not make is copied where it may live in the arena."""
        outer = dict(self.registers)
        groups = list(self.groups(branch.ops[:-1]))
        self.check_sizes(branch, in_branch=True)
        read_last = set(read(call))
        self.run(groups, [self.outside(groups, i, read_last) for i in range(len(groups))])
        own = {m for op in branch.ops for m in written(op)}
        moves: list[tuple[Arg, Reg]] = []
        for index, arg in enumerate(call.args):
            assert isinstance(arg, View)
            in_arena = arg.memory.kind == "call" and arg.memory not in own
            source, target = self.copied(arg) if in_arena else self.operand(arg), Reg(index)
            if source == target:
                continue
            if isinstance(source, Reg) and source.index < len(self.f.params):
                # The value of a parameter, which may be set before this one is.
                held = self.f.register()
                self.f.move(source, held)
                source = held
            moves.append((source, target))
        for source, target in moves:
            self.f.move(source, target)
        self.f.goto(self.start)
        self.registers = outer

    def settle(self, linear: Linear, results: Sequence[View]) -> None:
        """Emit a branch and put its values into the result's registers.

        A value that the branch did not make is copied: it may live in the arena, or be a parameter.
        So is one that is a result already.
        """
        outer = dict(self.registers)
        value = self.branch(linear)
        own = {m for op in linear.ops for m in written(op)}
        for view, result in zip(leaves(value), results, strict=True):
            target = self.registers[result.memory]
            assert isinstance(target, Reg)
            source = self.operand(view) if view.memory in own else self.copied(view)
            own.discard(view.memory)
            self.f.move(source, target)
        self.registers = outer
