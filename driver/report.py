"""CompileReport: what a compilation did, stage by stage. ``print(model.report)`` shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class CompileReport:
    """Counts and times of one compilation.

    ``stages`` maps stage names to seconds; ``kernels`` names the kernels that the graph functions
    call, in order of their first call; ``compilations`` counts object files emitted (what an
    earlier compilation of the process emitted is not emitted again); ``copies`` counts the
    tensors a call copies because it returns an input or a constant; ``segments`` counts native
    functions that join kernels.
    """

    stages: dict[str, float] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    compilations: int = 0
    copies: int = 0
    segments: int = 0
    workspace_bytes: int | None = None
    """Scratch memory of one call in bytes; None where it depends on symbolic dims."""
    constant_bytes: int = 0
    notes: list[str] = field(default_factory=list)
    """What the front end found worth saying, a sentence each."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    @property
    def seconds(self) -> float:
        """Total of all stages."""
        return sum(self.stages.values())

    def __str__(self) -> str:
        kernels, segments = len(self.kernels), self.segments
        lines = [
            f"compiled in {self.seconds:.3f} s: {kernels} kernel{'s' if kernels != 1 else ''}, "
            f"{segments} segment{'s' if segments != 1 else ''}, "
            f"{self.compilations} object{'s' if self.compilations != 1 else ''} emitted"
        ]
        lines += [f"  {name:14} {seconds * 1e3:8.1f} ms" for name, seconds in self.stages.items()]
        lines.append(f"  kernels: {', '.join(self.kernels) or 'none'}")
        workspace = self.workspace_bytes
        size = "that depends on the dims" if workspace is None else f"of {workspace} bytes"
        lines.append(f"  constants of {self.constant_bytes} bytes, workspace {size}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
