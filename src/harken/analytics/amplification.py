"""Amplification: how much an agent does for each thing that a person says to it.

Source: the specification of contexts, "Analytics Derivability".
"""

from __future__ import annotations

from collections.abc import Iterable

from harken.analytics.numbers import ratio
from harken.analytics.spell import Spell
from harken.core.record import Record


class Amplification(Record, frozen=True, kw_only=True):
    """Sums, and what comes of one prompt; None where there was none."""

    prompts: int
    """What persons said."""
    responses: int
    """Answers of models, subagents' too."""
    tool_calls: int
    input_characters: int
    """Of prompts."""
    output_characters: int
    """Of answers; thoughts and the arguments of calls aside."""
    responses_per_prompt: float | None
    tool_calls_per_prompt: float | None
    output_per_input: float | None
    """Characters for a character."""


def amplification(spells: Iterable[Spell], tool_calls: int) -> Amplification:
    """Return the ratios of what was said and called."""
    prompts = responses = heard = said = 0
    for spell in spells:
        prompts += spell.prompts
        responses += spell.responses
        heard += spell.input_characters
        said += spell.output_characters
    return Amplification(
        prompts=prompts,
        responses=responses,
        tool_calls=tool_calls,
        input_characters=heard,
        output_characters=said,
        responses_per_prompt=ratio(responses, prompts),
        tool_calls_per_prompt=ratio(tool_calls, prompts),
        output_per_input=ratio(said, heard),
    )
