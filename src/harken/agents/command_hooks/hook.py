"""`CommandHook`: a hook whose judgement is that of external commands, in Claude Code's protocol.

The commands are in its birth, so an edit of the settings changes nothing that runs. Those that
match an event run at once, each once. What they say becomes one verdict; what goes wrong with them
stands in the hook's transcript, a line each, and stops nothing, unless the entry says so. What goes
wrong here, in our own code, is the hook's failure: it blocks where hooks guard.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harken.agents.agent import Agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.command_hooks.config import EVENTS, CommandHookConfig
from harken.agents.command_hooks.environment import EVENT, FILE, keep
from harken.agents.command_hooks.output import HookOutput, answer_of
from harken.agents.command_hooks.payload import HookEvent, Situation, ended, moments_of
from harken.agents.command_hooks.run import run_command
from harken.agents.command_hooks.transcript_file import Transcripts
from harken.agents.hooks.hook import Hook, TurnStopped
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.hooks.notifications import (
    ApprovalPending,
    CompactionFinished,
    CompactionStarting,
    Happening,
    NotificationReply,
)
from harken.agents.hooks.options import HookOptions, options_dict
from harken.agents.hooks.verdict_log import rewritten_arguments
from harken.agents.runtime import AgentRuntime
from harken.agents.templates.claude_code_tools import from_claude_arguments
from harken.core import canonical
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Rewrite, Verdict, format_verdict
from harken.world.result import ToolError
from harken.world.user import ApprovalRequest, UserUnavailable

NAME = "claude-hooks"
"""What such a hook is called where nobody says otherwise."""
_ONLY_TOLD = {"SessionStart", "SubagentStart", "PostCompact", "SessionEnd"}
"""Events that nothing can stop: a no is for the user to know."""
_IGNORED = {"Notification"}
"""Events at which nobody hears a no."""
_SAID_LATER = {"PreToolUse", "PermissionRequest", "SessionStart"}
"""Events of which something may have to be said at a result: there was no place for it before."""
_ALLOWED = "allow"
_FOR_NOTHING = {
    _ALLOWED: "a command allows it, which counts for nothing: hooks.claude_may_allow is not set"
}
NOT_RUN = (
    "its commands are not run: they come with the log of this session, and were never let run here"
)
UNSUPPORTED = "{} of a command's answer counts for nothing here"


class Commands(HookOptions, frozen=True):
    """Which commands are run, and when."""

    commands: tuple[CommandHookConfig, ...] = ()
    may_allow: bool = False
    """Whether what a command allows is allowed, as if the user had said so."""

    @property
    def digest(self) -> str:
        """What tells these commands from others."""
        return sha256(canonical.to_json_line(options_dict(self))).hexdigest()


def let_run(runtime: AgentRuntime, options: Commands) -> Commands:
    """Return commands that a person configured: from now on they are run, also after a resume."""
    if runtime.allowed_commands is not None:
        runtime.allowed_commands.add(options.digest)
    return options


@register_agent_class("command-hook")
class CommandHook(Hook):
    """Asks external commands."""

    can_restore = False  # its spec names programs to run

    Options = Commands
    options: Commands

    def begin(self) -> None:
        """Nothing was asked yet."""
        self._asked = MessageId("")
        self._later: list[str] = []
        """What the agent shall hear when it can: said with a verdict that had no place for it."""
        self._interrupt: str | None = None
        """Why the turn shall end at the next chance: said where it could not be ended."""
        self._told_once: set[str] = set()
        self._is_let = False
        self._allowed: tuple[str, str] | None = None
        """The call that a command allowed last, and its arguments: with others it is another."""

    def spec(self) -> dict[str, Any]:
        """Return what the birth records: the commands, and at which points it is asked."""
        events = {one.event for one in self.options.commands}
        points = {EVENTS[event] for event in events} - {""}
        if not events.isdisjoint(_SAID_LATER):
            points.add("result")
        return {**super().spec(), "points": sorted(points)}

    def dump_state(self) -> Any:
        """Return what is still to be said, and why the turn is still to end."""
        left = {"later": list(self._later), "interrupt": self._interrupt}
        return {name: one for name, one in left.items() if one} or None

    def load_saved_state(self, saved: Any) -> None:
        """Take back what is still to be said, and why the turn is still to end."""
        left = saved if isinstance(saved, dict) else {}
        later, why = left.get("later"), left.get("interrupt")
        self._later = [one for one in later or () if isinstance(one, str)]
        self._interrupt = why if isinstance(why, str) else None

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether a command is to be run, or there is something left to say."""
        situation = self._situation(question)
        if self._later and question.point in ("input", "result"):
            return True
        if self._interrupt is not None and question.point == "result":
            return True
        return any(self._due(situation, event, names) for event, names in situation.events)

    async def judge_question(
        self, question: HookQuestion, asked: MessageId
    ) -> tuple[Verdict, MessageId]:
        """Return what the commands say, with the message that says so. Raises TurnStopped."""
        self._asked = asked
        return await super().judge_question(question, asked)

    async def judge(self, question: HookQuestion) -> Verdict:
        """Return what the commands say. Raises TurnStopped where one of them ends the turn."""
        situation = self._situation(question)
        answer = HookOutput()
        if question.point == "result":
            answer, self._interrupt = HookOutput(ends=self._interrupt), None
        for event, names in situation.events:
            answer = answer.joined(await self._answered(situation, event, names))
        self._tell(answer)
        self._end_turn(situation, answer)
        if question.call is not None:
            said = self._rewritten(situation, answer) or question.text
            self._allowed = (question.subject, said) if answer.decision == "allow" else None
        return await self._verdict(situation, answer)

    async def session_ended(self, reason: str = "other") -> None:
        """Run the commands of the end of a session; what they say counts for nothing."""
        await self._lived(self._question, ended(reason))

    async def heed(self, happening: Happening) -> NotificationReply | None:
        """Run the commands of what happens to the agent; return what they say to it."""
        question = self._question
        if isinstance(happening, ApprovalPending):
            question = self._about(happening)
        answer = HookOutput()
        for moment in moments_of(happening):
            answer = answer.joined(await self._lived(question, moment))
        match happening:
            case CompactionStarting() | ApprovalPending():
                return self._word(happening, answer)
            case CompactionFinished() if answer.context:
                self._later.append(answer.context)
                self.save_state()
        return None

    async def _lived(self, question: HookQuestion, moment: HookEvent) -> HookOutput:
        """Return what the commands say of what happens."""
        situation = replace(self._situation(question), moment=moment)
        answer = await self._answered(situation, moment.event, moment.names)
        self._tell(answer)
        return answer

    def _word(
        self, happening: CompactionStarting | ApprovalPending, answer: HookOutput
    ) -> NotificationReply | None:
        """Return what the commands say; a no is logged, as the cause of what comes of it."""
        if isinstance(happening, ApprovalPending):
            return self._for_user(happening, answer)
        if answer.decision != "deny" and answer.ends is None:
            return (
                NotificationReply(hook=self.name, more=answer.context) if answer.context else None
            )
        why = answer.reason or answer.ends or ""
        said = self.say(format_verdict(Deny(why)), self._watched.state.birth)
        return NotificationReply(hook=self.name, refusal=why, said=said.message_id)

    def _for_user(self, happening: ApprovalPending, answer: HookOutput) -> NotificationReply | None:
        """Return what the commands say in the place of the user; a yes only where it counts."""
        if answer.decision == "deny":
            self._interrupt = answer.ends
            said = self.say(format_verdict(Deny(answer.reason)), happening.call)
            return NotificationReply(hook=self.name, refusal=answer.reason, said=said.message_id)
        meant = (happening.call, self._about(happening).text)
        must_ask = happening.is_wanted_by_hook or happening.wanted.is_required
        has_allowed = self._allowed == meant and not must_ask
        if answer.decision != "allow" and not has_allowed:
            return None
        if not self.options.may_allow:
            self._tell(HookOutput(unsupported=(_ALLOWED,)))
            return None
        said = self.say("ALLOW", happening.call)
        return NotificationReply(hook=self.name, allows=True, said=said.message_id)

    @property
    def speaks_for_user(self) -> bool:
        """Whether a command may say something in the user's place."""
        events = {one.event for one in self.options.commands if self.is_let}
        return (self.options.may_allow and self.is_let) or "PermissionRequest" in events

    @property
    def is_let(self) -> bool:
        """Whether its commands may be run here: a log may come from anybody."""
        known = self.runtime.allowed_commands
        self._is_let = self._is_let or known is None or self.options.digest in known
        return self._is_let

    @property
    def _question(self) -> HookQuestion:
        """What stands for a question where none is asked."""
        return HookQuestion("response", self._watched.name, self._watched.state.birth, "")

    def _about(self, happening: ApprovalPending) -> HookQuestion:
        """Return the call that leave is asked for, as it is run."""
        watched, id_ = self._watched, happening.call
        calls = (one for one in watched.state.open_calls.values() if one.reference == id_)
        text = next((one.arguments for one in calls), "{}")
        text = rewritten_arguments(watched, id_) or text
        call = ToolCall(id_, FunctionCall(happening.wanted.tool, text))
        return HookQuestion("action", watched.name, id_, text, call)

    def _situation(self, question: HookQuestion) -> Situation:
        return Situation(question, self._watched, self)

    @property
    def _watched(self) -> Agent:
        parent = self.state.parent
        assert parent is not None
        return self.agent_by_id(parent)

    def _due(
        self, situation: Situation, event: str, names: Sequence[str] | None
    ) -> list[CommandHookConfig]:
        """Return the commands to be run, each once."""
        if not self.is_let:
            return []
        mine = (one for one in self.options.commands if one.event == event)
        wanted = [one for one in mine if names is None or one.matches(set(names))]
        meant = [one for one in wanted if situation.fits(one.only_if)]
        return list({(one.command, one.args): one for one in meant}.values())

    async def _answered(
        self, situation: Situation, event: str, names: Sequence[str] | None
    ) -> HookOutput:
        """Return what all commands of an event say together."""
        due = self._due(situation, event, names)
        if not due:
            return HookOutput()
        said = canonical.to_json_line(situation.payload(event, self._paths(situation)))
        environment = {
            **self.runtime.environment(os.environ),
            "CLAUDE_PROJECT_DIR": str(situation.folder),
        }
        answer = HookOutput()
        with TemporaryDirectory(prefix="harken-hook-", ignore_cleanup_errors=True) as scratch:
            file = Path(scratch, "environment.sh")
            more = {**environment, FILE: str(file)} if event == EVENT else environment
            ends = await asyncio.gather(
                *(run_command(one, said, folder=situation.folder, environment=more) for one in due)
            )
            wrong = await keep(self.runtime.world, file, situation.folder, environment)
        if wrong:
            answer = HookOutput(problems=(wrong,))
        for entry, end in zip(due, ends, strict=True):
            answer = answer.joined(answer_of(entry, end))
        if event in _ONLY_TOLD and answer.decision == "deny":
            return replace(answer, decision="", messages=(*answer.messages, answer.reason))
        if event in _IGNORED:
            return replace(answer, decision="")
        return answer

    def _paths(self, situation: Situation) -> dict[str, str]:
        """Return the transcripts, brought up to date."""
        files = Transcripts.of(self.session, situation.folder)
        watched, primary = situation.watched.agent_id, self.session.state.primary
        own = str(files.brought_up(self.session, watched))
        above = own if primary in (None, watched) else str(files.brought_up(self.session, primary))
        return {"transcript_path": above, "agent_transcript_path": own}

    def _tell(self, answer: HookOutput) -> None:
        """Let the user know what is for them, and keep what went wrong."""
        once = [_FOR_NOTHING.get(one, UNSUPPORTED.format(one)) for one in answer.unsupported]
        new = [line for line in dict.fromkeys(once) if line not in self._told_once]
        self._told_once.update(new)
        for problem in (*answer.problems, *new):
            line = " ".join(problem.split())
            self.session.append(
                TranscriptEntry(agent_id=self.agent_id, role="system", content=f"[command] {line}")
            )
            self.runtime.notify(f"hook {self.name}: {line}")
        for message in answer.messages:
            self.runtime.notify(f"hook {self.name}: {' '.join(message.split())}")

    def _end_turn(self, situation: Situation, answer: HookOutput) -> None:
        """Raise TurnStopped where the turn shall end; a prompt that is blocked is not kept."""
        point, watched = situation.question.point, situation.watched
        is_blocked = point == "input" and answer.decision == "deny"
        if (answer.ends is None and not is_blocked) or point == "response":
            return
        why = answer.reason if is_blocked else answer.ends or ""
        words = format_verdict(Deny(why))
        said = TranscriptEntry(
            agent_id=self.agent_id, role="assistant", content=words, cause=self._asked
        )
        if is_blocked:  # first: who is cut off before the verdict has not read it either
            self.session.append(_without(watched, situation.question.subject, self._asked))
        self.session.append_all(self.with_state(said))
        raise TurnStopped(f"hook {self.name}: {why}")

    async def _verdict(self, situation: Situation, answer: HookOutput) -> Verdict:
        match situation.question.point:
            case "action":
                return await self._on_action(situation, answer)
            case "response":
                return self._on_response(answer)
            case _:
                return self._heard(answer)

    def _heard(self, answer: HookOutput) -> Verdict:
        """Let the agent hear what there is to hear, and what was left over."""
        no = answer.reason if answer.decision == "deny" else ""
        text = "\n".join(filter(None, [*self._later, no, answer.context]))
        self._later = []
        return Comment(text) if text else Ok()

    def _on_response(self, answer: HookOutput) -> Verdict:
        """Send the agent on, also where a command only has something to add."""
        if answer.ends is not None:
            return Ok()
        if answer.decision == "deny":
            return Deny("\n".join(filter(None, [answer.reason, answer.context])))
        return Deny(answer.context) if answer.context else Ok()

    async def _on_action(self, situation: Situation, answer: HookOutput) -> Verdict:
        if answer.decision == "deny":
            return Deny(answer.reason)
        rewritten = self._rewritten(situation, answer)
        if answer.decision == "ask":
            refusal = await self._refusal(situation, answer, rewritten)
            if refusal is not None:
                return Deny(refusal)
        if rewritten is None:
            return Comment(answer.context) if answer.context else Ok()
        if answer.context:
            self._later.append(answer.context)
        return Rewrite(rewritten)

    def _rewritten(self, situation: Situation, answer: HookOutput) -> str | None:
        """Return the arguments as a command wants them; None: as they are."""
        if answer.updated is None:
            return None
        before = situation.arguments
        after = from_claude_arguments(situation.tool, before, answer.updated, situation.folder)
        return None if after == before else canonical.to_json_line(after).decode()

    async def _refusal(
        self, situation: Situation, answer: HookOutput, rewritten: str | None
    ) -> str | None:
        """Ask the user; return why the action may not be; None: it may."""
        world, watched = self.runtime.world, situation.watched
        wanted = ApprovalRequest(
            agent=watched.name,
            tool=situation.tool,
            subject=situation.tool,
            preview="\n".join(filter(None, [answer.reason, rewritten or situation.question.text])),
        )
        try:
            if world.user is None:
                raise UserUnavailable("nobody is there to ask")
            user = LoggedUser(world.user, watched, situation.question.subject, for_hook=True)
            leave = await user.approve(wanted)
        except (UserUnavailable, ToolError) as error:
            why = answer.reason or "a hook wants it"
            return f"the user's leave is needed ({why}), and there is none: {error}"
        return None if leave.allowed else leave.reason or "the user said no"


def _without(watched: Agent, message: str, cause: MessageId) -> TranscriptEdited:
    """Return the edit that takes a message out of what an agent reads, and what came after it.

    Nothing after it was judged yet, so nothing of it is read.
    """
    context = watched.session.context(watched.agent_id)
    ids = [getattr(one, "message_id", None) for one in context]
    kept = [Segment(start=0, stop=ids.index(message))] if ids.index(message) else []
    return TranscriptEdited(
        agent_id=watched.agent_id, segments=kept, reason="prompt blocked", cause=cause
    )
