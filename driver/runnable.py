"""Whether this machine can run what was compiled for a target: known before native code is called,
because a missing instruction kills the process.

CPU names outside of the table, which come with sizes of their own, are taken on trust.
"""

from __future__ import annotations

from ..support.errors import TargetError
from ..support.host import native_target
from ..support.instructions import EMULATED_TILES, implied_features
from ..support.target import Target


def check_runnable(target: Target, host: Target | None = None) -> None:
    """Raise TargetError unless ``host`` (this machine) has what ``target`` asks for."""
    host = host or native_target()
    if target.triple.split("-")[0] != host.triple.split("-")[0]:
        raise TargetError(
            f"The program was compiled for {target.triple}; this machine is {host.triple}."
        )
    is_other = target.is_x86 and target.cpu != host.cpu
    implied = implied_features(target.cpu) if is_other else ()
    asked = (*implied, *[f[1:] for f in target.features if f[0] == "+"])
    missing = [
        f for f in dict.fromkeys(asked) if f"+{f}" not in host.features and f != EMULATED_TILES
    ]
    if missing:
        raise TargetError(
            f"The program was compiled for {target.cpu}, and this machine ({host.cpu}) lacks "
            f"{', '.join(missing)}. Compile it with target='native'."
        )
