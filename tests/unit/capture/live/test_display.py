"""Terminal output of a client whose event stream is recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harken.capture.live.display import make_formatter
from harken.capture.live.invocation import Invocation, Output

INIT = {"type": "system", "subtype": "init"}
SAID = {"type": "assistant", "message": {"content": [{"type": "text", "text": "result"}]}}


def result(text: str = "Hello.", **members: Any) -> dict[str, Any]:
    return {"type": "result", "subtype": "success", "is_error": False, "result": text, **members}


def data(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


def format_output(output: Output, data_in: bytes) -> bytes:
    """Return everything that is printed for bytes that arrive one by one."""
    formatter = make_formatter(
        Invocation(runtime="claude", command=(), output=output, max_turns="3", max_usd="0.5")
    )
    output_text = b"".join(
        formatter.feed(data_in[index : index + 1]) for index in range(len(data_in))
    )
    return output_text + formatter.end()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([result()], "Hello.\n"),
        ([result("Hello.\n")], "Hello.\n"),
        ([result("Grüße 👋")], "Grüße 👋\n"),
        ([result("One."), SAID, result("Two.")], "One.\n\nTwo.\n"),
        ([result("")], "\n"),
        ([result("One."), result("")], "One.\n"),
        ([result(subtype="error_max_turns")], "Error: Reached max turns (3)"),
        ([result(subtype="error_max_budget_usd")], "Error: Exceeded USD budget (0.5)"),
        (
            [result(subtype="error_max_turns"), result("Two.")],
            "Error: Reached max turns (3)\n\nTwo.\n",
        ),
        ([result(subtype="error_during_execution")], "Execution error"),
        (
            [result(subtype="error_max_structured_output_retries", errors=["It does not fit"])],
            "Error: It does not fit",
        ),
        ([], ""),
    ],
)
def test_text_output_is_the_final_message_of_each_turn(
    lines: list[dict[str, Any]], words: str
) -> None:
    assert format_output("text", data(INIT, SAID, *lines)).decode() == words


def test_text_is_printed_when_its_turn_ends() -> None:
    formatter = make_formatter(Invocation(runtime="claude", command=(), output="text"))
    assert formatter.feed(data(INIT, SAID)) == b""
    assert formatter.feed(data(result("One."))) == b"One.\n"


@pytest.mark.parametrize("output", ["text", "json", "jsons"])
def test_run_that_failed_to_start_prints_nothing(output: Output) -> None:
    assert format_output(output, data(result(subtype="error_during_execution"))) == b""


@pytest.mark.parametrize("output", ["text", "json", "jsons"])
def test_lines_that_are_not_events_are_printed_unchanged(output: Output) -> None:
    assert format_output(output, b"Warning: \xff\nno end") == b"Warning: \xff\nno end"


@pytest.mark.parametrize("output", ["text", "json", "jsons"])
def test_object_that_is_no_event_or_too_deep_is_printed_unchanged(output: Output) -> None:
    deep = b'{"type": "deep", "in": ' + b'{"a":' * 20_000 + b"1" + b"}" * 20_001 + b"\n"
    error = b'{"error": "no room"}\n'
    output_text = make_formatter(Invocation(runtime="claude", command=(), output=output)).feed(
        deep + error
    )
    assert output_text == (error if output == "text" else deep + error)


def test_json_result_is_printed_byte_for_byte_without_stream_members() -> None:
    line = b'{"type":"result","cost":1e-7,"n":0.10,"s":"\\u00e9\xc3\xa9","result":"x"'
    output_bytes = data(INIT) + line + b',"model_usage_since_last_result":{"m":{}}}\n'
    assert format_output("json", output_bytes) == line + b"}\n"


def test_verbose_json_prints_all_events_in_one_list() -> None:
    output_bytes = data(INIT, SAID, result())
    assert json.loads(format_output("jsons", output_bytes)) == [INIT, SAID, result()]
    assert format_output("jsons", output_bytes).endswith(b"}]\n")


def test_last_of_several_results_is_printed() -> None:
    output_bytes = data(INIT, result("One."), result("Two."))
    assert json.loads(format_output("json", output_bytes)) == result("Two.")


def test_stream_events_are_printed_byte_for_byte() -> None:
    output_bytes = data(INIT, SAID) + b"\xff{ no end"
    assert format_output("verbatim", output_bytes) == output_bytes
