"""What a model is: a dataflow graph of operators and destination-passing calls. Never knows torch.

Importing it fills the operator table (``ops``).
"""

from . import ops

__all__ = ["ops"]
