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


@pytest.mark.req("S4-25")
@pytest.mark.parametrize(
    ("words", "word"),
    [
        ("OK", "OK"),
        ("OK.", "OK"),
        ("OK, looks good.", "OK"),
        ("Okay", "OK"),
        ("OK - fine", "OK"),
        ("ok!", "OK"),
        ("Accept", "OK"),
        ("OK\nThat is all.", "OK"),
        ("**OK** - nothing to say", "OK"),
        ("Verdict: OK, no problem", "OK"),
        ("DENY - rude", "DENY"),
        ("DENY. Maximum subagents (3) already reached.", "DENY"),
        ("Deny. It is rude", "DENY"),
        ("DENIED: rude", "DENY"),
        ("DENY: rude", "DENY"),
        ("**Deny** - rude", "DENY"),
        ("REWRITE:\n{}", "REWRITE"),
        ("I think it is fine.\nOK", "OK"),
        ("OK, but: DENY", None),
        ("OK\nDENY: no", None),
        ("OK, but DENY this", None),
        ("DENY: x\nOK", None),
        ("It says:\n```\nOK\n```", None),
        ('The agent says "OK, looks good."', None),
        ("Okay so let me think about it", None),
        ("DENY", None),
        ("Not OK.", None),
        ("It is OK, I think", None),
        ("Block storage is fine", None),
        ("Comment on this later", None),
    ],
)
def test_first_word_of_an_answer_is_read_leniently(words: str, word: str | None) -> None:
    parsed = parse_model_verdict(words)
    assert (parsed and parsed.word) == word


@pytest.mark.req("S4-25")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("DENY - rude", ParsedVerdict("DENY", "rude")),
        ("DENY \u2013 rude", ParsedVerdict("DENY", "rude")),
        ("Blocked", None),
        ("**DENY - rude**", ParsedVerdict("DENY", "rude")),
        ("DENY\nrude", ParsedVerdict("DENY", "rude")),
        ("Block. Too long.\nSay less.", ParsedVerdict("DENY", "Too long.\nSay less.")),
        ("Comment - mind the step", ParsedVerdict("COMMENT", "mind the step")),
        ('Rewrite - {"a": 1}', ParsedVerdict("REWRITE", '{"a": 1}')),
        ("OK: no objection", OK),
        ("OK, the code block and the comment are fine", OK),
        ("OK\nDeny - no", None),
        ("OK. Block it.", None),
        ("OK, I would deny it", None),
        ("OK, let me look first.", None),
        ("OK-ish, with a typo", None),
        ("OK.net is a site", None),
        ("Deny - no\nOK.", None),
    ],
)
def test_text_after_the_first_word_decides(words: str, expected: ParsedVerdict | None) -> None:
    assert parse_model_verdict(words) == expected


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
    "letter",
    [
        "*",
        "_",
        "`",
        "~",
        " ",
        "\n",
        "#",
        '"',
        "OK\n",
        "verdict:",
        "DENY:",
        "OK, ",
        "deny - ",
        "OK. ",
    ],
)
def test_long_answer_is_parsed_in_linear_time(letter: str) -> None:
    began = time.process_time()
    for words in (letter * 50_000, letter * 50_000 + "x", "<think>" * 20_000 + letter):
        parse_model_verdict(words)
    assert time.process_time() - began < 5
