"""The order of a discussion: rounds, its end, and the choice of the next speaker.

`until` is a phrase or `judge:NAME`; `order` is `given`, `random`, `random:SEED` or
`moderator:NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from harken.agents.agent import Agent
from harken.core.arguments import format_existing
from harken.core.events import DiscussionOpened, Reference
from harken.core.ids import USER, AgentId
from harken.world.result import InvalidArguments

MAX_ROUNDS = 20
JUDGE, MODERATOR = "judge:", "moderator:"
"""The prefixes of `until` and `order` that name a subagent."""
_ORDERS = ("given", "random", "random:SEED", f"{MODERATOR}NAME")
_SEED_PATTERN = re.compile(r"random:\s*(\d{1,15})")


class DiscussionOrder(msgspec.Struct, frozen=True):
    """The order of a discussion, as `discussion_opened` has it."""

    rounds: int = 1
    until: str | None = None
    judge: AgentId | None = None
    moderator: AgentId | None = None
    seed: int | None = None

    @property
    def is_plain(self) -> bool:
        """Whether each speaker answers once, in the given order."""
        return self == DiscussionOrder()

    @property
    def leaders(self) -> list[AgentId]:
        """The judge and the moderator, as far as there are any."""
        return [id_ for id_ in dict.fromkeys((self.judge, self.moderator)) if id_ is not None]


def order_of(opening: DiscussionOpened) -> DiscussionOrder:
    """Return the order of a discussion that was opened."""
    members = (opening.rounds, opening.until, opening.judge, opening.moderator, opening.seed)
    return DiscussionOrder(*members)


def parse_order(
    agent: Agent, call: Reference, arguments: Mapping[str, Any], speakers: Collection[AgentId]
) -> DiscussionOrder:
    """Return the order that the arguments of `discuss` describe. Raises InvalidArguments."""
    rounds, until, order = arguments["rounds"], arguments["until"], arguments["order"].strip()
    if not 1 <= rounds <= MAX_ROUNDS:
        raise InvalidArguments(f"rounds is {rounds}: a discussion has 1 to {MAX_ROUNDS} rounds")
    if until is not None and not until.strip():
        raise InvalidArguments(f"until is blank: write a phrase or {JUDGE}NAME, or omit it")
    judge = moderator = seed = None
    if until is not None and until.startswith(JUDGE):
        judge, until = _resolve_leader(agent, until, JUDGE, speakers), None
    if order.startswith(MODERATOR):
        moderator = _resolve_leader(agent, order, MODERATOR, speakers)
    elif order == "random":
        seed = _derive_seed(agent, call)
    elif match := _SEED_PATTERN.fullmatch(order):
        seed = int(match[1])
    elif order != "given":
        raise InvalidArguments(f"order {order!r} not found" + format_existing(_ORDERS, "orders"))
    return DiscussionOrder(rounds, until, judge, moderator, seed)


def leader_names(arguments: Mapping[str, Any]) -> list[str]:
    """Return the names of the judge and the moderator in a model's unchecked arguments."""
    members = ((arguments.get("until"), JUDGE), (arguments.get("order"), MODERATOR))
    return [
        text.strip().removeprefix(prefix).strip()
        for text, prefix in members
        if isinstance(text, str) and text.strip().startswith(prefix)
    ]


def has_phrase(text: str, phrase: str) -> bool:
    r"""Whether a text contains a phrase as whole words, in any case.

    >>> has_phrase("So we\nAGREE.", "we agree"), has_phrase("I disagree.", "agree")
    (True, False)
    """
    words = r"\s+".join(map(re.escape, phrase.split()))
    return re.search(rf"(?<!\w){words}(?!\w)", text, re.IGNORECASE) is not None


def _resolve_leader(agent: Agent, text: str, prefix: str, speakers: Collection[AgentId]) -> AgentId:
    """Return the subagent that `judge:NAME` or `moderator:NAME` names. It must not speak."""
    name, role = text.removeprefix(prefix).strip(), prefix.removesuffix(":")
    subagents = agent.subagents
    others = [peer for peer in subagents if subagents[peer].agent_id not in speakers]
    existing = format_existing(others, "subagents that do not speak", adjective="your")
    if name == USER:
        raise InvalidArguments(f"the user cannot be the {role}{existing}")
    if name not in subagents:
        raise InvalidArguments(f"{role} {name!r} not found{existing}")
    if name not in others:
        raise InvalidArguments(f"{role} {name!r} is also a speaker: name another agent{existing}")
    return subagents[name].agent_id


def _derive_seed(agent: Agent, call: Reference) -> int:
    """Return a seed from the session and the position of the call in the agent's transcript.

    Each session has other seeds. They do not depend on ids of messages, which a resume may shift.
    """
    turns = sum(entry.role == "assistant" for entry in agent._own_entries())
    key = f"{agent.session.state.session_id} {agent.agent_id} {turns} {call.partition('.')[2]}"
    return int.from_bytes(sha256(key.encode()).digest()[:4])
