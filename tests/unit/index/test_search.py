"""Search finds where something was said, and from which commit one can go on."""

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
from tests.unit.formats.transcripts import Transcript, text, thought, use
from tests.unit.index.imported import Imports

OTHER = "6f662022-0000-4000-8000-000000000002"


@pytest.fixture
def talked(imports: Imports) -> Imports:
    """A session of Claude Code, one of the same a day later, with tools and a subagent."""
    made = Transcript(shared={"cwd": "/home/jill/cafe"})
    made.user("Is the café open?")
    made.answer(thought("Look at the door."), use("c1", path="/srv/door.txt"))
    made.result("c1", "the door is open\nuntil six")
    made.answer(text("It is open until six."))
    imports.add("a.jsonl", made)
    later = Transcript(OTHER, shared={"cwd": "/home/jack/bar", "isSidechain": False})
    later.user("Who opens the bar?", timestamp="2026-02-01T12:00:00.000Z")
    later.answer(use("c1", "Task", prompt="Find out."), timestamp="2026-02-01T12:00:01.000Z")
    later.shared |= {"isSidechain": True, "timestamp": "2026-02-01T12:00:02.000Z"}
    later.user("Find out.", parent=None)
    later.answer(text("Jack opens the door."))
    imports.read("b.jsonl", later)
    return imports


def find(imports: Imports, words: str, **given: Any) -> list[SearchHit]:
    found = search(imports.facts, imports.store, SearchQuery(text=words, **given))
    hits = list(found.hits)
    if given.get("limit", 20) is None:
        assert found.total == len(hits)
    return hits


def texts(imports: Imports, words: str, **given: Any) -> list[str]:
    return [hit.excerpt.text for hit in find(imports, words, **given)]


def test_what_was_said_last_comes_first(talked: Imports) -> None:
    assert texts(talked, "door") == [
        "Jack opens the door.",
        "the door is open until six",
        "Look at the door.",
    ]


def test_a_hit_says_who_when_where_and_from_which_commit_one_can_go_on(talked: Imports) -> None:
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
    ("words", "wanted"),
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
def test_words_phrases_beginnings_and_exceptions(talked: Imports, words: str, wanted: int) -> None:
    assert len(find(talked, words, limit=None)) == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
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
def test_conditions_leave_out_what_does_not_fit(
    talked: Imports, given: dict[str, Any], wanted: list[str]
) -> None:
    assert texts(talked, "door", **given) == wanted


def test_all_hits_are_counted_whatever_is_shown(talked: Imports) -> None:
    for runtime in (None, "claude"):
        found = search(
            talked.facts, talked.store, SearchQuery(text="door", limit=1, runtime=runtime)
        )
        assert (found.total, len(list(found.hits))) == (3, 1)


def test_hits_are_counted_up_to_a_number(talked: Imports) -> None:
    for counted, limit, total, is_more in ((1, 1, 1, True), (2, 1, 2, True), (1, 2, 2, True)):
        asked = SearchQuery(text="door", limit=limit, min_counted=counted)
        found = search(talked.facts, talked.store, asked)
        assert (found.total, found.is_more, len(list(found.hits))) == (total, is_more, limit)
    for every in (3, None):
        found = search(
            talked.facts, talked.store, SearchQuery(text="door", limit=every, min_counted=1)
        )
        assert (found.total, found.is_more) == (3, False)


def test_what_was_said_last_comes_first_however_it_was_read(imports: Imports) -> None:
    """Those of one stretch of time too, where the numbers do not tell it."""
    said = [
        ("2026-03-01T12:00:00.500Z", "tea 3"),
        ("2026-03-01T12:00:00.100Z", "tea 1"),
        ("2026-02-01T12:00:00.000Z", "tea 0"),
        ("2026-03-01T12:00:00.300Z", "tea 2"),
        ("2026-04-01T12:00:00.000Z", "tea 4"),
    ]
    for at, (time, words) in enumerate(said):
        made = Transcript(f"6f662022-0000-4000-8000-00000000000{at}")
        made.user(words, timestamp=time)
        imports.read(f"{at}.jsonl", made)
    newest = ["tea 4", "tea 3", "tea 2", "tea 1", "tea 0"]
    for limit in (1, 2, 3, 4, 5, None):
        for counted in (1, 2, 10):
            assert texts(imports, "tea", limit=limit, counted=counted) == newest[:limit]
    march = {"since_us": 1_772_366_400_200_000, "until_us": 1_772_366_400_500_000}
    assert texts(imports, "tea", **march) == ["tea 2"]


def test_beginnings_of_few_words_and_of_very_many_are_found(imports: Imports) -> None:
    made = Transcript()
    made.user(" ".join(f"cup{number}" for number in range(700)))
    made.user("Cup, cup1, CUPBOARD.")
    made.user("café caf\ue000")
    imports.read("a.jsonl", made)
    for words, wanted in (("cup*", 2), ("cupb*", 1), ("CUP1*", 2), ("cup69*", 1), ("cupx*", 0)):
        assert len(find(imports, words)) == wanted, words
    assert len(find(imports, "caf*")) == len(find(imports, "café*")) == 1
    assert len(find(imports, "cup* -cupb*")) == 1


def test_of_a_result_the_tool_is_told(talked: Imports) -> None:
    (hit,) = find(talked, "door", role="tool")
    assert (hit.tool, hit.kind) == ("Bash", "tool_result")


def test_arguments_are_found_as_they_are_meant_not_as_json_spells_them(imports: Imports) -> None:
    made = Transcript()
    made.user("Write.")
    made.answer(use("c1", "Write", content="first\nsecond\tthird", blob="QUJD" * 50))
    imports.read("a.jsonl", made)
    assert len(find(imports, "second third")) == 1
    assert find(imports, "nsecond") == []
    assert find(imports, "QUJD*") == []


def test_scripts_without_blanks_are_found_by_any_part(imports: Imports) -> None:
    made = Transcript()
    made.user("冷たいお茶をください。 커피숍에서")
    made.answer(text("はい。"))
    imports.read("a.jsonl", made)
    for words in ("お茶", "茶", "冷たい", "커피", '"お茶を"', "茶 ください"):
        assert len(find(imports, words)) == 1, words
    assert find(imports, "茶お") == []


def test_a_commit_that_is_gone_is_never_told(talked: Imports) -> None:
    hits = find(talked, "door")
    kept: list[CommitId] = [hit.ctx for hit in hits[1:] if hit.ctx is not None]
    talked.store.collect((), now="2027-01-01T00:00:00Z", grace_s=0)
    assert len(find(talked, "door")) == 3

    class Lost:
        """The store, after somebody took a commit away."""

        def __getattr__(self, name: str) -> Any:
            return getattr(talked.store, name)

        def commits(self, names: Any) -> Any:
            return talked.store.commits(name for name in names if name in kept)

    found = search(talked.facts, Lost(), SearchQuery(text="door"))
    assert [hit.excerpt.text for hit in found.hits] == texts(talked, "door")[-2:]
    assert found.total == 2


@pytest.mark.parametrize(
    "body", [b"no message", b"[]", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}"]
)
def test_a_message_that_cannot_be_read_is_found_without_its_text(
    talked: Imports, body: bytes
) -> None:
    class Odd:
        """The store, with something else in the place of everything."""

        def __getattr__(self, name: str) -> Any:
            return getattr(talked.store, name)

        def objects(self, names: Any) -> Any:
            return dict.fromkeys(names, body)

    found = search(talked.facts, Odd(), SearchQuery(text="door"))
    assert [hit.excerpt.text for hit in found.hits] == ["", "", ""]


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


def test_what_is_in_no_commit_is_found_in_its_log(imports: Imports, logged: Session) -> None:
    (hit,) = find(imports, "cafe")
    assert (hit.ctx, hit.session, hit.excerpt.text) == (None, "s", "Is the cafe open?")
    found = search(imports.facts, None, SearchQuery(text="cafe"))
    assert [one.excerpt.text for one in found.hits] == ["Is the cafe open?"]


def test_a_log_that_is_gone_leaves_the_hit_without_its_text(
    imports: Imports, logged: Session
) -> None:
    logged.path.unlink()
    assert texts(imports, "cafe") == [""]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(max_size=40))
def test_whatever_is_written_is_looked_for(imports: Imports, words: str) -> None:
    try:
        find(imports, words)
    except ConfigError as error:
        assert "no word" in str(error)  # noqa: PT017 - else it is found
