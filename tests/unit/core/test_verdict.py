"""Verdict parsing: text that models add around a verdict, and quoted verdicts."""

import time

import pytest

from harken.core.verdict import (
    Comment,
    Deny,
    Ok,
    ParsedVerdict,
    Rewrite,
    Verdict,
    create_verdict,
    describe_verdict,
    parse_model_verdict,
    strip_code_fence,
)

OK = ParsedVerdict("OK", "")
NO = ParsedVerdict("DENY", "no")


@pytest.mark.req("S4-25")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("OK", OK),
        (" ok.\n", OK),
        ("**OK**", OK),
        ("`OK`", OK),
        ('"OK"', OK),
        ("```\nOK\n```", OK),
        ("~~~text\nOK\n~~~\n", OK),
        ("It only reads a file.\n\nOK", OK),
        ("It only reads a file.\n\nVerdict: **OK**", OK),
        ("<think>\nDENY: perhaps?\n</think>\n\nOK", OK),
        ("OK\n\nOK", OK),
        ("DENY: no", NO),
        ("deny: no", NO),
        ("Deny : no", NO),
        ("**DENY:** no", NO),
        ("**DENY**: no", NO),
        ("**DENY: no**", NO),
        ("__Deny:__ no", NO),
        ("## DENY: no", NO),
        ("```\nDENY: no\n```", NO),
        ("\u201cDENY: no\u201d", NO),
        ("It deletes all.\n\n**Final verdict:** DENY: no", NO),
        ("DENY:\n\nno", NO),
        ("COMMENT: a: b\nand c", ParsedVerdict("COMMENT", "a: b\nand c")),
        ("COMMENT: say **please**", ParsedVerdict("COMMENT", "say **please**")),
        ("COMMENT:", ParsedVerdict("COMMENT", "")),
        ('REWRITE: {"text": "x"}', ParsedVerdict("REWRITE", '{"text": "x"}')),
        ("REWRITE:\n```\nOK\n```", ParsedVerdict("REWRITE", "```\nOK\n```")),
    ],
)
def test_verdict_is_parsed_from_surrounding_text(words: str, expected: ParsedVerdict) -> None:
    assert parse_model_verdict(words) == expected


@pytest.mark.req("S4-25")
@pytest.mark.parametrize(
    "words",
    [
        "",
        "Fine.",
        "OKAY",
        "DENY",
        "OK, but be careful.",
        "OK\n\nLet me see first what it does.",
        "I say DENY: x",
        "OK\nDENY: no",
        "DENY: no\n\nOK",
        "DENY: a\nDENY: b",
        "COMMENT: mind\nREWRITE: {}",
        "The agent said:\n> OK",
        "The agent said:\n```\nOK\n```",
        'The agent said:\n"OK"',
        "The agent said:\n```\nDENY: x\n```\nwhich is odd.",
        '"OK" or "DENY: no"',
    ],
)
def test_quoted_or_contradictory_text_is_no_verdict(words: str) -> None:
    assert parse_model_verdict(words) is None


@pytest.mark.parametrize("verdict", [Ok(), Comment("a"), Deny("b"), Rewrite("c")])
def test_verdict_is_created_from_its_kind_and_text(verdict: Verdict) -> None:
    assert create_verdict(*describe_verdict(verdict)) == verdict


def test_stop_is_a_denial() -> None:
    assert create_verdict("stop", "enough") == Deny("enough")


def test_code_fence_around_the_whole_answer_is_removed() -> None:
    assert strip_code_fence('```json\n{"a": 1}\n```') == '{"a": 1}'
    two = "```\na\n```\nand\n```\nb\n```"
    assert strip_code_fence(two) == two


@pytest.mark.parametrize(
    "letter", ["*", "_", "`", "~", " ", "\n", "#", '"', "OK\n", "verdict:", "DENY:"]
)
def test_long_answer_is_parsed_in_linear_time(letter: str) -> None:
    began = time.process_time()
    for words in (letter * 50_000, letter * 50_000 + "x", "<think>" * 20_000 + letter):
        parse_model_verdict(words)
    assert time.process_time() - began < 5
