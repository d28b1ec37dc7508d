"""Questions for values that ``forward()`` asks and whose errors it catches.

    try:
        assert (x > 0).all()
    except Exception:
        x = x.abs()

torch raises at a question for values that are not there while it traces, and code that catches
whatever is raised goes on as if its own check had failed: for every input.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ...support.errors import FrontendError
from .checks_of_data import caught_at
from .exportable_functions import LOOKS
from .surroundings import attribute_set


@contextlib.contextmanager
def no_look_swallowed() -> Iterator[None]:
    """Raise FrontendError at the end where torch has raised at a look that the model caught."""
    places: list[str] = []

    def noting(init: Callable[..., None]) -> Callable[..., None]:
        def noted(self: Any, *args: Any, **options: Any) -> None:
            place = caught_at()
            if place is not None:
                places.append(place)
            init(self, *args, **options)

        return noted

    with contextlib.ExitStack() as stack:
        for kind in LOOKS:
            stack.enter_context(attribute_set(kind, "__init__", noting(kind.__init__)))
        yield
    if places:
        raise FrontendError(
            f"forward() asks for the value of a tensor at {places[0]}, which is not there while a "
            "module is traced, and catches whatever is raised there: it would go on as if its own "
            "check had failed. Let the check raise, or use torch.where in the place of it."
        )


__all__ = ["no_look_swallowed"]
