"""The comparison of what a model reads at two commits."""

from __future__ import annotations

from harken.context.checkpoint import CommitDraft
from harken.context.compaction import compact
from harken.store.memory import MemoryStore
from harken.views.history.commit_comparison import CommitComparison
from tests.unit.context.kit import commit


def test_messages_are_kept_rewritten_and_added() -> None:
    store = MemoryStore()
    root = commit(store, None, "which tea?", "green tea is the best of all of them")
    left = commit(store, root, "a cup of it please", "here it is, a cup of green tea for you")
    right = commit(
        store, root, "a cup of it please", "here it is, a pot of green tea for you", "and milk?"
    )
    comparison = CommitComparison.read(store, left, right)
    assert comparison.kept == 3
    assert [row.kind for row in comparison.rows()] == ["same", "same", "same", "changed", "added"]
    changed = comparison.rows()[3]
    spans = [(span.kind, span.text) for span in changed.spans if span.kind != "same"]
    assert spans == [("dropped", "cup"), ("added", "pot")]
    bounded = [*comparison.iter_bounded_rows(3, 5)]
    assert [difference.row for difference in bounded] == comparison.rows()[3:]
    assert not any(difference.is_partial for difference in bounded)


def test_a_compaction_drops_what_its_summary_replaces() -> None:
    store = MemoryStore()
    long = commit(store, None, "one", "two", "three", "four")
    short = compact(store, CommitDraft(parent=long), "They counted.")
    rows = CommitComparison.read(store, long, short).rows()
    assert [row.kind for row in rows] == ["dropped"] * 4 + ["added"]
    assert rows[-1].text == "They counted."


def test_texts_that_take_too_long_are_not_compared_word_by_word() -> None:
    store = MemoryStore()
    words = [" ".join(f"{letter}{number} same" for number in range(3000)) for letter in "ab"]
    left, right = (commit(store, None, text) for text in words)
    [difference] = CommitComparison.read(store, left, right).iter_bounded_rows(0, 10)
    assert difference.is_partial
    assert {span.kind for span in difference.row.spans} <= {"dropped", "added", "same"}
