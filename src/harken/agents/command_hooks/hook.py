"""`CommandHook`: a hook that judges with external commands, in Claude Code's protocol.

The commands are recorded in its birth, so an edit of the settings does not affect a running hook.
The commands that match an event run concurrently, without duplicates. Their output is merged into a
single verdict; their errors are logged in the hook's transcript, a line each, and stop nothing,
unless the entry says so. An error in Harken's own code is a failure of the hook: it blocks at
guarded points.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from harken.agents import texts
from harken.agents.agent import Agent, get_agent
from harken.agents.agent_classes import register_agent_class
from harken.agents.command_hooks.config import EVENTS, CommandHookConfig
from harken.agents.command_hooks.environment import EVENT, FILE, import_variables
from harken.agents.command_hooks.output import HookOutput, parse_output
from harken.agents.command_hooks.payload import HookEvent, Situation, hook_events, session_end_event
from harken.agents.command_hooks.run import run_command
from harken.agents.command_hooks.transcript_file import Transcripts
from harken.agents.hooks.hook import Hook
from harken.agents.hooks.logged_user import LoggedUser
from harken.agents.hooks.notifications import (
    ApprovalPending,
    CompactionFinished,
    CompactionStarting,
    HookNotification,
    NotificationReply,
)
from harken.agents.hooks.options import HookOptions, options_dict
from harken.agents.hooks.review import rewritten_arguments
from harken.agents.runtime import AgentRuntime
from harken.agents.templates.claude_code_tools import from_claude_arguments
from harken.agents.turn_end import StoppedByHook
from harken.core import canonical, structs
from harken.core.event_types.spec import AgentSpec, Standing
from harken.core.events import Segment, TranscriptEdited, TranscriptEntry
from harken.core.ids import MessageId
from harken.core.messages import FunctionCall, ToolCall
from harken.core.verdict import (
    HOOK_POINTS,
    Comment,
    Deny,
    HookQuestion,
    Ok,
    Rewrite,
    Verdict,
    format_verdict,
)
from harken.world.result import ToolError
from harken.world.user import ApprovalRequest, UserUnavailable

NAME = "claude-hooks"
"""The default name of such a hook."""
_UNSTOPPABLE_EVENTS = {"SessionStart", "SubagentStart", "PostCompact", "SessionEnd"}
"""Events that cannot be stopped: a denial is only a message for the user."""
_IGNORED_EVENTS = {"Notification"}
"""Events at which a denial is ignored."""
_START_EVENTS = {"SessionStart", "SubagentStart"}
"""Events that depend on whether an input was judged before."""
_LATE_OUTPUT_EVENTS = {"PreToolUse", "PermissionRequest", "SessionStart"}
"""Events with output that may have to be delivered with a later tool result."""
_ALLOWED = "allow"
_UNSUPPORTED_NOTES = {
    _ALLOWED: "a command allows it, which counts for nothing: hooks.claude_may_allow is not set"
}
NOT_RUN = (
    "its commands are not run: they come with the log of this session, and were never let run here"
)
UNSUPPORTED = "{} of a command's answer is not supported and is ignored"


class Commands(HookOptions, frozen=True):
    """The commands to run, by event."""

    commands: tuple[CommandHookConfig, ...] = ()
    may_allow: bool = False
    """Whether an approval by a command counts as the user's approval."""

    @property
    def digest(self) -> str:
        """The digest that identifies these commands."""
        return sha256(canonical.to_json_line(options_dict(self))).hexdigest()


def allow_commands(runtime: AgentRuntime, options: Commands) -> Commands:
    """Allow configured commands to run, also after a resume. Return them."""
    if runtime.policy.allowed_commands is not None:
        runtime.policy.allowed_commands.add(options.digest)
    return options


@register_agent_class("command-hook")
class CommandHook(Hook):
    """Asks external commands."""

    _can_restore = False  # its spec names programs to run

    Options = Commands
    options: Commands

    def begin(self) -> None:
        """Start without any question."""
        self._undelivered: list[str] = []
        """Texts for the agent that did not fit into a verdict, delivered at the next chance."""
        self._end_reason: str | None = None
        """The reason to end the turn at the next chance, when it could not be ended at once."""
        self._last_opening: int | None = None
        """The `opened_at` of the session when it last judged an input, if a command needs it."""
        self._noted: set[str] = set()
        self._may_run = False
        self._allowed_call: tuple[str, str] | None = None
        """The last call that a command allowed, and its arguments: other arguments are not allowed.
        """

    def _spec(self) -> AgentSpec:
        """Return the spec of the birth: the commands, and the points at which it is asked."""
        events = self._command_events
        names = {EVENTS[event] for event in events}
        if not events.isdisjoint(_LATE_OUTPUT_EVENTS):
            names.add("result")
        points = sorted(point for point in HOOK_POINTS if point in names)
        return super()._spec().merge(AgentSpec(standing=Standing(points=points)))

    @property
    def _command_events(self) -> set[str]:
        return {command.event for command in self.options.commands}

    def dump_state(self) -> Any:
        """Return the undelivered texts, the reason to end the turn, and the last opening."""
        state = {"later": list(self._undelivered), "interrupt": self._end_reason}
        members: dict[str, Any] = {name: value for name, value in state.items() if value}
        if self._last_opening is not None:
            members["opened_at"] = self._last_opening
        return members or None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the undelivered texts, the reason to end the turn, and the last opening."""
        state = saved if isinstance(saved, dict) else {}
        later, reason, opened_at = (state.get(n) for n in ("later", "interrupt", "opened_at"))
        self._undelivered = [text for text in later or () if isinstance(text, str)]
        self._end_reason = reason if isinstance(reason, str) else None
        self._last_opening = opened_at if isinstance(opened_at, int) else None

    def should_ask(self, question: HookQuestion) -> bool:
        """Whether a command is to be run, or a text is still to be delivered."""
        situation = self._situation(question)
        if self._undelivered and question.point in ("input", "result"):
            return True
        if self._end_reason is not None and question.point == "result":
            return True
        return any(
            self._select_commands(situation, event, names) for event, names in situation.events
        )

    async def judge(self, question: HookQuestion) -> Verdict:
        """Return the verdict of the commands. Raises StoppedByHook if a command ends the turn."""
        situation = self._situation(question)
        answer = HookOutput()
        if question.point == "result":
            answer, self._end_reason = HookOutput(end_reason=self._end_reason), None
        for event, names in situation.events:
            answer = answer.merge(await self._run_commands(situation, event, names))
        self._report(answer)
        if question.point == "input" and not _START_EVENTS.isdisjoint(self._command_events):
            self._last_opening = self.session.opened_at
        self._end_turn(situation, answer)
        if question.call is not None:
            arguments = self._rewritten_arguments(situation, answer) or question.text
            self._allowed_call = (
                (question.subject, arguments) if answer.decision == "allow" else None
            )
        return await self._verdict(situation, answer)

    async def run_session_end(self, reason: str = "other") -> None:
        """Run the commands for the end of a session. Their decisions are ignored."""
        await self._run_for_event(self._question, session_end_event(reason))

    async def heed(self, happening: HookNotification) -> NotificationReply | None:
        """Run the commands for a notification. Return their reply."""
        question = self._question
        if isinstance(happening, ApprovalPending):
            question = self._approval_question(happening)
        answer = HookOutput()
        for event in hook_events(happening):
            answer = answer.merge(await self._run_for_event(question, event))
        match happening:
            case CompactionStarting() | ApprovalPending():
                return self._reply(happening, answer)
            case CompactionFinished() if answer.context:
                self._undelivered.append(answer.context)
                self.save_state()
        return None

    async def _run_for_event(self, question: HookQuestion, moment: HookEvent) -> HookOutput:
        """Return the output of the commands for an event without a question."""
        situation = structs.replace(self._situation(question), hook_event=moment)
        answer = await self._run_commands(situation, moment.event, moment.names)
        self._report(answer)
        return answer

    def _reply(
        self, happening: CompactionStarting | ApprovalPending, answer: HookOutput
    ) -> NotificationReply | None:
        """Return the reply of the commands; a denial is logged as the cause of its effects."""
        if isinstance(happening, ApprovalPending):
            return self._reply_for_user(happening, answer)
        if answer.decision != "deny" and answer.end_reason is None:
            return (
                NotificationReply(hook=self.name, instructions=answer.context)
                if answer.context
                else None
            )
        reason = answer.reason or answer.end_reason or ""
        message = self.say(format_verdict(Deny(reason)), self._watched.state.birth)
        return NotificationReply(hook=self.name, refusal=reason, message_id=message.message_id)

    def _reply_for_user(
        self, happening: ApprovalPending, answer: HookOutput
    ) -> NotificationReply | None:
        """Return the reply in the user's place; an approval only if `may_allow` is set."""
        if answer.decision == "deny":
            self._end_reason = answer.end_reason
            message = self.say(format_verdict(Deny(answer.reason)), happening.call)
            return NotificationReply(
                hook=self.name, refusal=answer.reason, message_id=message.message_id
            )
        current_call = (happening.call, self._approval_question(happening).text)
        must_ask = happening.is_wanted_by_hook or happening.request.is_required
        has_allowed = self._allowed_call == current_call and not must_ask
        if answer.decision != "allow" and not has_allowed:
            return None
        if not self.options.may_allow:
            self._report(HookOutput(unsupported=(_ALLOWED,)))
            return None
        message = self.say("ALLOW", happening.call)
        return NotificationReply(hook=self.name, allows=True, message_id=message.message_id)

    @property
    def speaks_for_user(self) -> bool:
        """Whether a command may answer in the user's place."""
        events = {command.event for command in self.options.commands if self.may_run}
        return (self.options.may_allow and self.may_run) or "PermissionRequest" in events

    @property
    def may_run(self) -> bool:
        """Whether its commands may be run here: a log may come from anywhere."""
        allowed = self.runtime.policy.allowed_commands
        self._may_run = self._may_run or allowed is None or self.options.digest in allowed
        return self._may_run

    @property
    def _question(self) -> HookQuestion:
        """A placeholder for the question in notifications."""
        return HookQuestion("response", self._watched.name, self._watched.state.birth, "")

    def _approval_question(self, happening: ApprovalPending) -> HookQuestion:
        """Return the question about the call that needs approval, with its final arguments."""
        watched, id_ = self._watched, happening.call
        calls = (
            open_call
            for open_call in watched.state.open_calls.values()
            if open_call.reference == id_
        )
        text = next((open_call.arguments for open_call in calls), "{}")
        text = rewritten_arguments(watched, id_) or text
        call = ToolCall(id_, FunctionCall(happening.request.tool, text))
        return HookQuestion("action", watched.name, id_, text, call)

    def _situation(self, question: HookQuestion) -> Situation:
        return Situation(question, self._watched, self._last_opening)

    @property
    def _watched(self) -> Agent:
        parent = self.state.parent
        assert parent is not None
        return get_agent(self, parent)

    def _select_commands(
        self, situation: Situation, event: str, names: Sequence[str] | None
    ) -> list[CommandHookConfig]:
        """Return the commands to run, without duplicates."""
        if not self.may_run:
            return []
        event_commands = (command for command in self.options.commands if command.event == event)
        matching = [
            command for command in event_commands if names is None or command.matches(set(names))
        ]
        selected = [command for command in matching if situation.matches(command.only_if)]
        return list({(command.command, command.args): command for command in selected}.values())

    async def _run_commands(
        self, situation: Situation, event: str, names: Sequence[str] | None
    ) -> HookOutput:
        """Run all commands for an event. Return their combined output."""
        commands = self._select_commands(situation, event, names)
        if not commands:
            return HookOutput()
        payload = canonical.to_json_line(
            situation.payload(event, self._transcript_paths(situation))
        )
        environment = {
            **self.runtime.policy.environment(os.environ),
            "CLAUDE_PROJECT_DIR": str(situation.folder),
        }
        answer = HookOutput()
        with TemporaryDirectory(prefix="harken-hook-", ignore_cleanup_errors=True) as scratch:
            file = Path(scratch, "environment.sh")
            command_environment = (
                {**environment, FILE: str(file)} if event == EVENT else environment
            )
            results = await asyncio.gather(
                *(
                    run_command(
                        command, payload, folder=situation.folder, environment=command_environment
                    )
                    for command in commands
                )
            )
            error = await import_variables(self.runtime.world, file, situation.folder, environment)
        if error:
            answer = HookOutput(problems=(error,))
        for entry, result in zip(commands, results, strict=True):
            answer = answer.merge(parse_output(entry, result))
        if event in _UNSTOPPABLE_EVENTS and answer.decision == "deny":
            return structs.replace(answer, decision="", messages=(*answer.messages, answer.reason))
        if event in _IGNORED_EVENTS:
            return structs.replace(answer, decision="")
        return answer

    def _transcript_paths(self, situation: Situation) -> dict[str, str]:
        """Return the paths of the updated transcript files."""
        files = Transcripts.of(self.session, situation.folder)
        watched, primary = situation.watched.agent_id, self.session.state.primary
        own_path = str(files.update_file(self.session, watched))
        primary_path = (
            own_path
            if primary in (None, watched)
            else str(files.update_file(self.session, primary))
        )
        return {"transcript_path": primary_path, "agent_transcript_path": own_path}

    def _report(self, answer: HookOutput) -> None:
        """Send messages to the user, and log errors."""
        notes = [
            _UNSUPPORTED_NOTES.get(member, UNSUPPORTED.format(member))
            for member in answer.unsupported
        ]
        new_notes = [line for line in dict.fromkeys(notes) if line not in self._noted]
        self._noted.update(new_notes)
        for problem in (*answer.problems, *new_notes):
            line = " ".join(problem.split())
            self.session.append(
                TranscriptEntry(agent_id=self.agent_id, role="system", content=f"[command] {line}")
            )
            self.runtime.notify(f"hook {self.name}: {line}")
        for message in answer.messages:
            self.runtime.notify(f"hook {self.name}: {' '.join(message.split())}")

    def _end_turn(self, situation: Situation, answer: HookOutput) -> None:
        """Raise StoppedByHook if the turn must end. Remove a blocked prompt from the context."""
        point, watched = situation.question.point, situation.watched
        is_blocked = point == "input" and answer.decision == "deny"
        if (answer.end_reason is None and not is_blocked) or point == "response":
            return
        reason = answer.reason if is_blocked else answer.end_reason or ""
        changes = self._changed_state()
        with self.session.group():
            verdict_id = self._log_verdict(situation.question, Deny(reason), is_stop=True)
            self.session.append_all(changes)
            if is_blocked:
                edit = _edit_without(watched, situation.question.subject, verdict_id)
                self.session.append(edit)
        raise StoppedByHook(f"hook {self.name}: {reason}")

    async def _verdict(self, situation: Situation, answer: HookOutput) -> Verdict:
        match situation.question.point:
            case "action":
                return await self._on_action(situation, answer)
            case "response":
                return self._on_response(answer)
            case _:
                return self._comment(answer)

    def _comment(self, answer: HookOutput) -> Verdict:
        """Return a comment with the texts for the agent, including undelivered texts."""
        denial = answer.reason if answer.decision == "deny" else ""
        text = "\n".join(filter(None, [*self._undelivered, denial, answer.context]))
        self._undelivered = []
        return Comment(text) if text else Ok()

    def _on_response(self, answer: HookOutput) -> Verdict:
        """Deny an answer if a command denies it or only adds a text."""
        if answer.end_reason is not None:
            return Ok()
        if answer.decision == "deny":
            return Deny("\n".join(filter(None, [answer.reason, answer.context])))
        return Deny(answer.context) if answer.context else Ok()

    async def _on_action(self, situation: Situation, answer: HookOutput) -> Verdict:
        if answer.decision == "deny":
            return Deny(answer.reason)
        rewritten = self._rewritten_arguments(situation, answer)
        if answer.decision == "ask":
            refusal = await self._ask_user(situation, answer, rewritten)
            if refusal is not None:
                return Deny(refusal)
        if rewritten is None:
            return Comment(answer.context) if answer.context else Ok()
        if answer.context:
            self._undelivered.append(answer.context)
        return Rewrite(rewritten)

    def _rewritten_arguments(self, situation: Situation, answer: HookOutput) -> str | None:
        """Return the arguments as changed by a command, or None if unchanged."""
        if answer.updated is None:
            return None
        before = situation.arguments
        after = from_claude_arguments(situation.tool, before, answer.updated, situation.folder)
        return None if after == before else canonical.to_json_line(after).decode()

    async def _ask_user(
        self, situation: Situation, answer: HookOutput, rewritten: str | None
    ) -> str | None:
        """Ask the user. Return the reason for a refusal, or None for an approval."""
        world, watched = self.runtime.world, situation.watched
        request = ApprovalRequest(
            agent=watched.name,
            tool=situation.tool,
            subject=situation.tool,
            preview="\n".join(filter(None, [answer.reason, rewritten or situation.question.text])),
        )
        try:
            if world.user is None:
                raise UserUnavailable("no user is available")
            user = LoggedUser(world.user, watched, situation.question.subject, for_hook=True)
            decision = await user.approve(request)
        except (UserUnavailable, ToolError) as error:
            reason = answer.reason or texts.COMMAND_WANTS_APPROVAL
            return texts.COMMAND_APPROVAL_NEEDED.format(reason, error)
        return None if decision.allowed else decision.reason or texts.COMMAND_APPROVAL_DENIED


def _edit_without(watched: Agent, message: str, cause: MessageId) -> TranscriptEdited:
    """Return the edit that removes a message, and all messages after it, from an agent's context.

    Messages after it were not judged yet, so they must not be read.
    """
    context = watched.session.context(watched.agent_id)
    ids = [getattr(item, "message_id", None) for item in context]
    segments = [Segment(start=0, stop=ids.index(message))] if ids.index(message) else []
    return TranscriptEdited(
        agent_id=watched.agent_id, segments=segments, reason="prompt blocked", cause=cause
    )
