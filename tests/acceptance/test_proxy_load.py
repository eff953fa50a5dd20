"""Many at once before the proxy: nothing is changed, and nobody waits for the recorder."""

from __future__ import annotations

import pytest

from benchmarks.proxy import CONNECTIONS, REQUESTS, measure

_RUNS = 3
"""Other programs of a machine cost one run its tail: that is not the proxy's."""


def test_proxy_passes_equal_bodies_with_little_delay() -> None:
    result, _ = measure(64, 16)
    assert len(result.proxied) == len(result.direct) == 64
    assert len(result.bodies) == 1
    assert result.added_ms(50) < 30


@pytest.mark.full
def test_proxy_delay_of_a_thousand_streams_is_within_the_limit() -> None:
    added: list[tuple[float, float]] = []
    for _ in range(_RUNS):
        result, _ = measure(REQUESTS, CONNECTIONS)
        assert len(result.proxied) == len(result.direct) == REQUESTS
        assert len(result.bodies) == 1
        added.append((result.added_ms(50), result.added_ms(99)))
        if result.added_ms(50) < 3 and result.added_ms(99) < 10:
            return
    pytest.fail(f"milliseconds at the median and at p99, of each run: {added}")
