"""What was done to a program, as data: handles, instructions, and their text and JSON."""

from .handles import BlockHandle, BlockRV, LoopHandle, LoopRV
from .trace import Instruction, Trace

__all__ = ["BlockHandle", "BlockRV", "Instruction", "LoopHandle", "LoopRV", "Trace"]
