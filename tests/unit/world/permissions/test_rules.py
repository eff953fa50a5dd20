"""Rules: what their texts mean, and which texts are none."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harken import ConfigError
from harken.world.permissions.pattern import compile_pattern, escape_pattern, matches_path
from harken.world.permissions.rules import PermissionRule, PermissionRules


@pytest.mark.parametrize(
    ("text", "agent", "tool", "pattern"),
    [
        ("write", None, "write", None),
        ("  write ", None, "write", None),
        ("bash(git status*)", None, "bash", "git status*"),
        ("edit(src/**)", None, "edit", "src/**"),
        ("reviewer:bash(pytest*)", "reviewer", "bash", "pytest*"),
        ("reviewer:bash", "reviewer", "bash", None),
        ("bash(echo (a) b:c)", None, "bash", "echo (a) b:c"),
        ('bash(echo "x")', None, "bash", 'echo "x"'),
        ('"an agent: (odd)":edit', "an agent: (odd)", "edit", None),
        ('"a \\"b\\"":edit', 'a "b"', "edit", None),
        ('"*":"a b"(c)', "\\*", "a b", "c"),
        ("mcp__git__*", None, "mcp__git__*", None),
        ("Jäger-2:edit", "Jäger-2", "edit", None),
        ("bash(line\nline)", None, "bash", "line\nline"),
    ],
)
def test_a_rule_names_a_tool_perhaps_an_agent_and_what_it_is_about(
    text: str, agent: str | None, tool: str, pattern: str | None
) -> None:
    rule = PermissionRule.parse(text)
    assert (rule.agent, rule.tool, rule.pattern) == (agent, tool, pattern)
    assert str(rule) == text.strip()


@pytest.mark.parametrize(
    "text",
    ["", " ", "bash(", "bash()", "bash(x", "a b", "a:b:c", ":bash", "(x)", '"a:b', '"\\x":b'],
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        PermissionRule.parse(text)


def test_a_rule_concerns_the_tools_and_agents_that_it_names() -> None:
    assert PermissionRule.parse("bash").concerns("bash", ["anybody"])
    assert not PermissionRule.parse("bash").concerns("bash2", ["anybody"])
    assert PermissionRule.parse("git__*").concerns("git__push", [])
    assert PermissionRule.parse("Ann:bash").concerns("bash", ["Bob", "Ann"])
    assert not PermissionRule.parse("Ann:bash").concerns("bash", ["Bob"])
    assert PermissionRule.parse("review*:bash").concerns("bash", ["reviewer 2"])
    assert not PermissionRule.parse('"*":bash').concerns("bash", ["Ann"])


@given(st.text(min_size=1), st.none() | st.text(min_size=1))
def test_the_rule_for_a_tool_and_a_text_is_just_that(tool: str, about: str | None) -> None:
    rule = PermissionRule.of(tool, None if about is None else escape_pattern(about))
    assert PermissionRule.parse(str(rule)) == rule
    assert rule.concerns(tool, [])
    assert not rule.concerns(f"{tool}x", [])
    if about is not None and rule.pattern is not None:
        assert compile_pattern(rule.pattern).matches(about)


def test_rules_are_read_from_three_lists() -> None:
    rules = PermissionRules.parse(allow=["a"], ask=["b", "c"], deny=["d"])
    assert [list(map(str, some)) for some in (rules.allow, rules.ask, rules.deny)] == [
        ["a"],
        ["b", "c"],
        ["d"],
    ]
    with pytest.raises(ConfigError, match="is not a rule"):
        PermissionRules.parse(deny=["d("])


@given(st.lists(st.sampled_from(["a", "b", "ab", "*", "\\*", "\\\\", "\\"])), st.text("ab*\\"))
def test_a_pattern_matches_what_its_regular_expression_does(pieces: list[str], text: str) -> None:
    regex = {"*": ".*", "\\*": r"\*", "\\\\": r"\\", "\\": r"\\"}
    pattern = "".join(pieces)  # pieces side by side may make another one: it is read again
    read = re.findall(r"\\[*\\]|\*|[^*\\]|\\", pattern)
    expected = re.fullmatch("".join(regex.get(one, re.escape(one)) for one in read), text)
    assert compile_pattern(pattern).matches(text) == (expected is not None)


@pytest.mark.parametrize(
    ("pattern", "fits", "does_not"),
    [
        ("*.md", ["a.md", ".md"], ["a/b.md", "a.mdx"]),
        ("src/*", ["src/a", "src/.a"], ["src", "src/a/b", "srcs/a"]),
        ("src/**", ["src", "src/a", "src/a/b"], ["srcs/a", "a/src"]),
        ("**/a.py", ["a.py", "b/a.py", "c/b/a.py"], ["ba.py", "a.py/b"]),
        ("a/**/z", ["a/z", "a/b/z", "a/b/c/z"], ["a", "z", "a/b", "b/a/z"]),
        ("**", [".", "a", "a/b"], []),
        ("a\\*b", ["a*b"], ["axb"]),
        ("/etc/**", ["/etc", "/etc/x/y"], ["etc/x", "/etcx"]),
        ("src/", ["src"], ["src/a"]),
    ],
)
def test_a_star_stays_within_a_name_and_two_stars_are_any_names(
    pattern: str, fits: list[str], does_not: list[str]
) -> None:
    assert [path for path in fits if not matches_path(pattern, path)] == []
    assert [path for path in does_not if matches_path(pattern, path)] == []


@pytest.mark.parametrize("text", ["a" * 100_000, "a/" * 50_000])
def test_matching_takes_time_in_proportion(text: str) -> None:
    pattern = "*a" * 30 + "b"
    assert not compile_pattern(pattern).matches(text)
    assert not matches_path("**/a/" * 30 + "b", text)
