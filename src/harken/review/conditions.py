"""The start conditions of reviews, which need no configuration."""

from __future__ import annotations

from harken.tickets.query import TicketFilter
from harken.tickets.start import StartCondition

_FINDINGS = TicketFilter(types=("review_finding",))
REVIEW = StartCondition(name="review", event="review")
"""A reviewer is asked for a review: the template with its name."""
DISCUSSION = StartCondition(name="discussion", event="note", tickets=_FINDINGS)
"""Another principal writes on a finding: its reviewer answers."""
VERIFICATION = StartCondition(name="verification", event="closed", tickets=_FINDINGS)
"""Another principal closed a finding: its reviewer verifies that it is resolved."""
REVIEW_CONDITIONS = (REVIEW, DISCUSSION, VERIFICATION)
