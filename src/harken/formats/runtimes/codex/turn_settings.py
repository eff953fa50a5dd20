"""The settings of a turn of Codex, and the part of its requests that they determine.

Codex sends the complete history that it records, and adds no messages for one request
(`run_turn`: `clone_history().for_prompt()`). Its `instructions` are the base instructions of the
header. `reasoning` has the effort and the summary of the turn, and only a request with `reasoning`
asks for encrypted thinking (`ModelClient::build_responses_request`). So an encrypted thought proves
that its model has these parameters. The tools and other parameters are in no rollout.

Source: `codex-rs/core/src/client.rs` and `codex.rs`; `TurnContextItem` in
`codex-rs/protocol/src/protocol.rs`.
"""

from __future__ import annotations

import msgspec

from harken.core.events import RequestPart
from harken.formats.json_records import Record, get_text
from harken.formats.runtimes.sent_requests import StatedRequest

_NO_SUMMARY = "none"


class TurnSettings(msgspec.Struct, array_like=True):
    """The settings of the current turn."""

    model: str = ""
    effort: str = ""
    summary: str = ""
    has_turns: bool = False
    """Whether the rollout states the settings of its turns: earlier versions did not."""
    is_codex: bool = False
    """Whether the rollout begins with a header of Codex: it is complete, and no other program's."""
    is_complete: bool = True
    """Whether the history is exactly that of Codex: some compactions do not record it."""
    reasoning_model: str = ""
    """The last model that returned an encrypted thought."""

    def update(self, context: Record) -> None:
        """Update the settings at the beginning of a turn. A member that a turn lacks is unknown."""
        self.model = get_text(context, "model") or self.model
        self.effort, self.summary = get_text(context, "effort"), get_text(context, "summary")
        self.has_turns = True

    def note_item(self, item: Record) -> None:
        """Note an item of an answer of the current model."""
        if get_text(item, "type") == "reasoning" and get_text(item, "encrypted_content"):
            self.reasoning_model = self.model

    def state_request(self, *, has_instructions: bool) -> StatedRequest:
        """Return the part of a request in this turn that is known.

        has_instructions: whether the base instructions are known.
        """
        known_parts: list[RequestPart] = []
        if self.is_codex and self.has_turns and self.is_complete:
            known_parts.append("messages")
        if has_instructions:
            known_parts.append("system")
        parameters: Record = {}
        if self.effort and self.reasoning_model == self.model:
            reasoning = {"effort": self.effort}
            if self.summary and self.summary != _NO_SUMMARY:
                reasoning["summary"] = self.summary
            parameters = {"include": ["reasoning.encrypted_content"], "reasoning": reasoning}
        return StatedRequest(parameters=parameters, known=known_parts)
