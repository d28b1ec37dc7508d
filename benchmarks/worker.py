"""One contender in its own process: prepares a model, then times batches of calls on command.

Reads one JSON command a line: ``{"calls": N}`` runs N calls and answers ``{"seconds": s}``. Its
own process keeps the thread pools of the contenders apart; the parent takes turns between the
processes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any


def main() -> None:
    spec = json.loads(sys.argv[1])
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a library prints must not end up between our answers
    from .cases import case_named
    from .contenders import CONTENDERS

    def say(message: dict[str, Any]) -> None:
        answer.write(json.dumps(message) + "\n")
        answer.flush()

    try:
        module, inputs = case_named(spec["case"]).build()
        start = time.perf_counter()
        run = CONTENDERS[spec["contender"]](module, inputs, spec["threads"])
        run()
        say({"ready": True, "prepare_seconds": time.perf_counter() - start})
    except Exception as error:  # the parent prints it as the row's result
        say({"ready": False, "error": f"{type(error).__name__}: {error}"})
        return
    for line in sys.stdin:
        calls = json.loads(line)["calls"]
        start = time.perf_counter()
        for _ in range(calls):
            run()
        say({"seconds": time.perf_counter() - start})


if __name__ == "__main__":
    main()
