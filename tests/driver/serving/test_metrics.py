"""The table of a server's counters."""

from __future__ import annotations

from burnish.driver.serving.metrics import Metrics


def test_the_table_is_prometheus_text() -> None:
    metrics = Metrics()
    metrics.requests['a"b', 200] += 2
    metrics.rows["m"].add(2)
    metrics.rows["m"].add(1000)
    lines = metrics.text(1, 20).splitlines()
    assert 'burnish_requests_total{model="a\\"b",status="200"} 2' in lines
    assert 'burnish_batch_rows_bucket{model="m",le="1.0"} 0' in lines
    assert 'burnish_batch_rows_bucket{model="m",le="2.0"} 1' in lines
    assert 'burnish_batch_rows_bucket{model="m",le="+Inf"} 2' in lines
    assert 'burnish_batch_rows_sum{model="m"} 1002.0' in lines
    assert lines[-1] == "burnish_bytes_in_flight 20"
