from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harken import Message, ScriptedModel, SessionViewer
from harken.core.messages import text_of
from harken.core.stream import StreamAccumulator
from harken.errors import ConfigError, InvalidLog, ModelError, ReplayMiss
from harken.experiments.cassette.cassette import Cassette, Mode
from harken.experiments.cassette.log import redact_request
from harken.llm.base import Model, ModelRequest
from harken.session.verify import verify
from harken.testing import request_of
from tests.agent_kit import ScriptedAnswer, call, call_message, open_stage, run, script_model
from tests.session_kit import read_lines
from tests.unit.experiments.test_rerun import price

KEY = "AKIAQ7WZX5T2MN3BVC4D"
ANSWERS = [{"pattern": "key", "answer": f"It is {KEY}."}, {"answer": "Hello."}]


class Real:
    """A model as behind a network that counts its calls."""

    name = "real"

    def __init__(self) -> None:
        self.asked: list[ModelRequest] = []
        self._model = ScriptedModel(ANSWERS)

    async def stream(self, request: ModelRequest) -> Any:
        self.asked.append(request)
        async for chunk in self._model.stream(request):
            yield chunk


def answer(model: Model, *messages: str | Message, **members: Any) -> str:
    async def ask() -> str:
        draft = StreamAccumulator()
        async for chunk in model.stream(request_of(*messages, **members)):
            draft.add(chunk)
        assert draft.finish is not None
        return text_of(draft.message().content)

    return asyncio.run(ask())


def offline() -> Model:
    raise AssertionError("nobody asks a real model")


def test_recorded_calls_are_replayed_offline(tmp_path: Path) -> None:
    file, real = tmp_path / "cassettes" / "a.jsonl", Real()
    cassette = Cassette(file)
    assert answer(cassette.model(real), "Hi", parameters={"seed": 1}) == "Hello."
    assert not file.exists()
    cassette.close()
    assert verify(file) == []
    replayed = Cassette(file).model(offline, name="real")
    assert answer(replayed, "Hi", parameters={"seed": 1}) == "Hello."
    assert len(real.asked) == 1


def test_miss_names_the_nearest_request_and_how_to_record(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl")
    answer(cassette.model(Real()), "Hi")
    cassette.close()
    with pytest.raises(ReplayMiss, match=r"recorded user 'Hi', asked user 'Ho'.*--harken-record"):
        answer(Cassette(tmp_path / "a.jsonl").model(offline), "Ho")


def test_missing_cassette_is_not_recorded_if_not_allowed(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl", "none")
    with pytest.raises(ReplayMiss, match="no model calls"):
        answer(cassette.model(offline), "Hi")
    cassette.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("mode", "expected_calls"), [("new", 1), ("all", 2)])
def test_record_modes_new_and_all(tmp_path: Path, mode: Mode, expected_calls: int) -> None:
    file, real = tmp_path / "a.jsonl", Real()
    first = Cassette(file)
    answer(first.model(real), "Hi")
    first.close()
    second, counted_model = Cassette(file, mode), Real()
    model = second.model(counted_model)
    answer(model, "Hi")
    answer(model, "Ho")
    second.close()
    assert len(counted_model.asked) == expected_calls
    third = Cassette(file).model(offline)
    assert [answer(third, "Hi"), answer(third, "Ho")] == ["Hello.", "Hello."]
    assert verify(file) == []


def test_credentials_are_not_stored_and_requests_still_match(tmp_path: Path) -> None:
    file, real = tmp_path / "a.jsonl", Real()
    cassette = Cassette(file)
    first_answer = answer(cassette.model(real), f"The key {KEY}?", parameters={"user": KEY})
    assert first_answer == f"It is {KEY}."  # a test receives the answer of the model
    call_ = call_message(call("look", at=KEY))
    result = Message("tool", f"Found {KEY}", tool_call_id="c1", name="look")
    tool = {"name": "look", "description": KEY, "parameters": {}}
    answer(cassette.model(real, name=f"m-{KEY}"), "Look", call_, result, tools=[tool])
    cassette.close()
    assert KEY not in file.read_text()
    assert "[redacted aws-key-id]" in file.read_text()
    replayed = Cassette(file).model(offline)
    other_key = "AKIAZZZZZZZZZZZZZZ23"
    assert answer(replayed, f"The key {other_key}?", parameters={"user": other_key}) == (
        "It is [redacted aws-key-id]."
    )
    answer(replayed, "Look", call_, result, tools=[tool])


def test_request_without_credentials_matches_by_hash() -> None:
    tool = {"name": "look", "description": "Look.", "parameters": {"type": "object"}}
    request = request_of("Hi", call_message(call("look")), parameters={"seed": 1}, tools=[tool])
    assert redact_request(request).hash == request.hash


def test_cassette_is_a_viewable_session(tmp_path: Path) -> None:
    lines_: list[ScriptedAnswer] = [call_message(call("price", drink="tea")), "3 euros.", "Bye."]
    file = tmp_path / "cassettes" / "a.jsonl"
    for number in (1, 2):
        cassette = Cassette(file)
        folder = tmp_path / str(number)
        folder.mkdir()
        model = cassette.model(script_model(main=lines_) if number == 1 else offline)
        scene = open_stage(folder, model, tools=[price], runtime=None)
        assert scene.ask("What is tea?") == "3 euros."
        assert scene.ask("Thanks.") == "Bye."
        scene.session.close()
        cassette.close()
    viewer = SessionViewer(file)
    assert list(viewer.list_agents().values()) == ["main"]
    requests = [row for row in read_lines(file) if row["event_type"] == "llm_request"]
    assert all(viewer.context(row["message_id"]).verified for row in requests)
    assert [row["count"] for row in requests] == [2, 4, 6]
    entries = [row for row in read_lines(file) if row["event_type"] == "transcript_entry"]
    assert len(entries) == 7  # each message once


def test_rewritten_context_belongs_to_the_same_agent(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl")
    model = cassette.model(Real())
    answer(model, "One", "Two")
    answer(model, "One", "Other")
    answer(model, "Quite other")
    cassette.close()
    viewer = SessionViewer(tmp_path / "a.jsonl")
    ids = [row["message_id"] for row in read_lines(tmp_path / "a.jsonl") if "context" in row]
    texts = [[row.message.content for row in viewer.context(id_).messages] for id_ in ids]
    assert texts == [["One", "Two"], ["One", "Other"], ["Quite other"]]


def test_concurrent_agents_are_separate(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl")
    model = cassette.model(ScriptedModel([{"answer": "Hello.", "delay_s": 0.01}]))

    async def ask(text: str) -> None:
        async for _ in model.stream(request_of(text)):
            pass

    async def both() -> None:
        await asyncio.gather(ask("One"), ask("Two"))

    run(both())
    cassette.close()
    assert verify(tmp_path / "a.jsonl") == []
    replayed = Cassette(tmp_path / "a.jsonl").model(offline)
    assert [answer(replayed, "One"), answer(replayed, "Two")] == ["Hello.", "Hello."]


def test_failed_call_fails_and_is_repeated(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl")
    with pytest.raises(ModelError, match="no credit"):
        answer(cassette.model(ScriptedModel([{"error": "no credit"}])), "Hi")
    assert answer(cassette.model(Real()), "Hi") == "Hello."
    cassette.close()
    assert answer(Cassette(tmp_path / "a.jsonl").model(offline), "Hi") == "Hello."


def test_discarded_recording_leaves_the_file_unchanged(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "a.jsonl")
    answer(cassette.model(Real()), "Hi")
    cassette.close(keep=False)
    cassette.close()
    assert list(tmp_path.iterdir()) == []


def test_file_that_is_no_cassette_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("hello\n")
    with pytest.raises(InvalidLog):
        Cassette(tmp_path / "a.jsonl")
    with pytest.raises(ConfigError, match="once, none, new, all"):
        Cassette(tmp_path / "b.jsonl", "sometimes")  # type: ignore[arg-type]
