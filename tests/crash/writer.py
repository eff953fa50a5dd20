"""A program that writes turns to a log until it is killed: writer.py DURABILITY FOLDER.

Every entry of its one agent begins with its number, from 0. It prints the number of the last entry
that is safe by the log's own promise: after every `settle`, with durability `always` after every
entry. Its log may have been left by an earlier run that was killed.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from random import Random

from harken.core import events as ev
from harken.core.ids import AgentId, MessageId
from harken.session.session import Durability, Session, SessionOptions
from tests.session_kit import call_dict, create_agent, log_request, log_response

AGENT = AgentId("agent_001")
POLICIES: dict[str, Durability] = {"turn": "turn", "always": "always", "none": "none"}


class Writer:
    """Writes turns as an agent does."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.sizes = Random(session.state.next_message)
        if not session.agents:
            create_agent(session)
        for call in list(session.agents[AGENT].open_calls):
            self.log({"role": "tool", "tool_call_id": call, "name": "look"})

    def log(self, message: dict[str, object]) -> MessageId:
        """Log an entry with its number, sometimes one that is longer than a page."""
        number = len(self.session.agent(AGENT).transcript or ())
        padding = "." * self.sizes.choice([0, 50, 700, 20_000])
        message["content"] = f"{number}:{padding}"
        id_ = self.session.log_transcript_entry(AGENT, message)
        if self.session.options.durability == "always":
            print(number, flush=True)
        return id_

    def settle(self) -> None:
        """Sync all entries and print the last number."""
        self.session.sync()
        print(len(self.session.agent(AGENT).transcript or ()) - 1, flush=True)

    def turn(self, number: int) -> None:
        """Log input, request, call, sync, result, request, answer, sync."""
        self.log({"role": "user"})
        request = log_request(self.session, AGENT)
        calling = self.log({"role": "assistant", "tool_calls": [call_dict(f"call_{number}")]})
        log_response(self.session, AGENT, request, entry=calling)
        self.settle()
        self.log({"role": "tool", "tool_call_id": f"call_{number}", "name": "look"})
        request = log_request(self.session, AGENT)
        answer_id = self.log({"role": "assistant"})
        log_response(self.session, AGENT, request, entry=answer_id)
        self.session.append(ev.AgentStateSaved(agent_id=AGENT, state={"turn": number}))
        self.settle()


def main(durability: str, folder: Path) -> None:
    """Write turns until killed."""
    how = SessionOptions(durability=POLICIES[durability])
    writer = Writer(Session(folder / "s.jsonl", options=how))
    for number in itertools.count(writer.session.state.next_message):
        writer.turn(number)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
