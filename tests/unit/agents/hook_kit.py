"""A hook whose judgement is a function, and a stage where something is sent, to try hooks on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from harken import Agent, Hook, HookQuestion, Ok, SessionViewer, register_agent_class, tool
from harken.core.event_types.spec import HookPoint
from harken.core.ids import AgentId
from harken.core.verdict import Verdict
from harken.session.session import Session
from harken.session.state import AgentState
from tests.agent_kit import LogLine, Stage, call, call_message, open_stage, script_model

Judge: TypeAlias = Callable[[HookQuestion], Any]
SENT: list[str] = []
"""What `send` sent in this test."""


@register_agent_class("test-judge")
class Judging(Hook):
    """A hook whose judgement is a function, by point; it remembers what it was asked."""

    def begin(self) -> None:
        self.judges: dict[HookPoint, Judge] = {}
        self.asked: list[HookQuestion] = []

    def judge(self, question: HookQuestion) -> Verdict:
        self.asked.append(question)
        judge = self.judges.get(question.point)
        verdict: Verdict = Ok() if judge is None else judge(question)
        return verdict

    def copy_for(self, agent: Agent) -> Hook:
        copy = type(self)(agent.session, runtime=agent.runtime)
        copy.judges = self.judges
        return copy

    def points_asked(self) -> list[tuple[str, str]]:
        return [(question.point, question.text) for question in self.asked]


def watch(one: Stage, name: str = "guard", /, **judges: Judge) -> Judging:
    """Install a hook on the root."""
    hook = Judging(one.session, runtime=one.runtime).install(one.root, name)
    hook.judges.update(judges)  # type: ignore[arg-type]
    return hook


def words(one: Stage, hook: Agent) -> list[tuple[str, str]]:
    """Return the roles and texts of a hook's transcript."""
    transcript = SessionViewer(one.log).get_transcript(hook.agent_id)
    return [(entry["role"], entry["content"]) for entry in transcript]


def verdicts(one: Stage, hook: Agent) -> list[LogLine]:
    """Return the verdicts of a hook, oldest first."""
    return one.select_lines(event_type="hook_verdict", agent_id=hook.agent_id)


@tool
def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return f"sent {text}"


def sending(folder: Path, text: str = "hello", **more: Any) -> Stage:
    model = script_model(
        main=[call_message(call("send", text=text)), "Done.", "Really done.", "Yes."], smart=[]
    )
    return open_stage(folder, model, tools=[send], **more)


def unguarded(session: Session, guard: str) -> list[str]:
    """Return the names of those who may act and whom no copy of this hook, an id, watches.

    A hook that has nothing but what every hook has only judges, and others judge what it makes.
    """
    agents = session.agents

    def is_copy(id_: str) -> bool:
        return guard in (id_, agents[AgentId(id_)].spec.original)

    def acts(one: AgentState) -> bool:
        judges = one.place == "hook" and not one.spec.may_act
        return session.state.is_live(one.id) and not judges and not is_copy(one.id)

    return [
        one.name or one.id
        for one in agents.values()
        if acts(one) and not any(is_copy(id_) for id_ in one.hooks)
    ]
