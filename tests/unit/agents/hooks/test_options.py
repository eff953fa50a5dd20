"""Options of hooks: plain values that stand in the birth, and come back from it."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken import Agent, AgentRuntime, Deny, Hook, HookQuestion, Ok, register_agent_class
from harken.agents.hooks.options import HookOptions, options_from
from harken.agents.hooks.registry import BUILT_IN, get_hook_class
from harken.agents.runtime import AgentLibrary
from harken.core.event_types.spec import HookPoint
from harken.core.verdict import Verdict
from harken.errors import ConfigError, NameNotFound
from tests.agent_kit import Stage, call, call_message, open_stage, script_model


class Words(HookOptions, frozen=True):
    forbidden: tuple[str, ...] = ()
    most: int = 3


@register_agent_class("test-words")
class Wordy(Hook):
    """Denies answers with certain words; it works its options up when it begins."""

    Options = Words
    options: Words
    points: ClassVar[frozenset[HookPoint]] = frozenset({"response"})

    def begin(self) -> None:
        self.words = {word.lower() for word in self.options.forbidden}

    def judge(self, question: HookQuestion) -> Verdict:
        return Deny("no") if self.words & {*question.text.lower().split()} else Ok()


def staged(folder: Path, **options: Any) -> tuple[Stage, Hook]:
    asks = call_message(call("task", name="Ann", prompt="Go."))
    script = script_model(
        main=["a bad word", "Fine.", "a bad one", "Well.", asks, "Done."], Ann=["Bad"]
    )
    one = open_stage(folder, script)
    return one, Wordy(one.session, runtime=one.runtime, options=options).install(one.root, "words")


def test_options_stand_in_the_birth_those_by_default_do_not(tmp_path: Path) -> None:
    one, hook = staged(tmp_path, forbidden=["bad"])
    assert (hook.state.spec.kind, hook.state.spec.options) == ("test-words", {"forbidden": ["bad"]})
    plain = Wordy(one.session).install(one.root, "plain")
    assert (plain.state.spec.kind, plain.state.spec.options) == ("test-words", None)


@pytest.mark.req("S4-28")
def test_a_resumed_hook_has_its_options_when_it_begins(tmp_path: Path) -> None:
    one, _ = staged(tmp_path, forbidden=["Bad"])
    assert one.ask("Go.") == "Fine."
    later = one.resume()
    assert later.ask("Go on.") == "Well."
    [hook] = later.root.hooks
    assert isinstance(hook, Wordy)
    assert hook.options == Words(forbidden=("Bad",))


@pytest.mark.req("S4-29")
def test_a_copy_has_the_same_options(tmp_path: Path) -> None:
    one, hook = staged(tmp_path, forbidden=["bad"])
    child = Agent(one.session)
    copy = hook.copy_for(child)
    assert copy is not None
    assert copy.options == hook.options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"most": "3"}, "options of hook test-words: Expected `int`, got `str` - at `$.most`"),
        ({"moist": 3}, "option 'moist' not found; existing options: forbidden, most"),
    ],
)
def test_options_that_cannot_be_are_one_line(tmp_path: Path, options: Any, said: str) -> None:
    one = open_stage(tmp_path, script_model(main=[]))
    with pytest.raises(ConfigError, match="options of hook") as raised:
        Wordy(one.session, options=options)
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert options_from("x", Words, Words(most=4)) == Words(most=4)
    assert options_from("x", HookOptions, HookOptions()) == HookOptions()


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_hooks_are_found_by_name(name: str) -> None:
    kind = get_hook_class(name, AgentRuntime())
    assert kind._kind == name
    assert options_from(name, kind.Options, {}) == kind.Options()


def test_what_is_no_hook_is_not_found() -> None:
    for name in ("smart", "nothing"):
        with pytest.raises(NameNotFound, match="changed-files"):
            get_hook_class(name, AgentRuntime())
    assert (
        get_hook_class("mine", AgentRuntime(library=AgentLibrary(kinds={"mine": Wordy}))) is Wordy
    )
