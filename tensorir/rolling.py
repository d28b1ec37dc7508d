"""The mark of a block whose buffer is circular, shared by the primitive that sets it and lowering.

A block with the annotation ``rolling_buffer`` skips, under a predicate ``first iteration or new
element``, what earlier iterations of a loop have left in its buffer. So the buffer must live around
that loop: it may neither be given anew to each iteration nor be indexed relative to one.
"""

ROLLING = "rolling_buffer"
