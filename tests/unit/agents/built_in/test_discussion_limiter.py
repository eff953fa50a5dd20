"""The built-in smart hook `discussion-limiter`: a discussion that goes in circles ends."""

from pathlib import Path
from typing import Any

from harken.agents.tree.hook_file import HookFiles
from harken.llm.base import ModelRequest
from tests.agent_kit import call, call_message, check_log
from tests.unit.agents.smart_hooks import Cast, guarded, last, texts
from tests.unit.agents.tree.test_hook_action import then


def limits(request: ModelRequest) -> Any:
    """Follow what the file says: count rounds without news in notes; deny after two of them."""
    question = texts(request)[-1]
    stale = sum("nothing new" in text for text in texts(request) if text.startswith("[note]"))
    if last(request).role == "tool":
        return "COMMENT: Nothing new was said."
    if question.startswith("[result]") and "Tea." in question:
        return call_message(call("keep_note", text="A round with nothing new."))
    if question.startswith("[action] Agent main is about to call discuss") and stale >= 2:
        return "DENY: both have said what they have to say: decide"
    return "OK"


def test_a_discussion_that_brings_nothing_new_is_ended(tmp_path: Path) -> None:
    rounds = [call_message(call("discuss", f"d{n}", prompt="And now?")) for n in range(3)]
    made = call_message(call("task", name="kim", instructions="You like tea."))
    cast = Cast(main=then(made, *rounds, "Tea it is."), kim=lambda _: "Tea.", limiter=limits)
    one = guarded(tmp_path, cast)
    HookFiles().create("discussion-limiter", one.root).install(one.root, "limiter")
    assert one.ask("What do we drink?") == "Tea it is."
    assert one.result("d1")["content"] == "Tea."
    blocked = (
        "Error: Action blocked by hook 'limiter': both have said what they have to say: decide"
    )
    assert one.result("d2")["content"] == blocked
    assert one.user_messages("kim") == ["And now?", "And now?"]
    assert one.user_messages("main").count("[hook limiter]: Nothing new was said.") == 2
    [copy] = one.agent("kim").hooks
    assert copy.name == "limiter"
    check_log(one.log)
