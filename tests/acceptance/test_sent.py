"""What official clients sent after resuming a transcript is what Harken says that they send.

The only place where a difference is allowed, with its reason, is `present` of each client.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from harken.formats import codex, pi
from harken.formats.native import Native
from tests.unit.formats.natives import context, read, stored

Request: TypeAlias = list[dict[str, Any]]

DATA = Path(__file__).parents[3] / "shared" / "data"
NO_AGENTS_MD = "The previously provided AGENTS.md instructions no longer apply."


def codex_present(request: Request) -> Request:
    """Leave out what Codex says about where it was resumed, and ids that are new each time."""
    (told, *rest) = request
    told.pop("id")  # of the instructions: made when they are sent
    if NO_AGENTS_MD in json.dumps(rest[-1]):  # the folder of the resumed session has none
        rest.pop()
    return [told, *rest]


CLIENTS: dict[str, tuple[Native, Callable[[Request], Request]]] = {
    "cx": (codex.NATIVE, codex_present),
    "pi": (pi.NATIVE, lambda request: request),
}
RECORDINGS = [path for path in sorted(DATA.glob("sent/*.json")) if path.name[:2] in CLIENTS]


@pytest.mark.skipif(not RECORDINGS, reason="the shared data is not here")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
@pytest.mark.req("S2-55")
def test_what_is_sent_is_what_the_client_sent(path: Path) -> None:
    native, present = CLIENTS[path.name[:2]]
    recorded = json.loads(path.read_bytes())
    steps, reading = read(native, DATA / "transcripts" / recorded["source"])
    assert native.sent
    found = native.sent(stored(context(steps, next(iter(reading.tips.values())))))
    expected = present(recorded["request_messages"])
    for at, (ours, theirs) in enumerate(zip(found, expected, strict=False)):
        assert ours == theirs, f"message {at}"
    assert len(found) == len(expected)
