"""CompileReport: what a compilation did, stage by stage. ``print(model.report)`` shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class CompileReport:
    """Counts and times of one compilation.

    ``stages`` maps stage names to seconds; ``kernels`` names the kernels in call order;
    ``compilations`` counts object files emitted (identical kernels are emitted once); ``copies``
    counts input or output copies that a call makes for layout reasons; ``segments`` counts native
    functions that join kernels.
    """

    stages: dict[str, float] = field(default_factory=dict)
    kernels: list[str] = field(default_factory=list)
    compilations: int = 0
    copies: int = 0
    segments: int = 0
    workspace_bytes: int | None = None
    """Workspace of one call in bytes; None where it depends on symbolic dims."""
    constant_bytes: int = 0

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
        lines = [f"compiled in {self.seconds:.3f} s: {len(self.kernels)} kernels, {self.segments} segments"]
        lines += [f"  {name:14} {seconds * 1e3:8.1f} ms" for name, seconds in self.stages.items()]
        lines.append("  kernels: " + ", ".join(self.kernels))
        size = "depends on the dims" if self.workspace_bytes is None else f"{self.workspace_bytes} bytes"
        lines.append(f"  constants {self.constant_bytes} bytes, workspace {size}")
        return "\n".join(lines)
