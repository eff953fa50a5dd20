"""`HarkenSessionService`: the contract of a session service of Google's ADK.

ADK is too large for every machine: `make frameworks` installs it beside the other tests.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.adapters.sessions import list_conversations
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.messages import text_of
from harken.store.fsck import fsck
from harken.store.memory import MemoryStore

pytestmark = pytest.mark.filterwarnings("ignore")
pytest.importorskip("google.adk", reason="`make frameworks` installs it")

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.errors.already_exists_error import AlreadyExistsError  # noqa: E402
from google.adk.errors.session_not_found_error import SessionNotFoundError  # noqa: E402
from google.adk.events.event import Event  # noqa: E402
from google.adk.events.event_actions import EventActions  # noqa: E402
from google.adk.models import BaseLlm, LlmResponse  # noqa: E402
from google.adk.runners import Runner  # noqa: E402
from google.adk.sessions import Session  # noqa: E402
from google.adk.sessions.base_session_service import GetSessionConfig  # noqa: E402
from google.genai import types  # noqa: E402

from harken.adapters.google_adk import HarkenSessionService  # noqa: E402

T = TypeVar("T")
ANN: dict[str, Any] = {"app_name": "trips", "user_id": "ann"}


def run(work: Awaitable[T]) -> T:
    async def wait() -> T:
        return await work

    return asyncio.run(wait())


@pytest.fixture
def service(tmp_path: Path) -> Iterator[HarkenSessionService]:
    with HarkenSessionService(tmp_path) as service:
        yield service


def create(service: HarkenSessionService, id_: str | None = "s", **options: Any) -> Any:
    return run(service.create_session(**{**ANN, "session_id": id_, **options}))


def get(service: HarkenSessionService, id_: str = "s", **options: Any) -> Any:
    return run(service.get_session(**{**ANN, "session_id": id_, **options}))


def append(service: HarkenSessionService, session: Any, event: Any = None, **delta: Any) -> Any:
    actions = EventActions(state_delta=delta)
    return run(service.append_event(session, event or Event(author="user", actions=actions)))


def text(value: str, role: str = "user") -> Any:
    return types.Content(role=role, parts=[types.Part(text=value)])


def test_a_session_is_created_read_and_deleted(service: HarkenSessionService) -> None:
    assert get(service) is None
    session = create(service, state={"key": "value", "none": None})
    assert session.state == {"key": "value", "none": None}
    assert get(service) == session
    assert create(service, None).id != create(service, "  ").id
    run(service.delete_session(**ANN, session_id="s"))
    run(service.delete_session(**ANN, session_id="s"))
    assert get(service) is None
    assert create(service).state == {}
    with pytest.raises(AlreadyExistsError):
        create(service)


def test_a_padded_id_is_the_same_session(service: HarkenSessionService) -> None:
    session = create(service, "  s ")
    assert session.id == "s"
    assert get(service, " s  ") == session
    run(service.delete_session(**ANN, session_id=" s"))
    assert get(service) is None


def test_states_have_the_scopes_of_their_prefixes(service: HarkenSessionService) -> None:
    session = create(service, state={"app:a": 1, "user:u": 2, "s": 3, "temp:t": 4})
    append(service, session, **{"app:b": 5, "user:v": 6, "t": 7})
    assert create(service, "s2").state == {"app:a": 1, "app:b": 5, "user:u": 2, "user:v": 6}
    assert create(service, "s", user_id="bob").state == {"app:a": 1, "app:b": 5}
    assert create(service, "s", app_name="other").state == {}
    assert get(service).state == {
        "app:a": 1,
        "app:b": 5,
        "user:u": 2,
        "user:v": 6,
        "s": 3,
        "t": 7,
    }
    assert run(service.get_user_state(**ANN)) == {"u": 2, "v": 6}
    assert run(service.get_user_state(app_name="trips", user_id="bob")) == {}


def test_temporary_state_is_not_stored(service: HarkenSessionService) -> None:
    session = create(service)
    event = append(service, session, **{"temp:t": 1, "s": 2})
    assert session.state == {"temp:t": 1, "s": 2}
    assert event.actions.state_delta == {"s": 2}
    assert get(service).state == {"s": 2}
    assert get(service).events == [event]


def test_sessions_are_listed_with_their_states(service: HarkenSessionService) -> None:
    first = create(service, "a", state={"k": "a", "user:u": 1})
    create(service, "b", state={"k": "b"})
    create(service, "c", user_id="bob", state={"k": "c", "app:x": 2})
    append(service, first, Event(author="user", timestamp=first.last_update_time + 60))
    sessions = run(service.list_sessions(**ANN)).sessions
    assert [session.id for session in sessions] == ["b", "a"]
    assert sessions[1].state == {"k": "a", "user:u": 1, "app:x": 2}
    assert sessions[1].events == []
    sessions = run(service.list_sessions(app_name="trips")).sessions
    assert [session.id for session in sessions] == ["b", "c", "a"]
    assert run(service.list_sessions(app_name="none")).sessions == []
    assert run(service.list_sessions(app_name="trips", user_id="")).sessions == []


def test_an_event_comes_back_with_all_members(service: HarkenSessionService) -> None:
    session = create(service)
    event = Event(
        invocation_id="i",
        author="guide",
        branch="guide.sub",
        content=types.Content(
            role="model",
            parts=[
                types.Part(text="hm", thought=True, thought_signature=b"\xff\xfe"),
                types.Part.from_bytes(data=b"\xfb\xff\xfe", mime_type="image/png"),
                types.Part(function_call=types.FunctionCall(id="c", name="f", args={"a": [1]})),
            ],
        ),
        turn_complete=True,
        partial=False,
        actions=EventActions(
            artifact_delta={"file": 0}, transfer_to_agent="agent", state_delta={"none": None}
        ),
        long_running_tool_ids={"t"},
        error_code="code",
        grounding_metadata=types.GroundingMetadata(web_search_queries=["q"]),
        usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=1),
        custom_metadata={"key": "value"},
        timestamp=1700000000.123,
    )
    append(service, session, event)
    assert get(service) == session
    assert get(service).events == [event]


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=6,
)
NAME = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(NAME, st.dictionaries(NAME, st.integers() | NAME | st.none())), max_size=5)
)
def test_any_texts_and_states_come_back_equal(turns: list[tuple[str, dict[str, Any]]]) -> None:
    memory = MemoryStore()
    service = HarkenSessionService(store=memory)
    session = create(service)
    expected: dict[str, Any] = {}
    for words, delta in turns:
        delta = {f"k{name}": value for name, value in delta.items()}
        actions = EventActions(state_delta=delta)
        append(service, session, Event(author="user", content=text(words), actions=actions))
        expected |= delta
    stored = get(HarkenSessionService(store=memory))
    assert stored.state == session.state == expected
    assert stored.events == session.events
    assert list(fsck(memory)) == []


def test_a_large_state_is_written_in_parts(service: HarkenSessionService, tmp_path: Path) -> None:
    session = create(service, state={f"key-{index}": "x" * 100 for index in range(100)})
    expected = {**session.state}
    for index in range(80):
        append(service, session, n=index, **{f"key-{index}": None})
        expected |= {"n": index, f"key-{index}": None}
    assert get(service).state == expected
    with HarkenSessionService(tmp_path) as other:
        assert get(other).state == expected
        (listed,) = run(other.list_sessions(**ANN)).sessions
        assert listed.state == expected
        head = service._store.branches("google-adk-state/trips%2Fann%2Fs")
        (commit,) = head.values()
        sizes = [
            len(service._store.raw(stored.commit.artifact))
            for stored in service._store.chain(commit)
        ]
        assert len([size for size in sizes if size > 1000]) <= 4


def test_a_part_of_the_events_is_read(service: HarkenSessionService, tmp_path: Path) -> None:
    session = create(service)
    for index in range(1, 6):
        append(service, session, Event(author="user", timestamp=float(index)))
    with HarkenSessionService(tmp_path) as fresh:
        for reader in (fresh, service):
            for config, expected in (
                (None, [1, 2, 3, 4, 5]),
                ({"num_recent_events": 0}, []),
                ({"num_recent_events": 3}, [3, 4, 5]),
                ({"num_recent_events": 9}, [1, 2, 3, 4, 5]),
                ({"after_timestamp": 4.0}, [4, 5]),
                ({"after_timestamp": 50.0}, []),
                ({"after_timestamp": 4.0, "num_recent_events": 3}, [4, 5]),
            ):
                options = None if config is None else GetSessionConfig(**config)
                read = get(reader, config=options)
                assert [event.timestamp for event in read.events] == expected
                assert read.last_update_time == 5.0


def test_a_partial_event_is_not_stored(service: HarkenSessionService) -> None:
    session = create(service)
    append(service, session, Event(author="user", partial=True))
    assert session.events == get(service).events == []


def test_a_session_that_does_not_exist_takes_no_event(service: HarkenSessionService) -> None:
    with pytest.raises(SessionNotFoundError):
        append(service, Session(id="none", **ANN))


def test_a_stale_session_is_refused_and_loses_nothing(
    service: HarkenSessionService, tmp_path: Path
) -> None:
    session = create(service)
    with HarkenSessionService(tmp_path) as other:
        stale = get(other)
        append(service, session, a=1)
        for writer in (other, service):
            with pytest.raises(ValueError, match="modified in storage"):
                append(writer, stale, b=2)
        assert get(other).state == {"a": 1}
        fresh = get(other)
        append(other, fresh, b=2)
        with pytest.raises(ValueError, match="modified in storage"):
            append(service, session, c=3)
        assert get(service).state == {"a": 1, "b": 2}


def test_a_session_of_the_program_is_compared_by_its_last_event(
    service: HarkenSessionService,
) -> None:
    session = create(service)
    append(service, session)
    session._storage_update_marker = None
    session.last_update_time -= 0.0001
    append(service, session)
    old = Session(id="s", last_update_time=0.0, **ANN)
    with pytest.raises(ValueError, match="modified in storage"):
        append(service, old)


def test_concurrent_writers_of_one_session_are_fenced(service: HarkenSessionService) -> None:
    async def work() -> None:
        await service.create_session(**ANN, session_id="s")
        for number in range(6):
            sessions = [await service.get_session(**ANN, session_id="s") for _ in range(3)]
            results = await asyncio.gather(
                *(
                    service.append_event(
                        session,
                        Event(
                            author="user", actions=EventActions(state_delta={f"{number}-{i}": 1})
                        ),
                    )
                    for i, session in enumerate(sessions)
                ),
                return_exceptions=True,
            )
            assert sum(isinstance(result, ValueError) for result in results) == 2

    run(work())
    assert len(get(service).events) == len(get(service).state) == 6


def test_concurrent_writers_of_a_shared_state_lose_nothing(tmp_path: Path) -> None:
    async def write(service: HarkenSessionService, number: int) -> None:
        session = await service.create_session(**ANN, session_id=f"s{number}")
        for index in range(5):
            delta = {f"app:{number}-{index}": 1, f"user:{number}-{index}": 1}
            await service.append_event(
                session, Event(author="user", actions=EventActions(state_delta=delta))
            )

    async def work(services: list[HarkenSessionService]) -> None:
        await asyncio.gather(*(write(services[number % 2], number) for number in range(6)))

    with HarkenSessionService(tmp_path) as one_service, HarkenSessionService(tmp_path) as other:
        run(work([one_service, other]))
        assert len(get(other, "s0").state) == 60
        assert list(fsck(other._store)) == []


def test_a_fork_has_the_state_of_its_event(service: HarkenSessionService) -> None:
    session = create(service, state={"k": 0})
    append(service, session, k=1)
    past = run(service.find_head(session))
    append(service, session, k=2, later=True)
    fork = run(service.fork_session(session, "fork", at=past))
    assert fork.state == {"k": 1}
    assert fork.events == session.events[:1]
    append(service, fork, k=3)
    assert get(service).state == {"k": 2, "later": True}
    assert get(service, "fork").state == {"k": 3}
    assert run(service.fork_session(session)).state == {"k": 2, "later": True}
    with pytest.raises(AlreadyExistsError):
        run(service.fork_session(session, "fork"))


class WeatherModel(BaseLlm):
    """A model that reads the weather, and then says it."""

    async def generate_content_async(
        self, request: Any, stream: bool = False
    ) -> AsyncIterator[Any]:
        last = request.contents[-1].parts[-1]
        if last.function_response is None:
            call = types.FunctionCall(name="weather", args={"place": "Rome"})
            parts = [types.Part(text="I look."), types.Part(function_call=call)]
        else:
            parts = [types.Part(text=f"It is {last.function_response.response['result']}.")]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def weather(place: str) -> str:
    """Return the weather of a place."""
    return f"sunny in {place}"


async def say(service: HarkenSessionService, words: str) -> list[str]:
    agent = LlmAgent(
        name="guide", model=WeatherModel(model="m"), tools=[weather], output_key="answer"
    )
    runner = Runner(app_name="trips", agent=agent, session_service=service)
    events = runner.run_async(user_id="ann", session_id="s", new_message=text(words))
    return [event.content.parts[-1].text async for event in events]


def test_a_run_is_a_session_of_harken(service: HarkenSessionService, tmp_path: Path) -> None:
    create(service, state={"key": "value"})
    assert run(say(service, "the weather please"))[-1] == "It is sunny in Rome."
    with HarkenSessionService(tmp_path) as other:
        assert run(say(other, "again"))[-1] == "It is sunny in Rome."
        assert len(get(other).events) == 8
    (session,) = list_conversations(service._store, tmp_path)
    assert (session.name, session.title) == ("google-adk:trips/ann/s", "the weather please")
    head = CommitId(run(service.find_head(get(service))) or "")
    messages = materialize(service._store, head).messages
    roles = [message.role for message in messages]
    assert roles == ["user", "assistant", "tool", "assistant"] * 2
    (call,) = messages[1].tool_calls or []
    assert messages[2].tool_call_id == call.id
    assert call.function.name == "weather"
    assert text_of(messages[3].content) == "It is sunny in Rome."


def test_a_closed_service_refuses_all_calls(service: HarkenSessionService) -> None:
    session = create(service)
    service.close()
    for work in (
        service.get_session(**ANN, session_id="s"),
        service.list_sessions(**ANN),
        service.append_event(session, Event(author="user")),
    ):
        with pytest.raises(RuntimeError, match="session service is closed"):
            run(work)
