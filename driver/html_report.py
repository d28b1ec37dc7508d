"""A compiled model as one HTML page: its graph, and behind each kernel its program at every stage.

The page stands alone: no scripts, nothing from elsewhere. With a profile the boxes of the graph
have the colour of their time, and its table stands beside.
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from ..graphir.expr import Function
from ..support.errors import ArtifactError
from ..support.structural import structural_equal
from ..support.target import Target
from ..support.whole_file import written_whole
from ..tensorir.function import PrimFunc
from ..tensorir.schedule import Schedule
from ..tensorir.text.printer import print_func
from ..tuner.analytic import apply_rules
from .console import format_seconds
from .emit import kernel_texts
from .executable import Executable
from .graph_drawing import draw_graph, graph_nodes
from .kernel_facts import kernel_facts
from .model_profile import KernelTime, ModelProfile, shortened

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2330; --paper: #fcfcfa; --line: #9aa3b2; --box: #eef1f6;
  --faint: #667085; --hot: #f2682a; --edge: #ccd3de; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ee; --paper: #16181d; --line: #5d6675;
  --box: #252a33; --faint: #98a2b3; --hot: #d9541a; --edge: #3a4250; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  margin: 0 auto; padding: 2rem; max-width: 92rem; }
h1 { font-size: 1.5rem; margin: 0 0 .5rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .6rem; }
h3 { font: 600 1rem ui-monospace, monospace; margin: 0; display: inline; }
pre { font: 12.5px/1.45 ui-monospace, monospace; background: var(--box); padding: .8rem 1rem;
  border-radius: 6px; overflow: auto; max-height: 34rem; margin: .4rem 0 .8rem; }
table { border-collapse: collapse; } caption { text-align: left; color: var(--faint); }
th, td { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--edge); white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th { font-weight: 600; }
pre.report { white-space: pre-wrap; max-height: none; }
.columns { display: flex; gap: 2.5rem; align-items: flex-start; flex-wrap: wrap; }
.columns > :last-child { flex: 1 1 40rem; min-width: 0; }
.panel { max-height: 92vh; overflow: auto; position: sticky; top: 1rem; }
details { margin: .15rem 0 .15rem 1rem; } summary { cursor: pointer; }
details.kernel { border: 1px solid var(--edge); border-radius: 8px; padding: .6rem 1rem;
  margin: .6rem 0; }
details.kernel:has(:target) { border-color: var(--hot); }
.facts { color: var(--faint); margin-left: .8rem; }
.graph text { fill: var(--ink); font: 12px ui-monospace, monospace; }
.graph .type { fill: var(--faint); font-size: 11px; } .graph .share { text-anchor: end; }
.graph rect { fill: var(--box); stroke: var(--edge); }
.graph .input rect, .graph .output rect { fill: none; stroke-dasharray: 4 3; }
.graph rect.heat { fill: var(--hot); stroke: none; }
.graph .function rect:first-of-type { stroke: var(--line); stroke-width: 2; }
.graph a:hover rect { stroke: var(--hot); } .graph .line { fill: none; stroke: var(--line); }
"""
_FUSED, _SCHEDULED = "30-fused", "40-scheduled"


def write_report(
    executable: Executable, path: str | Path, profile: ModelProfile | None = None
) -> Path:
    """Write the page. Raises ArtifactError where the file cannot be written."""
    path = Path(path)
    page = report_page(executable, profile)
    try:
        with written_whole(path) as file:
            file.write(page.encode())
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror or error}.") from error
    return path


def report_page(executable: Executable, profile: ModelProfile | None = None) -> str:
    """The page as text. Its kernels are emitted once more, for their assembly."""
    module = executable.stages.get(_FUSED, executable.module)
    times = {r.name: r for r in profile.rows} if profile is not None else {}
    total = profile.total if profile is not None else 1.0
    graphs = [
        f"<h2>{escape(name)}</h2><div class=panel>{_graph(func, times, total)}</div>"
        for name, func in module.graph_functions.items()
    ]
    kernels = [_kernel(executable, name, times.get(name)) for name in executable.report.kernels]
    shown = f"<h2>Time</h2>{profile._repr_html_()}" if profile is not None else ""
    plural = "s" if len(kernels) != 1 else ""
    title = f"{len(kernels)} kernel{plural} for {executable.target.cpu}"
    title = f"{profile.name}: {title}" if profile is not None else title
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>burnish: {escape(title)}</title>
<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body>
<h1>{escape(title)}</h1>
<div class="columns"><div>{"".join(graphs)}</div>
<div>{shown}<h2>Kernels</h2>{"".join(kernels)}
<h2>Compilation</h2><pre class="report">{escape(str(executable.report))}</pre>
<p class="facts">{escape(str(executable.target))}</p></div></div>
</body></html>
"""


def _graph(func: Function, times: dict[str, KernelTime], total: float) -> str:
    heat = {r.name: r.seconds / r.calls / total for r in times.values() if r.calls}
    return draw_graph(graph_nodes(func), heat)


def _kernel(executable: Executable, name: str, time: KernelTime | None) -> str:
    """What there is to know of a kernel, folded up."""
    facts = {f.name: f for f in kernel_facts(executable, {}).values()}.get(name)
    said = [facts.rule] if facts is not None and facts.rule else []
    if facts is not None and facts.flop:
        said.append(f"{facts.flop / 1e6:.3g} MFLOP")
    if facts is not None and facts.moved:
        said.append(f"{facts.moved / 1e6:.3g} MB")
    if time is not None:
        plural = "s" if time.calls != 1 else ""
        said.append(f"{format_seconds(time.seconds)} in {time.calls} call{plural}")
        if time.sources:
            said.append(f"from {', '.join([shortened(s) for s in time.sources])}")
        if time.of_roofline is not None:
            said.append(f"{time.of_roofline:.0%} of the roofline")
    sections = "".join([_section(what, text) for what, text in _texts(executable, name) if text])
    return (
        f'<details class="kernel"><summary><h3>{escape(name)}</h3>'
        f'<span class="facts">{escape(", ".join(said))}</span></summary>'
        f'<div id="kernel-{escape(name)}">{sections}</div></details>'
    )


def _section(what: str, text: str) -> str:
    return f"<details><summary>{escape(what)}</summary><pre>{escape(text)}</pre></details>"


def _texts(executable: Executable, name: str) -> list[tuple[str, str]]:
    """(what it is, text) of a kernel at every stage."""
    before = _function(executable, _FUSED, name)
    after = _function(executable, _SCHEDULED, name)
    last = executable.module.prim_funcs[name]
    schedule = executable.report.schedules.get(name)
    texts = kernel_texts(last, executable.program.kernels[name].symbol, executable.target)
    return [
        ("its schedule's choice", str(schedule) if schedule is not None else ""),
        ("program, fused", print_func(before) if before is not None else ""),
        ("trace of its schedule", _trace(before, after, executable.target)),
        ("program, scheduled", print_func(after) if after is not None else ""),
        ("loops", texts["loops"]),
        ("LLVM IR", texts["LLVM IR"]),
        ("assembly", texts["assembly"]),
    ]


def _function(executable: Executable, stage: str, name: str) -> PrimFunc | None:
    module = executable.stages.get(stage)
    return module.prim_funcs.get(name) if module is not None else None


def _trace(before: PrimFunc | None, after: PrimFunc | None, target: Target) -> str:
    """The analytic schedule's trace, where that is the one that the kernel has."""
    if before is None or after is None or before.attr("is_scheduled"):
        return ""
    sch = Schedule(before, seed=0)
    apply_rules(sch, target)
    return str(sch.trace) if structural_equal(sch.func, after) else ""
