"""Whether this machine can run what was compiled for a target: known before native code is called,
because a missing instruction kills the process.

CPU names outside of the table, which come with sizes of their own, are taken on trust.
"""

from __future__ import annotations

from ..support.errors import TargetError
from ..support.target import Target
from ..tensorir.codegen.host import native_target

_V2 = ("sse4.2", "ssse3", "popcnt")
_V3 = (*_V2, "avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")
_ICELAKE = (*_V4, "avx512vnni", "avx512vbmi", "avx512vbmi2", "avx512ifma", "gfni", "vaes")
CPU_FEATURES: dict[str, tuple[str, ...]] = {
    "x86-64": (),
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "skylake-avx512": _V4,
    "cascadelake": (*_V4, "avx512vnni"),
    "icelake-server": _ICELAKE,
    "sapphirerapids": (*_ICELAKE, "avx512bf16", "avx512fp16", "amx-tile"),
    "znver3": (*_V3, "vaes", "vpclmulqdq"),
    "znver4": (*_ICELAKE, "avx512bf16"),
    "znver5": (*_ICELAKE, "avx512bf16", "avxvnni"),
}
"""The features of a CPU that compiled code may use and an older one may lack, by LLVM's names."""


def check_runnable(target: Target, host: Target | None = None) -> None:
    """Raise TargetError unless ``host`` (this machine) has what ``target`` asks for."""
    host = host or native_target()
    if target.triple.split("-")[0] != host.triple.split("-")[0]:
        raise TargetError(
            f"The program was compiled for {target.triple}; this machine is {host.triple}."
        )
    implied = CPU_FEATURES.get(target.cpu, ()) if target.cpu != host.cpu else ()
    asked = (*implied, *[f[1:] for f in target.features if f[0] == "+"])
    missing = [f for f in dict.fromkeys(asked) if f"+{f}" not in host.features]
    if missing:
        raise TargetError(
            f"The program was compiled for {target.cpu}, and this machine ({host.cpu}) lacks "
            f"{', '.join(missing)}. Compile it with target='native'."
        )
