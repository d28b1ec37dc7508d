"""Schedules of PrimFuncs: primitives that rewrite them, and traces that record what was done."""

from .packing import pack_array, packed_shape, unpack_array
from .schedule import Schedule
from .state import FunctionTable, ModuleLike
from .tensor_intrin import TensorIntrin
from .trace.handles import BlockHandle, BlockRV, LoopHandle, LoopRV
from .trace.trace import Instruction, Trace
from .trace.values import index_map_text, parse_index_map

__all__ = [
    "BlockHandle",
    "BlockRV",
    "FunctionTable",
    "Instruction",
    "LoopHandle",
    "LoopRV",
    "ModuleLike",
    "Schedule",
    "TensorIntrin",
    "Trace",
    "index_map_text",
    "pack_array",
    "packed_shape",
    "parse_index_map",
    "unpack_array",
]
