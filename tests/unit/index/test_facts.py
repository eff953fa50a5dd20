"""The facts: one row for each thing that was said, however many files and commits repeat it."""

from __future__ import annotations

import pytest

from tests.unit.formats.transcripts import Transcript, text, use
from tests.unit.index.imported import Imports

ID = "msg_01Xa9bK3vQ7rT5wY2zN4cM6d"


def test_what_is_said_once_is_one_row(imports: Imports) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text("It is."))
    imports.read("a.jsonl", made)
    kinds = imports.rows("SELECT role, kind, is_repeat FROM messages")
    assert kinds == [("user", "prompt", 0), ("assistant", "response", 0)]
    assert imports.rows("SELECT rowid FROM words WHERE words MATCH 'cafe'") == [(1,)]


@pytest.mark.req("S2-73")
def test_prompts_are_what_a_person_said(imports: Imports) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(use("c1"))
    made.result("c1", "yes")
    made.answer(text("It is."))
    made.user("<command-name>/clear</command-name>")
    made.user("Never mind.", isMeta=True)
    made.user("Then tea, please.")
    made.answer(text("Coming."))
    imports.read("a.jsonl", made)
    assert imports.column("SELECT count(*) FROM messages WHERE kind = 'prompt'") == [2]


def test_a_response_over_three_lines_in_two_files_is_counted_once(imports: Imports) -> None:
    for session in ("5e551011-0000-4000-8000-000000000001", "6f662022-0000-4000-8000-000000000002"):
        made = Transcript(session)
        made.user("Is the cafe open?" if session.endswith("1") else "Again: is it open?")
        made.answer(text("I look."), id=ID)
        made.answer(use("c1"), id=ID)
        made.answer(use("c2"), id=ID)
        made.result("c1", "yes")
        made.result("c2", "until six")
        made.answer(text("Until six."), id=f"msg_{session}")
        imports.read(f"{session}.jsonl", made)
    responses = imports.rows("SELECT response, input_tokens, output_tokens FROM requests")
    assert len(responses) == 3
    assert sorted(row[0] for row in responses).count(ID) == 1
    assert sum(row[1] for row in responses) == 30


def test_again_only_what_is_new_is_read(imports: Imports) -> None:
    made = Transcript()
    made.user("Is the cafe open?")
    made.answer(text("It is."))
    imports.read("a.jsonl", made)
    made.user("Tea, please.")
    made.answer(text("Coming."))
    imports.read("a.jsonl", made)
    imports.update()
    assert imports.column("SELECT count(*) FROM messages WHERE NOT is_repeat") == [4]
    assert imports.column("SELECT count(*) FROM commits") == [2]
