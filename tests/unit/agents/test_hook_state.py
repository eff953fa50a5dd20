"""The state of hooks and their copies: live, resumed, and wherever a session was cut."""

from pathlib import Path
from typing import Any, ClassVar

import pytest

from harken import (
    Agent,
    AgentRuntime,
    Comment,
    Deny,
    Hook,
    HookQuestion,
    Ok,
    Rewrite,
    SessionViewer,
    load_session,
    register_agent_class,
)
from harken.agents.agent import unload_agent
from harken.agents.runtime import AgentLibrary
from harken.core.event_types.spec import AgentSpec, HookPoint
from harken.core.verdict import Verdict
from harken.errors import NameNotFound
from harken.experiments.replay.check import check
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    fast_options,
    full_state,
    open_stage,
    request_texts,
    run,
    script_model,
)
from tests.session_kit import fold_log, read_lines
from tests.unit.agents.crash_kit import cut_after, resume
from tests.unit.agents.hook_kit import SENT, Judging, send, sending, watch


@register_agent_class("test-counter")
class Counter(Hook):
    """Allows three actions in all."""

    points: ClassVar[frozenset[HookPoint]] = frozenset({"action"})

    def begin(self) -> None:
        self.seen = 0

    def judge(self, question: HookQuestion) -> Verdict:
        self.seen += 1
        if "fail" in question.text:
            raise RuntimeError("cannot judge")
        return Deny(f"{self.seen} are too many") if self.seen > 3 else Ok()

    def dump_state(self) -> Any:
        return {"seen": self.seen}

    def load_saved_state(self, saved: Any) -> None:
        self.seen = saved["seen"]


def counted(folder: Path, *texts: str) -> Stage:
    lines = [line for text in texts for line in (call_message(call("send", text=text)), "Done.")]
    one = open_stage(folder, script_model(main=lines), tools=[send])
    Counter(one.session, runtime=one.runtime).install(one.root, "counter")
    return one


@pytest.mark.req("S0-31", "S4-27")
@pytest.mark.parametrize("how", ["live", "resumed", "evicted"])
def test_a_hooks_state_survives(tmp_path: Path, how: str) -> None:
    one = counted(tmp_path, "a", "b", "c", "d")
    for _ in range(4):
        one.ask("Send.")
        live = full_state(one.session)
        if how == "resumed":
            one = one.resume()
            assert full_state(one.session) == live
        elif how == "evicted":
            unload_agent(one.session, one.id_of("counter"))
    assert SENT == ["a", "b", "c"]
    [blocked] = [r for r in one.select_lines(role="tool") if "is_error" in r]
    assert blocked["content"] == "Error: Action blocked by hook 'counter': 4 are too many"


@pytest.mark.req("S0-31")
def test_the_state_of_a_hook_that_failed_survives_too(tmp_path: Path) -> None:
    one = counted(tmp_path, "fail", "a", "b")
    one.ask("Send.")
    unload_agent(one.session, one.id_of("counter"))
    assert one.agent("counter").seen == 1  # type: ignore[attr-defined]


@pytest.mark.req("S0-31")
def test_a_state_that_did_not_change_is_not_logged_again(tmp_path: Path) -> None:
    one = sending(tmp_path)
    watch(one)
    one.ask("Send.")
    assert one.select_lines(event_type="agent_state_saved") == []


@pytest.mark.req("S0-31", "S4-27")
def test_hooks_watch_on_after_a_resume(tmp_path: Path) -> None:
    one = counted(tmp_path, "a")
    later = one.resume()
    [hook] = later.root.hooks
    assert isinstance(hook, Counter)
    assert (hook.name, hook.state.place, hook.state.parent) == ("counter", "hook", "agent_001")
    later.ask("Send.")
    assert hook.seen == 1


def test_a_guard_that_nobody_registered_lets_nothing_through(tmp_path: Path) -> None:
    class Lost(Counter):
        pass

    one = sending(tmp_path)
    Lost(
        one.session, runtime=AgentRuntime(library=AgentLibrary(kinds={"test-lost": Lost}))
    ).install(one.root)
    later = one.resume()
    with pytest.raises(NameNotFound, match="test-lost"):
        later.ask("Send.")
    assert SENT == []


@pytest.mark.req("S0-31", "S4-29")
def test_a_subagent_gets_copies_of_the_hooks_with_a_state_of_their_own(tmp_path: Path) -> None:
    sends = [call_message(call("send", text=str(n))) for n in range(4)]
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Go.")), *sends, "Done."],
        Ann=[*sends, "Tried."],
    )
    one = open_stage(tmp_path, model, tools=[send])
    Counter(one.session, runtime=one.runtime).install(one.root, "counter")
    one.ask("Go.")
    assert SENT == ["0", "1", "2", "0", "1"]  # main's task counts as one of its three
    assert [
        state.saved_state for state in one.session.agents.values() if state.place == "hook"
    ] == [
        {"seen": 5},
        {"seen": 4},
    ]
    [hook] = one.root.subagents["Ann"].hooks
    assert (hook.name, hook.state.parent) == ("counter", one.id_of("Ann"))
    live = full_state(one.session)
    assert full_state(one.resume().session) == live


def test_a_copy_may_differ_or_be_none(tmp_path: Path) -> None:
    @register_agent_class("test-strict")
    class Strict(Judging):
        def judge(self, question: HookQuestion) -> Verdict:
            return Deny("read only") if question.point == "action" else Ok()

    @register_agent_class("test-planning")
    class Planning(Judging):
        def copy_for(self, agent: Agent) -> Hook:
            return Strict(agent.session, runtime=agent.runtime)

    @register_agent_class("test-private")
    class Private(Judging):
        def copy_for(self, agent: Agent) -> None:  # type: ignore[override]
            return None

    kinds = {kind._kind: kind for kind in (Strict, Planning, Private)}
    model = script_model(
        main=[
            call_message(call("send", text="main")),
            call_message(call("task", name="Ann", prompt="Go.")),
            "Done.",
        ],
        Ann=[call_message(call("send", text="Ann")), "I may not."],
    )
    one = open_stage(tmp_path, model, tools=[send])
    runtime = AgentRuntime(model=model, world=one.runtime.world, library=AgentLibrary(kinds=kinds))
    one = Stage(one.root, one.session, runtime)
    Planning(one.session, runtime=runtime).install(one.root, "planning")
    Private(one.session, runtime=runtime).install(one.root, "private")
    one.ask("Go.")
    assert SENT == ["main"]
    [copy] = one.root.subagents["Ann"].hooks
    assert (copy._kind, copy.name) == ("test-strict", "planning")


def test_copies_go_down_the_whole_tree(tmp_path: Path) -> None:
    model = script_model(
        main=[call_message(call("task", name="Ann", prompt="Go.")), "Done."],
        Ann=[call_message(call("task", name="Bob", prompt="Go.")), "Done."],
        Bob=[call_message(call("send", text="x")), "I may not."],
    )
    one = open_stage(tmp_path, model, tools=[send])
    watch(one, action=lambda q: Deny("no") if q.call and q.call.function.name == "send" else Ok())
    one.ask("Go.")
    assert SENT == []
    assert one.result("c1", "Bob")["content"] == "Error: Action blocked by hook 'guard': no"


def test_a_subagent_whose_hooks_cannot_be_copied_is_not_created(tmp_path: Path) -> None:
    @register_agent_class("test-fragile")
    class Fragile(Judging):
        def copy_for(self, agent: Agent) -> Hook:
            raise RuntimeError("no copy")

    one = open_stage(
        tmp_path,
        script_model(
            main=[call_message(call("task", name="Ann", prompt="Go.")), "No Ann."],
            Ann=["I am free."],
        ),
    )
    Fragile(one.session).install(one.root)
    assert one.ask("Go.") == "No Ann."
    assert one.result()["content"] == "Error: task: RuntimeError: no copy"
    assert one.root.subagents == {}
    assert one.session.agents.keys() == {"agent_001", "agent_002"}


def test_a_subagent_whose_hooks_cannot_be_installed_is_never_born(tmp_path: Path) -> None:
    @register_agent_class("test-unwritable")
    class Unwritable(Judging):
        def _spec(self) -> AgentSpec:
            return AgentSpec(options={"words": {1, 2}}) if self.copied else super()._spec()

        copied = False

        def copy_for(self, agent: Agent) -> Hook:
            copy = type(self)(agent.session)
            copy.copied = True
            return copy

    one = open_stage(
        tmp_path,
        script_model(
            main=[call_message(call("task", name="Ann", prompt="Go.")), "No Ann."],
            Ann=["I am free."],
        ),
    )
    Unwritable(one.session).install(one.root)
    assert one.ask("Go.") == "No Ann."
    assert one.result()["content"].startswith("Error: task: InvalidEvent")
    assert one.root.subagents == {}
    assert not one.select_lines(name="Ann")
    check_log(one.log)


def test_hooks_may_be_installed_while_a_session_runs_and_on_any_agent(tmp_path: Path) -> None:
    one = open_stage(
        tmp_path,
        script_model(
            main=[
                call_message(call("task", name="Ann")),
                "-",
                call_message(call("discuss", "c2", prompt="?")),
                "Done.",
            ],
            Ann=["1234"],
        ),
    )
    one.ask("Make Ann.")
    hook = Judging(one.session).install(one.root.subagents["Ann"], "late")
    hook.judges["response"] = lambda _: Rewrite("****")
    one.ask("Ask Ann.")
    assert one.result("c2")["content"] == "****"


def test_a_hook_hears_a_discussion_of_the_agent_that_it_watches(tmp_path: Path) -> None:
    model = script_model(
        main=[
            call_message(call("task", "t1", name="Jack"), call("task", "t2", name="Jill")),
            call_message(call("discuss", prompt="Talk.", speakers=["Jack", "Jill"])),
            "Done.",
        ],
        Jack=["Hi."],
        Jill=["Hello."],
    )
    one = open_stage(tmp_path, model)
    one.root.harken("Go.")
    run(one.root.response())
    jill = one.root.subagents["Jill"]
    hook = Judging(one.session).install(jill)
    jill.harken("And now?")
    run(jill.response())
    assert ("input", "And now?") in hook.points_asked()


@pytest.mark.req("S0-31", "S0-32")
def test_guards_hold_wherever_a_session_was_cut(tmp_path: Path) -> None:
    """Cut a guarded run after every line: what is forbidden neither runs nor is heard later."""

    def jack(request: Any) -> Any:
        return "Sorry." if "REDACT" in " ".join(request_texts(request)) else "password: 1234"

    script: dict[str, Any] = {
        "main": [lambda request: main(request_texts(request))] * 20,
        "Jack": [jack] * 20,
        "Jill": ["I see."] * 20,
    }

    def main(texts: list[str]) -> Any:
        text = " ".join(texts)
        for name in ("Jack", "Jill"):
            if (
                f"Created subagent: {name}" not in text
                and f"Subagent {name} was created" not in text
            ):
                return call_message(call("task", f"t{name}", name=name))
        if "blocked by hook" not in text:
            return call_message(
                call("send", "s1", text="forbidden"), call("send", "s2", text="plain")
            )
        if "I see." not in text:
            return call_message(call("discuss", "d", prompt="Talk.", speakers=["Jack", "Jill"]))
        return "The password is 1234."

    one = open_stage(tmp_path, ScriptModel(script), tools=[send])
    Censor(one.session, runtime=one.runtime).install(one.root, "censor")
    assert one.ask("Go.") == "The password is [REDACTED]."
    whole = one.log.read_bytes().splitlines(keepends=True)
    one.session.close()
    for count in range(4, len(whole)):
        SENT.clear()
        log = tmp_path / f"cut{count}.jsonl"
        log.write_bytes(b"".join(whole[:count]))
        root, session = load_session(log, runtime=one.runtime, name="main", options=fast_options())
        later = Stage(root, session, one.runtime)
        answer = later.ask(None if later.user_messages("main") else "Go.")
        assert answer == "The password is [REDACTED]."
        assert "forbidden" not in SENT
        heard = [
            *later.select_lines(role="user", agent_id=later.id_of("Jill")),
            *later.select_lines(agent_id="user"),
        ]
        assert heard
        assert not [row for row in heard if "1234" in row["content"]]
        check_log(log)
        live = full_state(session)
        assert full_state(later.resume().session) == live


@register_agent_class("test-censor")
class Censor(Hook):
    """Blocks, rewrites and comments."""

    def judge(self, question: HookQuestion) -> Verdict:
        if question.point == "action" and "forbidden" in question.text:
            return Deny("forbidden")
        if question.point == "response" and "1234" in question.text:
            return Rewrite(question.text.replace("1234", "[REDACTED]"))
        return Comment("Mind your words.") if question.point in {"input", "result"} else Ok()


def cut_at(log: Path, event_type: str, count: int, *, later: int) -> Path:
    """Cut a log so many lines after the event of this type with this number."""
    at = [n for n, row in enumerate(read_lines(log)) if row["event_type"] == event_type][count]
    return cut_after(log, at + later)


@pytest.mark.req("S4-27")
@pytest.mark.parametrize("text", ["b", "fail"])
def test_a_verdict_and_the_state_after_it_are_one_group(tmp_path: Path, text: str) -> None:
    one = counted(tmp_path, "a", text)
    for _ in range(2):
        one.ask("Send.")
    one.session.close()
    for later, seen in ((-1, 1), (0, 1), (1, 2)):  # verdict and state are one group
        cut = cut_at(one.log, "agent_state_saved", 1, later=later)
        once = resume(cut, script_model(), send)
        assert once.agent("counter").state.saved_state == {"seen": seen}
        assert once.agent("counter").seen == seen  # type: ignore[attr-defined]
        assert once.session.state.describe() == fold_log(cut).describe()
        check_log(cut, finished=False)  # the call goes on when the session does


def test_a_session_that_ended_before_a_verdict_goes_the_same(tmp_path: Path) -> None:
    one = counted(tmp_path, "a", "b")
    for _ in range(2):
        one.ask("Send.")
    one.session.close()
    cut = cut_at(one.log, "agent_state_saved", 1, later=0)
    later = resume(cut, script_model(main=["-", "-", "-", "Done."]), send)
    assert later.ask() == "Done."
    assert later.agent("counter").state.saved_state == {"seen": 2}
    later.session.close()
    assert check(SessionViewer(cut).events).difference is None
