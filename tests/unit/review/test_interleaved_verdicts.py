"""A verdict and a reopened finding in two processes: no order of their steps approves too much."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest

from harken.core.commits import ArtifactRef, HeadName
from harken.review.request import ChangeToReview, create_review, request_review
from harken.review.run import build_tools
from harken.store.memory import MemoryStore
from harken.tickets.tracker import Tickets
from harken.world.result import ToolError
from harken.world.tool import ToolContext


class Rita:
    """A reviewer without a commit."""

    name = "rita"


CALLER = ToolContext(agent=Rita(), call="msg_001")


class SteppedStore(MemoryStore):
    """A store that lets somebody else act before one of its requests about heads."""

    def __init__(self) -> None:
        super().__init__()
        self.requests_left = -1
        self.act: Callable[[], None] = lambda: None

    def _step(self) -> None:
        self.requests_left -= 1
        if self.requests_left == -1:
            self.act()

    def heads(self, prefix: str = "") -> dict[HeadName, ArtifactRef]:
        self._step()
        return super().heads(prefix)

    def move_head(self, name: HeadName, to: ArtifactRef, *, expected: ArtifactRef | None) -> None:
        self._step()
        super().move_head(name, to, expected=expected)


class Review:
    """A ticket in review with a finding that is resolved, or accepted too."""

    def __init__(self, *, is_accepted: bool) -> None:
        self.store = SteppedStore()
        self.ann = Tickets(self.store, "ann")
        created = create_review(self.ann, ChangeToReview(title="Parser", diff=b"x\n"))
        self.ticket = request_review(self.ann, created.id, ["rita"]).id
        filed = self._call("review", "file_finding", title="It drops")
        self.finding = self.ann.get(filed.split()[0]).id
        self.ann.close(self.finding)
        if is_accepted:
            self.accept()
            self._call("review", "conclude_review", disposition="commented")

    def _call(self, event: str, name: str, **arguments: str) -> str:
        subject = self.ticket if event == "review" else self.finding
        tools = {tool.name: tool for tool in build_tools(self.store, event, self.ann.get(subject))}
        return str(asyncio.run(tools[name].run(arguments, CALLER)))

    def accept(self) -> None:
        with suppress(ToolError):
            self._call("closed", "verify_finding", verdict="accept")

    def approve(self) -> None:
        with suppress(ToolError):
            self._call("review", "conclude_review", disposition="approved")

    def reopen(self) -> None:
        self.ann.reopen(self.finding, note="it is back")


@pytest.mark.parametrize("verdict", [Review.accept, Review.approve])
@pytest.mark.parametrize("is_verdict_first", [True, False])
def test_no_order_of_steps_approves_a_review_with_an_open_finding(
    verdict: Callable[[Review], None], *, is_verdict_first: bool
) -> None:
    steps = 0
    is_interleaved = True
    while is_interleaved:
        review = Review(is_accepted=verdict is Review.approve)
        actors: list[Callable[[], None]] = [partial(verdict, review), review.reopen]
        first, second = actors if is_verdict_first else actors[::-1]
        review.store.requests_left, review.store.act = steps, second
        first()
        is_interleaved = review.store.requests_left < 0
        review.store.act = lambda: None
        if not is_interleaved:
            second()
        reviewed = review.ann.get(review.ticket)
        finding = review.ann.get(review.finding)
        assert finding.state.status == "open"
        assert finding.state.reviewers == {"rita": "pending"}
        assert reviewed.state.reviewers != {"rita": "approved"}, steps
        steps += 1
    assert steps > 3
