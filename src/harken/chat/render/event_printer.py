"""Print logged events in the chat.

The same function prints the events of a running session and of a replayed one, so a resumed chat
looks the same. It uses only the log; the text of an answer that was streamed is not printed again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from harken.agents.agent_classes import registered_name
from harken.agents.hooks.duty import DUTY_CHANGED
from harken.agents.hooks.notes import DROPPED
from harken.agents.hooks.registry import BUILT_IN
from harken.agents.tree.actions import parse_arguments_or_empty
from harken.agents.turn.compaction import Compactor
from harken.chat.commands.base import SHELL
from harken.chat.render.tool_calls import (
    IN_CHAT,
    MAX_RESULT_LINES,
    Folding,
    fold_result,
    format_call,
    list_argument_lines,
    list_change_lines,
    truncate_lines,
)
from harken.core import structs
from harken.core.events import (
    ActionRewritten,
    AgentConfigured,
    AgentCreated,
    AgentMoved,
    Event,
    HookVerdict,
    LlmRequest,
    LlmResponse,
    PieceOfText,
    TranscriptEdited,
    TranscriptEntry,
    TurnStop,
)
from harken.core.ids import USER, AgentId, MessageId, parse_id_number, reference_message_id
from harken.core.messages import FunctionCall, ThinkingPart, text_of
from harken.session.state import AgentState, SessionState
from harken.terminal.markdown_blocks import Blocks
from harken.terminal.pieces import INDENT, Piece, Prose, TextRows, note
from harken.terminal.styled_text import PROMPT, Line, Span, clean_text
from harken.views.dialogs.answers import AnswerOutcome, Answers
from harken.views.dialogs.labels import describe_outcome
from harken.views.message_text import format_count, readable_text
from harken.views.verdicts import verdict_kind
from harken.world.tool import Tool

PROMPT_LINES = 30
MAX_OUTPUT_LINES = 40
"""The maximum number of output lines of the user's shell command."""
"""The maximum number of lines of a prompt."""
MAX_PROMPT_LINE_CHARS = 4000
_AGENT_COLORS = ("magenta", "blue", "green", "yellow", "cyan")
_AT_ONCE = frozenset({"task", "discuss"})
"""Calls that are printed when they begin. Other calls are printed with their results."""
_USUAL_ENDS = frozenset({"end_turn", "tool_use", "stop", "tool_calls", "stop_sequence", "error"})
_SEEN_ANYWAY = frozenset(
    {"/task", "/discuss", "/terminate", "/hook", "/hooks", "/endo", "/meta", "/talkwith"}
)
"""Commands that have visible effects, so that their results need not be printed."""
_USUAL_EDITS = frozenset({None, "init_prompt", DROPPED, DUTY_CHANGED})
"""Reasons of context changes that are not printed: a hook drops its notes after each verdict."""
_VERDICTS = {"comment": "comments", "denial": "denies", "rewrite": "rewrites", "failure": "failed"}
_ODD_ENDS = {
    "cancelled": "cut off",
    "interrupted": "interrupted by a crash",
    "max_tokens": "the answer reached the maximum length",
    "length": "the answer reached the maximum length",
    "refusal": "the model refused to continue",
    "content_filter": "the provider's filter stopped the answer",
    "edited": "(edited in this fork)",
}


class EventPrinter(msgspec.Struct):
    """Prints events, oldest first."""

    state: SessionState
    tools: Mapping[str, Tool]
    live: bool = True
    """Whether the session runs: then the end of a turn prints an answer that was not streamed."""
    answers: Answers = msgspec.field(default_factory=Answers)
    """The outcomes of answers that hooks judged, for a replayed session."""
    shows_drafts: bool = False
    """Whether answers that nobody received are printed, in a replayed session."""
    folding: Folding = IN_CHAT
    last_folded: TranscriptEntry | None = None
    """The last result that was not printed in full."""
    _announced_name: str = ""
    """The agent that the last printed line has announced."""
    _announced_ids: set[AgentId] = msgspec.field(default_factory=set)
    """The agents that were announced."""
    _requested_ids: set[AgentId] = msgspec.field(default_factory=set)
    """The agents that called a model."""
    _hooks: set[AgentId] = msgspec.field(default_factory=set)
    """The agents that were hooks. A removed hook may still send its last message."""
    _calls: dict[tuple[AgentId, str], FunctionCall] = msgspec.field(default_factory=dict)
    _pieces: dict[MessageId, str] = msgspec.field(default_factory=dict)
    _commands: dict[MessageId, str] = msgspec.field(default_factory=dict)
    """The user's actions: the first word of each command, by its entry."""

    def render(self, event: Event, *, streamed: bool = False) -> Iterator[Piece]:
        """Yield the printed form of an event.

        `streamed`: its text was printed while it was streamed.
        """
        for piece in self._render_event(event, streamed=streamed):
            self._announced_name = ""
            yield piece

    def _render_event(self, event: Event, *, streamed: bool) -> Iterator[Piece]:
        self._remember_agent(event)
        if self._sums_up(event.agent_id):
            return  # its result is printed
        match event:
            case TranscriptEntry():
                yield from self._entry(event, streamed=streamed)
            case HookVerdict():
                yield from self._verdict(event)
            case PieceOfText():
                self._pieces[event.message_id] = event.content
            case TurnStop():
                yield from self._stop(event)
            case AgentCreated() if event.relation == "subagent" or self._is_new_hook(event):
                yield from self._birth(event)
            case AgentMoved() if event.replaces is not None:
                yield from self._move(event)
            case AgentMoved(place="gone"):
                prefix = "hook " if event.agent_id in self._hooks else ""
                yield self._render_notice(
                    event.agent_id, f"- {prefix}{self.name(event.agent_id)} ended"
                )
            case ActionRewritten():
                text = f"a hook rewrote the call to {format_call(event.tool, event.arguments)}"
                yield self._render_notice(event.agent_id, clean_text(text), "magenta")
            case AgentConfigured() if event.language_model is not None:
                text = f"{self.name(event.agent_id)} now uses {clean_text(event.language_model)}"
                yield self._render_notice(event.agent_id, text)
            case TranscriptEdited() if event.summary is not None:
                summary = self.folding.message.format(parse_id_number(event.summary, "msg_"))
                text = f"the context of {self.name(event.agent_id)} was compacted"
                yield self._render_notice(event.agent_id, f"{text} ({summary} is the summary)")
            case TranscriptEdited() if event.reason not in _USUAL_EDITS:
                text = f"the context of {self.name(event.agent_id)} was edited"
                yield self._render_notice(
                    event.agent_id, f"{text}: {clean_text(event.reason or '')}"
                )
            case LlmResponse():
                yield from self._ending(event)
            case _:
                pass

    def _remember_agent(self, event: Event) -> None:
        if event.agent_id is None:
            return
        agent = self.state.agents.get(event.agent_id)
        if isinstance(event, AgentCreated):
            self._announced_ids.add(event.agent_id)
        elif isinstance(event, LlmRequest):
            self._requested_ids.add(event.agent_id)
        if agent is not None and (agent.place == "hook" or agent.spec.kind in BUILT_IN):
            self._hooks.add(event.agent_id)
        elif agent is not None and agent.place != "gone":
            self._hooks.discard(event.agent_id)

    def _is_remembered(self, agent: AgentState) -> bool:
        """Whether an agent was restored from an earlier session."""
        is_new = agent.id in self._announced_ids and agent.id not in self._requested_ids
        is_known = self.live or bool(self._requested_ids)  # older logs do not contain the requests
        return is_new and is_known and agent.language_model is not None

    def _entry(self, entry: TranscriptEntry, *, streamed: bool) -> Iterator[Piece]:
        agent = self.state.agents.get(entry.agent_id or AgentId(""))
        if entry.agent_id == USER:
            yield from self._render_user_action(entry)
        elif (
            agent is None
            or entry.role == "system"
            or agent.id in self._hooks
            or entry.message_id in self.answers.words_of_hooks
            or self._is_remembered(agent)
        ):
            return
        elif entry.role == "tool":
            yield from self._result(agent, entry)
        elif entry.role == "assistant":
            yield from self._render_message(agent, entry, streamed=streamed)
        elif agent.id == self.primary:
            yield from self._render_message_to_primary(entry)

    def _render_user_action(self, entry: TranscriptEntry) -> Iterator[Piece]:
        """Yield a command or decision of the user if its effect is not visible."""
        text = text_of(entry.content)
        if entry.role == "assistant" and entry.cause is None:
            self._commands[entry.message_id] = text.split(maxsplit=1)[0]
            yield self._prompt(text, entry.message_id)
        elif entry.role == "assistant" and text.startswith("ALLOW from now on: "):
            yield note(f"allowed from now on: {_shorten(text.partition(': ')[2])}")
        elif entry.role == "user" and isinstance(entry.cause, str):
            command = self._commands.get(reference_message_id(entry.cause))
            if entry.is_error:
                yield note(_shorten(text.removeprefix("Error: ")), "red")
            elif command is not None and command.startswith(SHELL):
                yield self._output(entry)
            elif command is not None and command not in _SEEN_ANYWAY:
                yield note(_shorten(text))

    def _output(self, entry: TranscriptEntry) -> TextRows:
        """Print the output of the user's shell command, and its exit code unless it is 0."""
        lines = clean_text(text_of(entry.content)).splitlines()
        if lines[:1] == ["exit code 0"]:
            del lines[0]
        visible, hidden_count = self.folding.truncate(lines, MAX_OUTPUT_LINES)
        rows: list[Line] = [[("", INDENT + line)] for line in visible]
        if hidden_count:
            self.last_folded = entry
            rows.append(self._format_omission(hidden_count, entry.message_id))
        return TextRows("action", rows, hanging=4)

    def _move(self, event: AgentMoved) -> Iterator[Piece]:
        """Yield a line about an agent that took over the place of another."""
        taker, before = self.name(event.agent_id), self.name(event.replaces)
        now = "is now its hook" if event.replaced_as == "hook" else "is now its subagent"
        if event.agent_id == self.primary:
            yield note(f"you now talk to {taker}; {before} {now}", "cyan")
        else:
            yield self._render_notice(event.agent_id, f"{taker} replaces {before}, which {now}")

    def _sums_up(self, agent_id: AgentId | None) -> bool:
        """Whether it is an agent that compacts the context of another."""
        agent = self.state.agents.get(agent_id or AgentId(""))
        return agent is not None and agent.spec.kind == registered_name(Compactor)

    @property
    def primary(self) -> AgentId | None:
        """The agent that the user talks with."""
        return self.state.primary or self.state.root

    def name(self, agent_id: AgentId | None) -> str:
        """Return an agent's name, or its id if it has none."""
        agent = self.state.agents.get(agent_id or AgentId(""))
        return clean_text((agent.name if agent else None) or agent_id or "?")

    def depth(self, agent_id: AgentId | None) -> int:
        """Return the depth of an agent below the primary one."""
        for depth in range(len(self.state.agents) + 1):
            agent = self.state.agents.get(agent_id or AgentId(""))
            if agent is None or agent.parent is None or agent.id == self.primary:
                return depth
            agent_id = agent.parent
        return 0

    def _render_notice(self, agent_id: AgentId | None, text: str, style: str = "dim") -> TextRows:
        return note(text, style, depth=self.depth(agent_id))

    def _is_new_hook(self, event: AgentCreated) -> bool:
        """Whether a hook was installed, rather than copied for a subagent from its parent."""
        hook = self.state.agents.get(event.agent_id or AgentId(""))
        watched = self.state.agents.get(hook.parent) if hook and hook.parent else None
        above = self.state.agents.get(watched.parent) if watched and watched.parent else None
        names = [self.state.agents[hook_id].name for hook_id in above.hooks] if above else []
        return event.relation == "hook" and event.name not in names

    def _birth(self, event: AgentCreated) -> Iterator[Piece]:
        agent = self.state.agents.get(event.agent_id or AgentId(""))
        name = self.name(event.agent_id)
        above = self.state.agents.get(agent.parent) if agent and agent.parent else None
        if event.relation == "hook":
            watched = agent.parent if agent else None
            yield self._render_notice(watched, f"+ hook {name} watches {self.name(watched)}")
            return
        has_own = event.language_model and above and event.language_model != above.language_model
        model = f" ({clean_text(event.language_model or '')})" if has_own else ""
        if model or name != self._announced_name:
            yield self._render_notice(event.agent_id, f"+ {name}{model}")

    def _render_message_to_primary(self, entry: TranscriptEntry) -> Iterator[Piece]:
        """Yield a prompt or an event that the primary agent received, but no comment of a hook."""
        if entry.cause is None and entry.substance is None:
            yield self._prompt(text_of(entry.content), entry.message_id)
        elif entry.cause is None:
            yield note(f"\u2190 {_shorten(text_of(entry.content))}", "magenta")

    def _prompt(self, text: str, message_id: MessageId) -> TextRows:
        """Return the beginning of a prompt: the user need not see all of a pasted file."""
        (first, *tail), hidden_count = self.folding.truncate(
            text.split("\n"), PROMPT_LINES, MAX_PROMPT_LINE_CHARS
        )
        lines: list[Line] = [[("bold cyan", PROMPT), ("bold", clean_text(first))]]
        lines += ([("bold", INDENT + clean_text(line))] for line in tail)
        if hidden_count:
            lines.append(self._format_omission(hidden_count, message_id))
        return TextRows("prompt", lines, hanging=2)

    def _format_omission(
        self, hidden_count: int, message_id: MessageId, *, is_all: bool = False
    ) -> Line:
        number = parse_id_number(message_id, "msg_")
        return self.folding.format_omission(
            hidden_count, message_id if number is None else number, is_all=is_all
        )

    def _verdict(self, event: HookVerdict) -> Iterator[Piece]:
        kind, text = verdict_kind(event), event.failed or event.text or ""
        if kind != "ok" and event.agent_id is not None:
            line = f"hook {self.name(event.agent_id)} {_VERDICTS[kind]}"
            # Of a recorded answer, the text that others received is printed in its place.
            is_answer = not self.live and (kind, event.point) == ("rewrite", "response")
            has_text = self.shows_drafts or not is_answer
            line += f": {_shorten(text)}" if has_text else " the answer"
            style = "red" if kind in ("denial", "failure") else "magenta"
            yield note(line, style, depth=self.depth(event.watched))

    def _stop(self, event: TurnStop) -> Iterator[Piece]:
        """Yield a line about a turn without an answer; a chat prints the end of its own turns."""
        is_printed = self.live and event.agent_id == self.primary
        if event.reason != "moved" and not is_printed and event.agent_id not in self._hooks:
            text = clean_text(self._pieces.get(event.piece, ""))
            name = self.name(event.agent_id)
            line = f"the turn of {name} was stopped ({event.reason}): {_shorten(text)}"
            yield self._render_notice(event.agent_id, line, "yellow")

    def _render_message(
        self, agent: AgentState, entry: TranscriptEntry, *, streamed: bool
    ) -> Iterator[Piece]:
        outcome = self.answers.outcomes.get(entry.message_id)
        if outcome is not None:
            yield from self._render_judged(agent, entry, outcome)
        elif agent.id == self.primary:
            if not streamed:
                yield from self._answer(entry)
        elif readable_text(entry.content).strip():
            yield self._render_subagent_message(agent, entry)
        for call in entry.tool_calls or ():
            self._calls[agent.id, call.id] = call.function
            if call.function.name in _AT_ONCE:
                line = self._call_line(agent, call.function)
                yield TextRows("action", [line], self.depth(agent.id), hanging=4)
                self._announced_name = _subagent_name(call.function)

    def _render_judged(
        self, agent: AgentState, entry: TranscriptEntry, outcome: AnswerOutcome
    ) -> Iterator[Piece]:
        """Yield an answer that others did not receive as it is: its text for them, or its draft."""
        if self.shows_drafts or outcome.status == "pending":
            hook = None if outcome.hook is None else self.name(outcome.hook)
            text = " ".join(clean_text(readable_text(entry.content)).split())
            line = f"draft of {self.name(agent.id)}, {describe_outcome(outcome, hook)}: {text}"
            yield self._render_notice(agent.id, line, "dim italic")
        if outcome.status == "rewritten":
            answer = structs.replace(entry, content=outcome.text)
            if agent.id == self.primary:
                yield from self._answer(answer)
            elif outcome.text.strip():
                yield self._render_subagent_message(agent, answer)

    def _answer(self, entry: TranscriptEntry) -> Iterator[Piece]:
        for part in entry.content if isinstance(entry.content, list) else ():
            if isinstance(part, ThinkingPart) and part.text.strip():
                yield format_thought(part.text, folding=self.folding)
        if not self.live or entry.tool_calls:
            yield from iter_prose(text_of(entry.content))

    def _render_subagent_message(self, agent: AgentState, entry: TranscriptEntry) -> TextRows:
        """Return the beginning of a subagent's message."""
        lines = clean_text(readable_text(entry.content)).splitlines()
        visible, hidden_count = self.folding.truncate(lines, MAX_RESULT_LINES)
        prefix = self._name_prefix(agent, ":")
        rows: list[Line] = [[*prefix, ("", line)] for line in visible[:1]]
        rows += [[("", INDENT + line)] for line in visible[1:]]
        if hidden_count:
            rows.append(self._format_omission(hidden_count, entry.message_id))
        return TextRows("action", rows, self.depth(agent.id), hanging=2)

    def _result(self, agent: AgentState, entry: TranscriptEntry) -> Iterator[Piece]:
        call = self._calls.pop((agent.id, entry.tool_call_id or ""), None)
        if call is None:
            call = FunctionCall(entry.name or "?", "")
        was_told = call.name in _AT_ONCE
        if was_told and not entry.is_error:
            return  # the messages and new agents were printed then
        tool = self.tools.get(call.name)
        was_read = tool is not None and tool.reads_only
        result = fold_result(
            entry.content, is_error=entry.is_error, was_read=was_read, folding=self.folding
        )
        changes = [] if entry.is_error else list_change_lines(call.name, call.arguments)
        lines: list[Line] = [[("", INDENT), *line] for line in [*result.lines, *changes]]
        if result.hidden_count:
            self.last_folded = entry
            lines.append(
                self._format_omission(
                    result.hidden_count, entry.message_id, is_all=not result.lines
                )
            )
        if not was_told:
            arguments = list_argument_lines(call.arguments) if self.folding.is_full else []
            head = self._call_line(agent, call, is_error=entry.is_error)
            lines = [head, *([("", INDENT), *line] for line in arguments), *lines]
        yield TextRows("action", lines, self.depth(agent.id), hanging=4)

    def _call_line(self, agent: AgentState, call: FunctionCall, *, is_error: bool = False) -> Line:
        text = clean_text(format_call(call.name, call.arguments, self.tools.get(call.name)))
        name, bracket, about = text.partition("(")
        mark = ("red" if is_error else "green", "● ")
        return [mark, *self._name_prefix(agent), ("bold", name), ("", _truncate(bracket + about))]

    def _name_prefix(self, agent: AgentState, colon: str = "") -> list[Span]:
        """Return the name that precedes the messages and calls of a subagent."""
        if agent.id == self.primary:
            return []
        style = _AGENT_COLORS[(parse_id_number(agent.id, "agent_") or 0) % len(_AGENT_COLORS)]
        return [(style, f"{self.name(agent.id)}{colon} ")]

    def _ending(self, response: LlmResponse) -> Iterator[Piece]:
        """Yield a line about a model call that did not end normally."""
        reason = response.stop_reason
        if reason == "error" and not self.live:
            yield self._render_notice(
                response.agent_id, _shorten(response.error or "failed"), "red"
            )
        elif reason == "cancelled" and self.live:
            return  # the end of the turn prints it
        elif reason is not None and reason not in _USUAL_ENDS:
            text = _ODD_ENDS.get(reason, f"the answer ended: {clean_text(reason)}")
            yield self._render_notice(response.agent_id, text, "yellow")


def _subagent_name(call: FunctionCall) -> str:
    """Return the name of the subagent that a call creates, or an empty text."""
    name = parse_arguments_or_empty(call.arguments).get("name") if call.name == "task" else None
    return clean_text(name) if isinstance(name, str) else ""


def format_typed_command(text: str) -> TextRows:
    """Return a typed command that is not logged because it only shows something."""
    (first, *tail), _ = truncate_lines(text.split("\n"), MAX_PROMPT_LINE_CHARS)
    suffix = f" … {format_count(len(tail), 'more line')}" if tail else ""
    return TextRows(
        "prompt", [[("bold cyan", PROMPT), ("bold", clean_text(first) + suffix)]], hanging=2
    )


def iter_prose(text: str) -> Iterator[Prose]:
    """Yield the blocks of a complete text."""
    blocks = Blocks()
    for block in [*blocks.feed(text), *blocks.finish()]:
        yield Prose(block.text, block.is_continuation)


def format_thought(
    text: str, seconds: float | None = None, *, folding: Folding = IN_CHAT
) -> TextRows:
    """Return the folded line of a thought, or the full thought."""
    if folding.is_full:
        return note(clean_text(text.strip()), "dim italic")
    time = "" if seconds is None else f" for {seconds:.0f} s" if seconds >= 1 else " briefly"
    return note(f"thought{time}, {format_count(len(text.split()), 'word')} ({folding.thought})")


def _shorten(text: str) -> str:
    return _truncate(" ".join(clean_text(text).split()), 300)


def _truncate(text: str, limit: int = 100) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
