"""Runs random schedules of one function in a process of their own, a line of JSON for each.

``python -m burnish.tests.fuzz.worker run NAME FIRST COUNT LIMIT`` writes ``{"begin": seed}`` before
a sequence and its report after it, so that whoever reads knows which one ended the process. A
watchdog ends the process after LIMIT seconds of the processor in one sequence, so that a busy
machine makes no difference. ``trace NAME SEED`` writes the trace of a sequence without checking it;
``check NAME VARIANT`` reads a trace in JSON and writes which law it breaks.
"""

from __future__ import annotations

import faulthandler
import json
import random
import signal
import sys
import time
from typing import Any

from burnish.support.errors import CodegenError
from burnish.tensorir.schedule import Trace
from burnish.tests.fuzz.check import Broken, broken_law, check_schedule, expected, times
from burnish.tests.fuzz.shrink import shrink
from burnish.tests.strategies.schedules import Crash, RandomSchedule

SHRINKING_LIMIT = 120.0
"""Seconds for the shrinking of one trace."""


ASLEEP = 20
"""How many times the limit a process may take by the clock on the wall; at least a minute."""

_watchdog = {"on": False}
"""Off where these functions are called by something else than this command."""


def watch(seconds: float) -> None:
    """End the process by SIGPROF, with a traceback, if this is not called again before it has used
    some seconds of the processor; or if it sleeps for ever."""
    if _watchdog["on"]:
        signal.setitimer(signal.ITIMER_PROF, seconds)
        faulthandler.dump_traceback_later(max(60.0, ASLEEP * seconds), exit=True)


def arm_watchdog() -> None:
    """Let ``watch`` end this process."""
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, chain=True)
    _watchdog["on"] = True


def random_run(name: str, seed: int) -> RandomSchedule:
    """The generator of a sequence: the same for the same name and seed."""
    func, _ = expected(name)
    return RandomSchedule(func, f"{name}/{seed}")


def steps_of(name: str, seed: int) -> int:
    """How many primitives a sequence tries."""
    return random.Random(f"{name}/{seed}/steps").randrange(3, 19)


def trouble_of(name: str, seed: int) -> dict[str, Any]:
    """The report of a function that breaks a law before anything is scheduled, or that has no
    machine code; empty for all others."""
    report: dict[str, Any] = {"applied": {}, "refused": [], "no_code": "", "failure": None}
    try:
        expected(name)
    except Broken as broken:
        report["failure"] = {
            "program": name,
            "seed": seed,
            "signature": broken.signature,
            "message": str(broken.error)[:3000],
            "trace": "(nothing was scheduled)",
            "after": "",
        }
    except CodegenError as error:
        report["no_code"] = str(error).split("\n", 1)[0]
    else:
        return {}
    return report


def run_sequence(name: str, seed: int, *, shrinking: bool = True) -> dict[str, Any]:
    """One sequence, checked: what was applied and refused, and the failure if there is one."""
    generator = random_run(name, seed)
    begin = time.perf_counter()
    failure: dict[str, Any] | None = None
    no_code = ""
    try:
        sch = generator.run(steps_of(name, seed))
        times["primitives"] += time.perf_counter() - begin
        no_code = check_schedule(name, sch, seed)
    except Crash as crash:
        broken = Broken("a primitive", crash.error)
        failure = _failure(name, seed, crash.trace, broken, shrinking)
    except Broken as broken:
        failure = _failure(name, seed, generator.sch.trace, broken, shrinking)
    return {
        "end": seed,
        "applied": dict(generator.applied),
        "refused": [[*key, count] for key, count in generator.refused.items()],
        "no_code": no_code,
        "failure": failure,
    }


def _failure(name: str, seed: int, trace: Trace, broken: Broken, shrinking: bool) -> dict[str, Any]:
    text = broken.text
    if shrinking:
        watch(SHRINKING_LIMIT)

        def fails(candidate: Trace) -> bool:
            found = broken_law(name, candidate, seed)
            return found is not None and found.signature == broken.signature

        trace = shrink(trace, fails)
        again = broken_law(name, trace, seed)
        text = again.text if again is not None else text
    return {
        "program": name,
        "seed": seed,
        "signature": broken.signature,
        "message": str(broken.error)[:3000],
        "trace": str(trace),
        "after": text,
    }


def say(line: dict[str, Any]) -> None:
    """Write a line at once."""
    print(json.dumps(line), flush=True)


def main(arguments: list[str]) -> None:
    """See the module."""
    command, name, *rest = arguments
    match command, [float(r) for r in rest]:
        case "run", [first, count, limit]:
            trouble = trouble_of(name, int(first))
            for seed in range(int(first), int(first + count)):
                watch(limit)
                say({"begin": seed})
                say(trouble | {"end": seed} if trouble else run_sequence(name, seed))
                if trouble and trouble["failure"]:
                    break
            say({"times": dict(times)})
        case "trace", [seed]:
            generator = random_run(name, int(seed))
            say({"trace": generator.run(steps_of(name, int(seed))).trace.as_json()})
        case "check", [variant, limit]:
            watch(limit)
            broken = broken_law(name, Trace.from_json(sys.stdin.read()), int(variant))
            say({"broken": None if broken is None else broken.signature})
        case _:
            sys.exit(f"unknown command: {arguments}")


if __name__ == "__main__":
    arm_watchdog()
    main(sys.argv[1:])
