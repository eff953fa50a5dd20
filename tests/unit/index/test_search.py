"""Search returns the position of a text and a commit to resume from."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harken.core.commits import CommitId
from harken.errors import ConfigError
from harken.index.search import SearchHit, SearchQuery, search
from harken.session.session import Session
from tests.session_kit import create_agent, log_answer, log_user_message, new_session
from tests.unit.formats.transcript_kit import Transcript, text_block, thinking_block, tool_use_block
from tests.unit.index.index_kit import Imports

OTHER = "6f662022-0000-4000-8000-000000000002"


@pytest.fixture
def talked(imports: Imports) -> Imports:
    """Two sessions of Claude Code on successive days, with tools and a subagent."""
    transcript = Transcript(shared={"cwd": "/home/jill/cafe"})
    transcript.user("Is the café open?")
    transcript.answer(
        thinking_block("Look at the door."), tool_use_block("c1", path="/srv/door.txt")
    )
    transcript.result("c1", "the door is open\nuntil six")
    transcript.answer(text_block("It is open until six."))
    imports.add("a.jsonl", transcript)
    later = Transcript(OTHER, shared={"cwd": "/home/jack/bar", "isSidechain": False})
    later.user("Who opens the bar?", timestamp="2026-02-01T12:00:00.000Z")
    later.answer(
        tool_use_block("c1", "Task", prompt="Find out."), timestamp="2026-02-01T12:00:01.000Z"
    )
    later.shared |= {"isSidechain": True, "timestamp": "2026-02-01T12:00:02.000Z"}
    later.user("Find out.", parent=None)
    later.answer(text_block("Jack opens the door."))
    imports.add_and_update("b.jsonl", later)
    return imports


def find(imports: Imports, words: str, **filters: Any) -> list[SearchHit]:
    page = search(imports.facts, imports.store, SearchQuery(text=words, **filters))
    hits = list(page.hits)
    if filters.get("limit", 20) is None:
        assert page.total == len(hits)
    return hits


def texts(imports: Imports, words: str, **filters: Any) -> list[str]:
    return [hit.excerpt.text for hit in find(imports, words, **filters)]


def test_newest_message_is_the_first_hit(talked: Imports) -> None:
    assert texts(talked, "door") == [
        "Jack opens the door.",
        "the door is open until six",
        "Look at the door.",
    ]


def test_hit_has_author_time_location_and_commit(talked: Imports) -> None:
    (hit,) = find(talked, "six", kind="response")
    assert (hit.runtime, hit.agent, hit.role, hit.project) == (
        "claude",
        "",
        "assistant",
        "/home/jill/cafe",
    )
    assert hit.title == "Is the café open?"
    assert hit.ctx is not None
    stored = talked.store.commits([hit.ctx])[hit.ctx]
    assert stored.commit.session_id in hit.session


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("cafe", 1),
        ("CAFÉ", 1),
        ("open*", 5),
        ("open", 3),
        ('"open until"', 2),
        ("open -until", 1),
        ("bar OR café", 2),
        ("door.txt", 1),
        ("/srv/door.txt", 1),
        ("find out", 2),
        ("nobody", 0),
    ],
)
def test_words_phrases_prefixes_and_exclusions_match(
    talked: Imports, words: str, expected: int
) -> None:
    assert len(find(talked, words, limit=None)) == expected


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"role": "tool"}, ["the door is open until six"]),
        ({"kind": "response", "runtime": "claude"}, ["Jack opens the door.", "Look at the door."]),
        ({"agent": "main"}, ["the door is open until six", "Look at the door."]),
        ({"tool": "Bash"}, ["the door is open until six", "Look at the door."]),
        ({"tool": "Task"}, []),
        ({"projects": ["/home/jack/bar"]}, ["Jack opens the door."]),
        ({"runtime": "codex"}, []),
        ({"since_us": 1_769_904_000_000_000}, ["Jack opens the door."]),
        ({"until_us": 1_769_904_000_000_000}, ["the door is open until six", "Look at the door."]),
        ({"limit": 1}, ["Jack opens the door."]),
    ],
)
def test_filters_exclude_hits(
    talked: Imports, filters: dict[str, Any], expected: list[str]
) -> None:
    assert texts(talked, "door", **filters) == expected


def test_hit_count_is_independent_of_the_limit(talked: Imports) -> None:
    for runtime in (None, "claude"):
        page = search(
            talked.facts, talked.store, SearchQuery(text="door", limit=1, runtime=runtime)
        )
        assert (page.total, len(list(page.hits))) == (3, 1)


def test_hit_count_has_a_maximum(talked: Imports) -> None:
    for min_counted, limit, total, is_more in ((1, 1, 1, True), (2, 1, 2, True), (1, 2, 2, True)):
        query = SearchQuery(text="door", limit=limit, min_counted=min_counted)
        page = search(talked.facts, talked.store, query)
        assert (page.total, page.is_more, len(list(page.hits))) == (total, is_more, limit)
    for every in (3, None):
        page = search(
            talked.facts, talked.store, SearchQuery(text="door", limit=every, min_counted=1)
        )
        assert (page.total, page.is_more) == (3, False)


def test_hits_are_sorted_by_time_in_any_reading_order(imports: Imports) -> None:
    """This includes messages of one interval, where row ids do not give the order."""
    dated_texts = [
        ("2026-03-01T12:00:00.500Z", "tea 3"),
        ("2026-03-01T12:00:00.100Z", "tea 1"),
        ("2026-02-01T12:00:00.000Z", "tea 0"),
        ("2026-03-01T12:00:00.300Z", "tea 2"),
        ("2026-04-01T12:00:00.000Z", "tea 4"),
    ]
    for index, (time, words) in enumerate(dated_texts):
        transcript = Transcript(f"6f662022-0000-4000-8000-00000000000{index}")
        transcript.user(words, timestamp=time)
        imports.add_and_update(f"{index}.jsonl", transcript)
    newest = ["tea 4", "tea 3", "tea 2", "tea 1", "tea 0"]
    for limit in (1, 2, 3, 4, 5, None):
        for min_counted in (1, 2, 10):
            assert texts(imports, "tea", limit=limit, min_counted=min_counted) == newest[:limit]
    march = {"since_us": 1_772_366_400_200_000, "until_us": 1_772_366_400_500_000}
    assert texts(imports, "tea", **march) == ["tea 2"]


def test_common_and_rare_prefixes_match(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user(" ".join(f"cup{number}" for number in range(700)))
    transcript.user("Cup, cup1, CUPBOARD.")
    transcript.user("café caf\ue000")
    imports.add_and_update("a.jsonl", transcript)
    for words, expected in (("cup*", 2), ("cupb*", 1), ("CUP1*", 2), ("cup69*", 1), ("cupx*", 0)):
        assert len(find(imports, words)) == expected, words
    assert len(find(imports, "caf*")) == len(find(imports, "café*")) == 1
    assert len(find(imports, "cup* -cupb*")) == 1


def test_result_hit_names_its_tool(talked: Imports) -> None:
    (hit,) = find(talked, "door", role="tool")
    assert (hit.tool, hit.kind) == ("Bash", "tool_result")


def test_arguments_match_by_value_and_not_by_json_escapes(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user("Write.")
    transcript.answer(
        tool_use_block("c1", "Write", content="first\nsecond\tthird", blob="QUJD" * 50)
    )
    imports.add_and_update("a.jsonl", transcript)
    assert len(find(imports, "second third")) == 1
    assert find(imports, "nsecond") == []
    assert find(imports, "QUJD*") == []


def test_scripts_without_spaces_match_by_substring(imports: Imports) -> None:
    transcript = Transcript()
    transcript.user("冷たいお茶をください。 커피숍에서")
    transcript.answer(text_block("はい。"))
    imports.add_and_update("a.jsonl", transcript)
    for words in ("お茶", "茶", "冷たい", "커피", '"お茶を"', "茶 ください"):
        assert len(find(imports, words)) == 1, words
    assert find(imports, "茶お") == []


def test_removed_commit_gives_no_hit(talked: Imports) -> None:
    hits = find(talked, "door")
    kept_commits: list[CommitId] = [hit.ctx for hit in hits[1:] if hit.ctx is not None]
    talked.store.collect((), now="2027-01-01T00:00:00Z", grace_s=0)
    assert len(find(talked, "door")) == 3

    class MissingCommitStore:
        """A store from which a commit was removed."""

        def __getattr__(self, name: str) -> Any:
            return getattr(talked.store, name)

        def commits(self, names: Any) -> Any:
            return talked.store.commits(name for name in names if name in kept_commits)

    page = search(talked.facts, MissingCommitStore(), SearchQuery(text="door"))
    assert [hit.excerpt.text for hit in page.hits] == texts(talked, "door")[-2:]
    assert page.total == 2


@pytest.mark.parametrize(
    "body", [b"no message", b"[]", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"]
)
def test_unreadable_message_is_a_hit_without_text(talked: Imports, body: bytes) -> None:
    class WrongContentStore:
        """A store with other content in place of every object."""

        def __getattr__(self, name: str) -> Any:
            return getattr(talked.store, name)

        def objects(self, names: Any) -> Any:
            return dict.fromkeys(names, body)

    page = search(talked.facts, WrongContentStore(), SearchQuery(text="door"))
    assert [hit.excerpt.text for hit in page.hits] == ["", "", ""]


@pytest.fixture
def logged(imports: Imports) -> Session:
    session = new_session(imports.folder)
    main = create_agent(session, name="main")
    log_user_message(session, main, "Is the cafe open?")
    log_answer(session, main, "It is.")
    session.close()
    imports.logs.append(session.path)
    imports.update()
    return session


def test_uncommitted_message_is_a_hit_in_its_log(imports: Imports, logged: Session) -> None:
    (hit,) = find(imports, "cafe")
    assert (hit.ctx, hit.session, hit.excerpt.text) == (None, "s", "Is the cafe open?")
    page = search(imports.facts, None, SearchQuery(text="cafe"))
    assert [found_hit.excerpt.text for found_hit in page.hits] == ["Is the cafe open?"]


def test_hit_of_a_deleted_log_has_no_text(imports: Imports, logged: Session) -> None:
    logged.path.unlink()
    assert texts(imports, "cafe") == [""]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(max_size=40))
def test_arbitrary_queries_are_accepted(imports: Imports, words: str) -> None:
    try:
        find(imports, words)
    except ConfigError as error:
        assert "no word" in str(error)  # noqa: PT017 - else it is found
