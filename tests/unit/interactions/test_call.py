"""Messages of any client in logged calls: no content is lost, and none raises."""

from __future__ import annotations

from pathlib import Path

from tests.unit.interactions.kit import HI, KIND, logger


def test_messages_of_unknown_shapes_are_logged_as_they_are(tmp_path: Path) -> None:
    with logger(tmp_path) as log:
        thread = log.start_thread()
        with log.call(thread, [HI, {"role": "user", "content": 7}]) as call:
            call.answer({"role": "nobody"})
        ids = [row.message_id for row in log.get_thread(thread) if row.message_id is not None]
        logged = [log.get_message(id_) for id_ in dict.fromkeys(ids)]
    shown = [f"{message.content} {message.metadata}" for message in logged if message is not None]
    assert ['"content":7' in text for text in shown] == [False, True, False]
    assert ["nobody" in text for text in shown] == [False, False, True]


def test_images_and_calls_of_anthropic_are_logged_as_such(tmp_path: Path) -> None:
    def image(data: str) -> dict[str, object]:
        source = {"type": "base64", "media_type": "image/png", "data": data}
        return {"role": "user", "content": [{"type": "image", "source": source}]}

    call = {"type": "tool_use", "id": "t1", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "a door"}
    with logger(tmp_path) as log:
        thread = log.start_thread()
        messages = [
            image("aGk="),
            image("aG8="),
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
        log.log_context_state(thread, messages, KIND.LLM_REQUEST)
        added = [row for row in log.get_thread(thread) if row.event_type == "MESSAGE_ADDED"]
        logged = [log.get_message(row.message_id or "") for row in added]
    roles = [message.role.value for message in logged if message is not None]
    assert roles == ["USER", "USER", "TOOL_CALL", "TOOL_RESULT"]
    assert added[0].message_id != added[1].message_id
