"""What recorded agents understood goes into a store, as it goes.

One idea: a commit's parent is what it shares. After each answer what is new since the last commit
that the context begins with is committed; so where the last messages only were changed, the next
commit goes on from before the change, and a fork from where it left the road. A context that begins
with no commit of the session is committed whole, as what stands for all before.

The log is the truth: a store that refuses stops nobody, and the next commit has what was pending.

Source: docs/design/006-what-the-model-saw.md, decision 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile

from harken.context.checkpoint import CommitDraft, CommitOrigin, checkpoint_all
from harken.core.commits import Checkpoint, CommitId, CommitType
from harken.core.events import ContextCommitted
from harken.core.ids import AgentId, MessageId, parse_id_number
from harken.core.messages import ChatMessage
from harken.recording.agent_recorder import AgentRecorder
from harken.recording.item import LoggedItem
from harken.session.state import AgentState
from harken.store.base import Store


@dataclass(slots=True)
class _Road:
    """What an agent has in its context, and a number for each beginning of it."""

    row: list[LoggedItem] = field(default_factory=list)
    marks: list[int] = field(default_factory=lambda: [0])
    """Equal where two agents have the same entries up to there."""

    def follow(self, row: Sequence[LoggedItem]) -> None:
        """Bring it up to what the context is now."""
        same = 0
        for mine, other in zip(self.row, row, strict=False):
            if mine is not other:
                break
            same += 1
        del self.row[same:], self.marks[same + 1 :]
        for heard in row[same:]:
            self.row.append(heard)
            self.marks.append(hash((self.marks[-1], heard.ids)))


@dataclass(slots=True)
class SessionCommits:
    """The commits of one recorded session."""

    store: Store
    origin: CommitOrigin
    """Of the first agent; those below it have their names after its principal."""
    _roads: dict[AgentId, _Road] = field(default_factory=dict)
    _made: dict[int, CommitId] = field(default_factory=dict)
    """The mark of a context -> the commit that holds it."""

    def know(self, voice: AgentRecorder, upto: MessageId, ctx: str) -> None:
        """Take over a commit that the log names: it holds the context up to this entry."""
        road = self._road(voice)
        newest = parse_id_number(upto, "msg_") or 0
        at = 0
        for heard in voice.row:
            if (parse_id_number(heard.ids[-1], "msg_") or 0) > newest:
                break
            at += 1
        if at:
            self._made[road.marks[at]] = CommitId(ctx)

    def take(self, voice: AgentRecorder, trigger: Checkpoint) -> CommitId | None:
        """Commit what is new in an agent's context; return the commit, None where there is none.

        trigger: `compaction` where a summary stands in place of what was there. A context that has
        to be committed whole, and is for the most part in a commit, waits for more, or for the end
        of the session: else who changes the beginning with each request would be kept n times.
        Raises StoreError: nothing was written, and what was pending still is. Raises LogError.
        """
        road, state = self._road(voice), voice.session.agent(voice.agent_id)
        at = len(road.row)
        while at and (trigger == "compaction" or road.marks[at] not in self._made):
            at -= 1
        if at == len(road.row):
            return None
        context = voice.session.context(voice.agent_id)
        base = self._made.get(road.marks[at]) if at else None
        if base is None and trigger == "turn_boundary" and not _is_worth_it(state, len(context)):
            return None
        stays = 0 if base is None else _staying(state, road.row[at:])
        new = context[voice.before(at)[0] :]
        split = voice.before(at + stays)[0] - voice.before(at)[0]
        drafts = _drafts(state, new, base, trigger, split)
        origin = self._origin(voice)
        made = checkpoint_all(self.store, [replace(draft, origin=origin) for draft in drafts])
        if stays and len(made) > 1:
            self._made[road.marks[at + stays]] = made[0]
        voice.session.append(
            ContextCommitted(
                agent_id=voice.agent_id,
                ctx=made[-1],
                parent_ctx=made[-2] if len(made) > 1 else drafts[0].parent,
                checkpoint=trigger,
                upto=_newest(state, context),
            )
        )
        self._made[road.marks[-1]] = made[-1]
        return made[-1]

    def _road(self, voice: AgentRecorder) -> _Road:
        road = self._roads.setdefault(voice.agent_id, _Road())
        road.follow(voice.row)
        return road

    def _origin(self, voice: AgentRecorder) -> CommitOrigin:
        state = voice.session.agents[voice.agent_id]
        if voice.agent_id == voice.session.state.root:
            return self.origin
        return replace(
            self.origin, principal=f"{self.origin.principal}/{state.name or voice.agent_id}"
        )


def _newest(state: AgentState, context: Sequence[ChatMessage]) -> MessageId | None:
    """Return the newest entry that a commit of this context covers."""
    entries = [*(state.transcript or ())[-1:], *context]
    ids = [id_ for one in entries if (id_ := getattr(one, "message_id", None))]
    return max(ids, key=lambda id_: parse_id_number(id_, "msg_") or 0, default=None)


def _is_worth_it(state: AgentState, count: int) -> bool:
    """Whether half of a context came after the agent's last commit."""
    if state.commit_id is None or state.committed_upto is None:
        return True
    upto = parse_id_number(state.committed_upto, "msg_") or 0
    newer = takewhile(
        lambda entry: (parse_id_number(entry.message_id, "msg_") or 0) > upto,
        reversed(state.transcript or ()),
    )
    return 2 * sum(1 for _ in newer) >= count


def _staying(state: AgentState, row: Sequence[LoggedItem]) -> int:
    """Return how many items were there when the agent's last commit was made, and are again.

    They are likely to stay, so they get a commit without what came after them: that may be gone
    with the next request, and the commit after it has something to go on from.
    """
    upto = parse_id_number(state.committed_upto or "", "msg_") or 0
    stay = takewhile(lambda heard: (parse_id_number(heard.ids[-1], "msg_") or 0) <= upto, row)
    return sum(1 for _ in stay)


def _drafts(
    state: AgentState,
    new: Sequence[ChatMessage],
    base: CommitId | None,
    trigger: Checkpoint,
    split: int,
) -> list[CommitDraft]:
    """Return what has to be committed, each the parent of the next.

    new: what the context has beyond `base`; all of it, where that is None. split: so many of
    these messages have a commit of their own.
    """
    if base is not None:
        first = CommitDraft(messages=new[: split or len(new)], parent=base, trigger=trigger)
        rest = new[split:] if split else []
        return [first, CommitDraft(messages=rest, trigger=trigger)] if rest else [first]
    before = state.commit_id or state.spawn_commit_id
    parent = None if before is None else CommitId(before)
    if state.commit_id is not None:
        kind: CommitType = "compaction" if trigger == "compaction" else "snapshot"
        return [CommitDraft(messages=new, parent=parent, type=kind, trigger=trigger)]
    if state.parent is None:
        return [CommitDraft(messages=new, trigger=trigger)]
    heard = list(takewhile(lambda message: message.role != "assistant", new))
    told = CommitDraft(messages=heard or new, parent=parent, type="snapshot", trigger="spawn")
    rest = new[len(heard) :] if heard else []
    return [told, CommitDraft(messages=rest, trigger=trigger)] if rest else [told]
