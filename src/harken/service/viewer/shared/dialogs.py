"""Many dialogs of one session, computed in one pass over its events.

Each dialog lists items when events of its agents, stops of turns and decisions of hooks arrive. An
event is passed on to the dialogs that it concerns only, and all of them share the outcomes of
answers, which fold the whole session. So a dialog costs as much as the events of its agents.
"""

from __future__ import annotations

from collections.abc import Sequence

from harken.core.events import TurnStop
from harken.core.ids import AgentId
from harken.service.viewer.open_sessions import DialogList
from harken.views.dialogs.answers import Answers
from harken.views.links import Links


def read_dialogs(links: Links, groups: Sequence[Sequence[AgentId]]) -> list[DialogList]:
    """Return the dialog of each group of agents, as if each had been read alone."""
    answers = Answers()
    dialogs = [DialogList(links, agents, answers) for agents in groups]
    dialogs_by_agent: dict[AgentId | None, list[DialogList]] = {}
    for dialog, agents in zip(dialogs, groups, strict=True):
        for agent in dict.fromkeys(agents):
            dialogs_by_agent.setdefault(agent, []).append(dialog)
    for event_count, event in enumerate(links.events, 1):
        answer_ids = answers.add_event(event)
        concerns_all = answer_ids or isinstance(event, TurnStop)
        dialogs_of_event = dialogs if concerns_all else dialogs_by_agent.get(event.agent_id, ())
        for dialog in dialogs_of_event:
            dialog.add_decided(event, event_count, answer_ids)
    return dialogs
