"""Long tool outputs are truncated as Codex does it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harken.formats.runtimes.codex.resume_request import (
    OUTPUT_BYTES,
    build_resume_request,
    truncate_middle,
)
from tests.unit.formats.runtimes.codex.test_reader import CALL, OUTPUT, read_tip, rollout


def test_long_outputs_are_truncated_in_the_middle() -> None:
    long = {**OUTPUT, "output": "é" * OUTPUT_BYTES}
    (_, output) = build_resume_request(read_tip(rollout(CALL, long)))
    assert output["output"] == "é" * 3000 + f"…{OUTPUT_BYTES - 6000} chars truncated…" + "é" * 3000


def test_texts_of_one_output_share_its_limit() -> None:
    def block(text: str) -> dict[str, str]:
        return {"type": "input_text", "text": text}

    image = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    blocks = [block("a" * 8), block(""), image, block("b" * 8), block("c")]
    entries = read_tip(rollout(CALL, {**OUTPUT, "output": blocks}))
    assert build_resume_request(entries, output_bytes=10)[1]["output"] == [
        block("a" * 8),
        image,
        block("b…6 chars truncated…b"),
        block("[omitted 1 text items ...]"),
    ]


@given(st.text(), st.integers(1, 40))
def test_truncated_output_stays_within_the_limit(text: str, limit: int) -> None:
    result = truncate_middle(text, limit)
    head, _, remaining = result.partition("…")
    tail = remaining.rpartition("…")[2]
    if len(text.encode()) > limit and "…" not in text:
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len((head + tail).encode()) <= limit
