"""The floor: what is needed at one time, results and inputs aside."""

from __future__ import annotations

import burnish
from burnish.driver.arena_floor import arena_floor

MODULE = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((N, 6), dtype="float32")):
        with R.dataflow():
            a = R.exp(x)
            b = R.flatten(a)
            c = R.exp(a)
            d = R.exp(c)
            e = R.add(d, a)
            f = R.exp(e)
            R.output(f)
        return f
"""


def floor(size: str) -> int | None:
    text = MODULE.replace("N", size)
    return arena_floor(burnish.parse(text).graph_functions["main"])


def test_the_most_that_is_live_at_once() -> None:
    # a, c and d while d is made.
    assert floor("4") == 3 * 4 * 6 * 4
    assert floor('"n"') is None
