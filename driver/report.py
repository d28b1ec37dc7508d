"""CompileReport: what a compilation did, stage by stage. ``print(model.report)`` shows it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..support.errors import NotCompiledError
from ..support.keywords import hinted
from .code_cache import CacheUse

if TYPE_CHECKING:
    from ..tuner.schedule_log import KernelSchedule
    from .emit import EmitTimes
    from .executable import Executable
    from .model_profile import ModelProfile


@hinted
@dataclass
class CompileReport:
    """Counts and times of one compilation.

    ``stages`` maps stage names to seconds; ``kernels`` names the kernels that the graph functions
    call, in order of their first call; ``calls`` counts those calls, ``distinct`` the kernels that
    differ in more than names. ``compilations`` counts object files emitted (what an earlier
    compilation of the process emitted is not emitted again); ``copies`` counts the tensors a call
    copies because it returns an input or a constant; ``segments`` counts native functions that join
    kernels.
    """

    stages: dict[str, float] = field(default_factory=dict)
    """Wall time. What workers emit beside this process counts where it is waited for."""
    frontend: dict[str, float] = field(default_factory=dict)
    """Seconds before the first stage: those of torch.export, which are not ours, and of the import
    of what it gives."""
    llvm_seconds: float = 0.0
    """What LLVM itself took of stage 60 in this process."""
    worker_seconds: float = 0.0
    """Processor seconds of build workers."""
    kernels: list[str] = field(default_factory=list)
    calls: int = 0
    distinct: int = 0
    compilations: int = 0
    copies: int = 0
    segments: int = 0
    workspace_bytes: int | None = None
    """Scratch memory of one call in bytes; None where it depends on symbolic dims."""
    constant_bytes: int = 0
    schedules: dict[str, KernelSchedule] = field(default_factory=dict)
    """Of each kernel that was scheduled: which rule did it, and which refused it before and why."""
    notes: list[str] = field(default_factory=list)
    """What the front end found worth saying, and kernels that may be slow; a sentence each."""

    compiled: Callable[[], Executable | None] | None = field(
        default=None, repr=False, compare=False
    )
    """Gives what was compiled, as long as somebody has it."""
    cache: CacheUse = field(default_factory=CacheUse)
    """What of the code came from the cache on disk, and why the rest did not."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time spent inside to a stage."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages[name] = self.stages.get(name, 0.0) + time.perf_counter() - start

    def add_emission(self, times: EmitTimes, *, in_worker: bool = False) -> None:
        """Add the time of one emission."""
        if in_worker:
            self.worker_seconds += times.total
            return
        for name, seconds in (("50-lowered", times.lowering), ("60-llvm", times.emission)):
            self.stages[name] = self.stages.get(name, 0.0) + seconds
        self.llvm_seconds += times.llvm

    def add_schedule(self, schedule: KernelSchedule) -> None:
        """Add how a kernel got its schedule, with a note where that seems far from the machine."""
        self.schedules[schedule.kernel] = schedule
        if schedule.rule is None:
            why = "; ".join([f"{rule}: {reason}" for rule, reason in schedule.refusals])
            self.notes.append(
                f"the kernel {schedule.kernel!r} has no schedule: no rule fits it"
                f"{f' ({why})' if why else ''}."
            )
        elif schedule.is_far_off:
            self.notes.append(
                f"the kernel {schedule.kernel!r} may be slow: its schedule, of the rule "
                f"{schedule.rule!r}, is estimated to take {schedule.slowdown:.0f} times what its "
                "arithmetic and its bytes need; model.tune searches for a better one."
            )

    def _schedule_lines(self) -> list[str]:
        """Which kernels each rule scheduled, and a line for each that a rule refused, in whole or
        in part."""
        if not self.schedules:
            return []
        by_rule: dict[str, list[str]] = {}
        for s in self.schedules.values():
            by_rule.setdefault(s.origin, []).append(s.kernel)
        listed = [f"{rule} ({', '.join(kernels)})" for rule, kernels in by_rule.items()]
        lines = _wrapped(f"rules: {', '.join(listed)}")
        return lines + [f"    {s}" for s in self.schedules.values() if s.refusals or s.given_up]

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
        lines += [_line(name, seconds, "before that") for name, seconds in self.frontend.items()]
        lines += [_line(name, seconds, self._part(name)) for name, seconds in self.stages.items()]
        if self.worker_seconds:
            lines.append(_line("in workers", self.worker_seconds, "beside this process"))
        return "\n".join([*lines, *self.cache.lines(), self.facts])

    @property
    def facts(self) -> str:
        """What the report says besides times: the same for each compilation of a model."""
        kernels = len(self.kernels)
        lines = _wrapped(f"kernels: {', '.join(self.kernels) or 'none'}")
        lines += self._schedule_lines()
        if self.calls > kernels:
            lines.append(f"  {self.calls} calls of {kernels} kernels, {self.distinct} distinct")
        workspace = self.workspace_bytes
        size = "that depends on the dims" if workspace is None else f"of {workspace} bytes"
        lines.append(f"  constants of {self.constant_bytes} bytes, workspace {size}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)

    def to_html(self, path: str | Path, profile: ModelProfile | None = None) -> Path:
        """Write a page with the graph, and behind each kernel its program, trace, LLVM IR and
        assembly; with a ``profile``, where the time goes too. It needs nothing but a browser.

        Raises NotCompiledError where the model is gone, ArtifactError where the file cannot be
        written.
        """
        from .html_report import write_report

        compiled = self.compiled() if self.compiled is not None else None
        if compiled is None:
            raise NotCompiledError("The model of this report is gone; keep it until to_html().")
        return write_report(compiled, path, profile)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    def _part(self, stage: str) -> str:
        """What the name of a stage does not say."""
        if stage != "60-llvm" or not self.llvm_seconds:
            return ""
        return f"LLVM itself {self.llvm_seconds * 1e3:.1f} ms"


def _wrapped(text: str) -> list[str]:
    """A long list as lines. A rule and the first of its kernels stay on one."""
    kept = text.replace(" (", "\N{NO-BREAK SPACE}(")
    lines = textwrap.wrap(kept, 100, initial_indent="  ", subsequent_indent="    ")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _line(name: str, seconds: float, remark: str = "") -> str:
    return f"  {name:14} {seconds * 1e3:8.1f} ms" + (f"  ({remark})" if remark else "")
