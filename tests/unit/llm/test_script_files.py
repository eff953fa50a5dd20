"""Reading script files, and the errors for malformed ones."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harken.core.messages import FunctionCall, ToolCall
from harken.errors import ScriptError
from harken.llm.scripted import ScriptedModel
from tests.unit.llm.model_kit import get_answer, request


def load_script(folder: Path, script: str) -> ScriptedModel:
    file = folder / "script.yaml"
    file.write_text(script)
    return ScriptedModel.load(file)


def load_error(folder: Path, script: str) -> str:
    with pytest.raises(ScriptError) as caught:
        load_script(folder, script)
    text = str(caught.value)
    assert "\n" not in text
    return text.removeprefix(f"{folder / 'script.yaml'}")


def test_script_is_read_from_a_file(tmp_path: Path) -> None:
    model = load_script(
        tmp_path,
        r"""
        # Two people in a cafe
        rules:
          - agent: Jack
            pattern: "(\\w+) is here"
            expand: true
            answer: Hi \1
            delay_s: 0.001
            usage: {input_tokens: 3, output_tokens: 2}
          - calls:
              - task: {name: Jack, prompt: "Say: hi"}
              - tool: task
                id: c2
                arguments:
                  name: Jill
        """,
    )
    assert model.name == f"scripted:{tmp_path / 'script.yaml'}"
    assert get_answer(model, request("Jill is here")).content == "Hi Jill"
    assert get_answer(model, request("Go", agent="root")).tool_calls == [
        ToolCall("call_001_0", FunctionCall("task", '{"name":"Jack","prompt":"Say: hi"}')),
        ToolCall("c2", FunctionCall("task", '{"name":"Jill"}')),
    ]


def test_part_of_a_rule_may_be_shared_and_overridden(tmp_path: Path) -> None:
    script = 'rules:\n- &hi\n  agent: Jack\n  answer: "Hi"\n- <<: *hi\n  agent: Jill\n'
    assert get_answer(load_script(tmp_path, script), request("", agent="Jill")).content == "Hi"


def test_missing_script_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ScriptError, match=r"none\.yaml: cannot be read \(No such file"):
        ScriptedModel.load(tmp_path / "none.yaml")
    with pytest.raises(ScriptError, match=r"cannot be read \(Is a directory\)"):
        ScriptedModel.load(tmp_path)


@pytest.mark.parametrize("data", [b"\x00\x01", b"\xff\xfe\xff", b"rules: [\xc3]"])
def test_script_that_is_no_text_is_rejected(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "script.yaml").write_bytes(data)
    with pytest.raises(ScriptError, match="not YAML"):
        ScriptedModel.load(tmp_path / "script.yaml")


BEGINS = "a script starts with `rules:`; write each rule below it, after `- `"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", f", line 1: {BEGINS}"),
        ("- answer: Hi", f", line 1: {BEGINS}"),
        ("rules:\n  answer: Hi", f", line 1: {BEGINS}"),
        ("rules: []\nrule: 1", ", line 2: a script has no key 'rule'; it has rules"),
        ("rules: []\nrules: []", ", line 1: rules occurs twice: one list holds all rules"),
        (
            "rules:\n- answer: Hi: you",
            (
                ", line 2: not YAML: mapping values are not allowed here; "
                "put a text with signs such as `: # , ?` in quotes"
            ),
        ),
        ("rules:\n- answer: 2024-99-99", ": not YAML: 'month must be in 1..12'"),
        ("rules: &a [*a]", ", line 1: a rule is a mapping: write `- answer: ...`, not '[[...]]'"),
    ],
)
def test_file_without_a_script_is_rejected(tmp_path: Path, script: str, expected: str) -> None:
    assert load_error(tmp_path, script) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("Hi", ", line 3: a rule is a mapping: write `- answer: ...`, not 'Hi'"),
        ("agent: Jack", ", line 3: a rule needs an answer, calls or an error"),
        ("answer: yes", ", line 3: answer is a string; put it in quotes, not 'True'"),
        ("answer:", ", line 3: answer is a string; put it in quotes, not 'None'"),
        (
            "answer: Hi\n  answer: Ho",
            ", line 3: answer occurs twice: start each rule with `- `",
        ),
        ("answer: Hi\n  turn: 0", ", line 4: turn is a whole number from 1, not '0'"),
        ("answer: Hi\n  turn: true", ", line 4: turn is a whole number from 1, not 'True'"),
        ("answer: Hi\n  delay_s: -1", ", line 4: delay_s is a number of seconds, not '-1'"),
        ("answer: Hi\n  expand: 1", ", line 4: expand is true or false, not '1'"),
        (
            "answer: Hi\n  expand: true",
            ", line 4: expand needs a pattern, whose groups the answer names",
        ),
        (
            "expand: true\n  pattern: x\n  answer: Hi \\1",
            ", line 5: answer cannot be expanded: invalid group reference 1 at position 4",
        ),
        (
            "answer: Hi\n  pattern: '('",
            (
                ", line 4: pattern '(' is not a valid regular expression: "
                "missing ), unterminated subpattern at position 0"
            ),
        ),
        (
            "answer: Hi\n  usage: {tokens: 1}",
            (
                ", line 4: usage has no key 'tokens'; it has "
                "input_tokens, output_tokens, cache_read_tokens, cache_write_tokens"
            ),
        ),
        (
            "answer: Hi\n  usage:\n    input_tokens: many",
            ", line 5: input_tokens is a whole number, not 'many'",
        ),
        (
            "answer: Hi\n  usage: 3",
            ", line 4: usage is a mapping: write {output_tokens: 2}, not '3'",
        ),
        ("calls: {look: {}}", ", line 3: calls is a list of calls: write `- TOOL: {...}`, not"),
        (
            "calls:\n  - look",
            ", line 4: a call is a mapping: write `- TOOL: {...}`, not 'look'",
        ),
        (
            "calls:\n  - task:\n    name: Jack",
            ", line 4: a call names one tool, not task, name: indent arguments below their tool",
        ),
        ("calls:\n  - look: [1]", ", line 4: arguments of look are a mapping, not '[1]'"),
        (
            "calls:\n  - look: {on: 1}",
            ", line 4: arguments of look are not valid JSON (bool is not a JSON value",
        ),
        ("calls:\n  - on: {}", ", line 4: names and ids are texts: put True in quotes"),
        (
            "calls:\n  - {tool: a, id: 1}",
            ", line 4: names and ids are texts: put 1 in quotes",
        ),
        (
            "calls:\n  - tool: a\n    args: {}",
            ", line 5: a call has no key 'args'; it has tool, id, arguments",
        ),
        (
            "calls:\n  - {tool: a, id: c1}\n  - {tool: b, id: c1}",
            ", line 5: two calls have the id 'c1'",
        ),
    ],
)
def test_malformed_rule_is_rejected_with_its_line(tmp_path: Path, rule: str, expected: str) -> None:
    assert load_error(tmp_path, f"rules:\n- answer: fine\n- {rule}\n").startswith(expected)


def test_unknown_key_is_named_with_the_valid_ones(tmp_path: Path) -> None:
    assert load_error(tmp_path, "rules:\n- answer: Hi\n  when: x\n") == (
        ", line 3: a rule has no key 'when'; it has agent, pattern, turn, answer, calls, "
        "thinking, stop_reason, usage, delay_s, error, expand"
    )


def test_scripts_of_the_documentation_are_valid(tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "how-to" / "script-a-model.md"
    scripts = re.findall(r"```yaml[^\n]*\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(scripts) == 4
    for script in scripts:
        assert load_script(tmp_path, script).rules
