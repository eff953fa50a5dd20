from __future__ import annotations

from time import perf_counter

from hypothesis import given
from hypothesis import strategies as st

from harken.core.messages import FunctionCall, Message, ToolCall
from harken.views.message_diff import (
    MessageDiff,
    TextSpan,
    diff_messages,
    spans,
)


def user(*texts: str) -> list[Message]:
    return [Message("user", text) for text in texts]


def kinds(rows: list[MessageDiff]) -> list[str]:
    return [row.kind for row in rows]


def test_equal_lists_have_only_equal_rows() -> None:
    rows = diff_messages(user("a", "b"), user("a", "b"))
    assert [(row.kind, row.before, row.after) for row in rows] == [("same", 0, 0), ("same", 1, 1)]


def test_call_ids_are_ignored() -> None:
    def call_messages(id_: str) -> list[Message]:
        call = ToolCall(id_, FunctionCall("look", "{}"))
        return [
            Message("assistant", None, tool_calls=[call]),
            Message("tool", "a cat", tool_call_id=id_, name="look"),
        ]

    assert kinds(diff_messages(call_messages("c1"), call_messages("c2"))) == ["same", "same"]


def test_new_message_is_added_at_its_position() -> None:
    rows = diff_messages(user("a", "c"), user("a", "b", "c"))
    assert [(row.kind, row.before, row.after) for row in rows] == [
        ("same", 0, 0),
        ("added", None, 1),
        ("same", 1, 2),
    ]


def test_reworded_message_is_one_change() -> None:
    before = user("one", "The cat sat on the mat by the door", "two words here", "end")
    after = user("one", "The dog sat on the mat by the door", "something else", "new", "end")
    rows = diff_messages(before, after)
    assert kinds(rows) == ["same", "changed", "dropped", "added", "added", "same"]
    assert [span for span in rows[1].spans if span.kind != "same"] == [
        TextSpan(kind="dropped", text="cat"),
        TextSpan(kind="added", text="dog"),
    ]


def test_message_replaced_by_one_message_is_a_change() -> None:
    assert kinds(diff_messages(user("a", "tea", "z"), user("a", "42", "z"))) == [
        "same",
        "changed",
        "same",
    ]
    other_role = [Message("assistant", "tea")]
    assert kinds(diff_messages(user("tea"), other_role)) == ["dropped", "added"]


def test_different_system_prompt_is_a_change() -> None:
    before = [Message("system", "Be kind."), *user("a b c")]
    after = [Message("system", "Never mind"), *user("x y z", "q")]
    rows = diff_messages(before, after)
    assert (rows[0].kind, rows[0].heading) == ("changed", "system")


def test_summary_that_replaces_many_messages_drops_them() -> None:
    before = user(*(f"message {n} is about nothing else than {n * 7}" for n in range(10)))
    rows = diff_messages(before, [*user("They spoke of multiples."), *before[8:]])
    assert kinds(rows) == ["dropped"] * 8 + ["added"] + ["same"] * 2


def test_positions_are_counted_in_both_lists() -> None:
    rows = diff_messages(user("a", "b"), user("x", "b", "c"), kept=2)
    assert [(row.kind, row.before, row.after) for row in rows] == [
        ("changed", 2, 2),
        ("same", 3, 3),
        ("added", None, 4),
    ]


def test_longer_list_has_added_or_dropped_rows() -> None:
    assert kinds(diff_messages(user("a"), user("a", "b"))) == ["same", "added"]
    assert kinds(diff_messages(user("a", "b"), user("a"))) == ["same", "dropped"]
    assert kinds(diff_messages([], [])) == []


def test_unchanged_text_is_shortened() -> None:
    long = "word " * 100
    text_spans = spans(f"{long}tea {long}", f"{long}coffee {long}")
    assert [span.kind for span in text_spans] == ["same", "dropped", "added", "same"]
    assert max(len(span.text) for span in text_spans) < 50
    full_spans = spans(f"{long}tea {long}", f"{long}coffee {long}", around=None)
    assert "".join(span.text for span in full_spans if span.kind != "added") == f"{long}tea {long}"


@given(st.text(), st.text())
def test_spans_reproduce_both_texts(before: str, after: str) -> None:
    text_spans = spans(before, after, around=None)
    assert "".join(span.text for span in text_spans if span.kind != "added") == before
    assert "".join(span.text for span in text_spans if span.kind != "dropped") == after


_lists = st.lists(
    st.sampled_from(["a", "b", "c d e", "c d f", ""]).map(lambda t: Message("user", t))
)


@given(_lists, _lists)
def test_diff_covers_every_message_of_both_lists_in_order(
    before: list[Message], after: list[Message]
) -> None:
    rows = diff_messages(before, after)
    assert [row.before for row in rows if row.before is not None] == [*range(len(before))]
    assert [row.after for row in rows if row.after is not None] == [*range(len(after))]
    for row in rows:
        if row.kind == "same":
            assert row.before is not None
            assert row.after is not None
            assert before[row.before] == after[row.after]


def test_long_unrelated_lists_and_texts_are_fast() -> None:
    start = perf_counter()
    diff_messages(
        user(*(f"{n} a" for n in range(2_000))), user(*(f"{n} b" for n in range(3_000, 5_000)))
    )
    diff_messages(user(*("a b" for _ in range(3_000))), user(*("b c" for _ in range(3_000))))
    spans("a b c " * 100_000, "d e f " * 100_000)
    spans("a b c " * 600, "b c a " * 600)
    assert perf_counter() - start < 20
