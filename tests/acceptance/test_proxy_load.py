"""Many at once before the proxy: nothing is changed, and nobody waits for the recorder."""

from __future__ import annotations

import pytest

from benchmarks.proxy import CONNECTIONS, REQUESTS, measure

_RUNS = 3
"""Other programs of a machine cost one run its tail: that is not the proxy's."""


def test_a_load_gets_the_same_bodies_with_and_without_the_proxy_and_soon() -> None:
    found, _ = measure(64, 16)
    assert len(found.proxied) == len(found.direct) == 64
    assert len(found.bodies) == 1
    assert found.added_ms(50) < 30


@pytest.mark.full
def test_a_thousand_streams_over_32_connections_begin_no_later_than_is_promised() -> None:
    added: list[tuple[float, float]] = []
    for _ in range(_RUNS):
        found, _ = measure(REQUESTS, CONNECTIONS)
        assert len(found.proxied) == len(found.direct) == REQUESTS
        assert len(found.bodies) == 1
        added.append((found.added_ms(50), found.added_ms(99)))
        if found.added_ms(50) < 3 and found.added_ms(99) < 10:
            return
    pytest.fail(f"milliseconds at the median and at p99, of each run: {added}")
