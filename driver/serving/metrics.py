"""What a server counts, in Prometheus' text format. Labels are names of served models alone, so
that no request can make the table grow."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


class Histogram:
    """Counts of values up to each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds, self._counts, self._sum = bounds, [0] * (len(bounds) + 1), 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, label: str) -> list[str]:
        found, total = [], 0
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            found.append(f'{name}_bucket{{{label},le="{bound}"}} {total}')
        return [*found, f"{name}_sum{{{label}}} {self._sum}", f"{name}_count{{{label}}} {total}"]


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.seconds: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(SECONDS))
        self.rows: defaultdict[str, Histogram] = defaultdict(lambda: Histogram(ROWS))

    def text(self, in_flight: int, bytes_in_flight: int) -> str:
        """The whole table."""
        lines = ["# TYPE burnish_requests_total counter"]
        lines += [
            f'burnish_requests_total{{model="{_escaped(model)}",status="{status}"}} {count}'
            for (model, status), count in sorted(self.requests.items())
        ]
        for name, table in (
            ("burnish_request_seconds", self.seconds),
            ("burnish_batch_rows", self.rows),
        ):
            lines.append(f"# TYPE {name} histogram")
            for model, histogram in sorted(table.items()):
                lines += histogram.lines(name, f'model="{_escaped(model)}"')
        lines += ["# TYPE burnish_requests_in_flight gauge"]
        lines += [f"burnish_requests_in_flight {in_flight}"]
        lines += ["# TYPE burnish_bytes_in_flight gauge"]
        lines += [f"burnish_bytes_in_flight {bytes_in_flight}"]
        return "\n".join(lines) + "\n"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


__all__ = ["Histogram", "Metrics"]
