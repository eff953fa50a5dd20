"""Whatever a log holds: without the secret it is whole, and says the same but for it."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from harken.core import canonical
from harken.core import events as ev
from harken.core.event_types.message_parser import parse_message
from harken.core.ids import AgentId
from harken.core.secrets.removal import Secret, in_json
from harken.session.log.file import LogFile
from harken.session.log.reader import iter_events
from harken.session.purge import PurgeOptions, purge_log
from harken.session.repair import verify
from harken.session.session import Session
from harken.testing import ticking
from harken.views.context import context
from tests.session_kit import create_agent, fold_log, log_request, new_session, session_options

ROOT = AgentId("agent_001")
KEY = 'k€y "with"\nall\\'
SECRET = Secret(KEY)
AROUND = st.text(st.characters(exclude_categories=[]), max_size=12)


def encoded(text: str, depth: int) -> str:
    """Return a text as JSON in JSON has it, so deep."""
    return (
        text
        if depth == 0
        else encoded(canonical.to_json_line(text).decode("utf-8", "replace")[1:-1], depth - 1)
    )


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Any text, often with the key in it, as it is or as JSON has it."""
    key = encoded(KEY, draw(st.integers(0, 2))) if draw(st.booleans()) else ""
    return draw(AROUND) + key + draw(AROUND)


@st.composite
def steps(draw: st.DrawFn) -> dict[str, Any]:
    """A message, or the state of an agent."""
    kind = draw(st.sampled_from(["user", "assistant", "parts", "state"]))
    if kind == "state":
        value = st.dictionaries(
            texts(), st.one_of(texts(), st.integers(), st.floats(0, 1)), max_size=3
        )
        return {"state": draw(value)}
    if kind == "parts":
        part = {"type": "text", "text": draw(texts()), "meta": {"note": draw(texts())}}
        return {"role": "user", "content": [part, {"type": "thinking", "text": draw(texts())}]}
    return {"role": kind, "content": draw(texts())}


@given(st.lists(steps(), max_size=8))
def test_purged_log_verifies_and_differs_only_in_the_text(
    logged: list[dict[str, Any]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = new_session(Path(folder))
        create_agent(session)
        for step in logged:
            if "state" in step:
                session.append(ev.AgentStateSaved(agent_id=ROOT, state=step["state"]))
            else:
                session.log_transcript_entry(ROOT, step)
                log_request(session, ROOT)
        before = canonical.to_json_line([parse_message(_plain(m)) for m in session.context(ROOT)])
        saved = canonical.to_json_line(session.agent(ROOT).saved_state)
        session.close()
        log = LogFile(session.path)
        places = purge_log(log, PurgeOptions(replace=SECRET.replace, clock=ticking()))
        log.close()
        assert not any(SECRET.find_spans([session.path.read_bytes()]))
        assert verify(session.path) == []
        resumed = Session.load(session.path, options=session_options())
        after = canonical.to_json_line([parse_message(_plain(m)) for m in resumed.context(ROOT)])
        assert after == in_json(before, SECRET.replace)
        assert canonical.to_json_line(resumed.agent(ROOT).saved_state) == in_json(
            saved, SECRET.replace
        )
        resumed.close()
        requests = [e for e in iter_events(session.path) if isinstance(e, ev.LlmRequest)]
        assert all(context(iter_events(session.path), e.message_id).verified for e in requests)
        assert fold_log(session.path).next_message == 2 + _count(logged) + bool(places)


def _plain(message: object) -> dict[str, Any]:
    known = ("role", "content", "tool_calls", "tool_call_id", "name", "is_error")
    decoded: dict[str, Any] = canonical.from_json(canonical.to_json_line(message))
    return {name: decoded[name] for name in known if name in decoded}


def _count(logged: list[dict[str, Any]]) -> int:
    return sum(1 if "state" in step else 2 for step in logged)
