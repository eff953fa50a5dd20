"""The tools of reviewers: bound to a ticket, safe to repeat, and without a say in the author."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from harken.core.commits import TicketId
from harken.review.request import ChangeToReview, create_review, request_review
from harken.review.run import build_tools
from harken.store.memory import MemoryStore
from harken.tickets.change import TicketChange
from harken.tickets.ticket import Ticket
from harken.tickets.tracker import Tickets
from harken.world.permissions.permissions import PermissionRequest, Permissions
from harken.world.permissions.rules import PermissionRules
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import ToolContext

DIFF = b"".join(b"line %d\n" % number for number in range(1, 1201))


class Rita:
    """A reviewer without a commit."""

    name = "rita"


CALLER = ToolContext(agent=Rita(), call="msg_001")


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def reviewed(store: MemoryStore) -> Ticket:
    """A ticket in review by rita."""
    ann = Tickets(store, "ann")
    ticket = create_review(ann, ChangeToReview(title="Rewrite the parser", diff=DIFF))
    return request_review(ann, ticket.id, ["rita"])


def call(store: MemoryStore, event: str, ticket: TicketId, name: str, **arguments: Any) -> str:
    """Call a tool of the agent that an event of a ticket starts."""
    tools = build_tools(store, event, Tickets(store, "reader").get(ticket))
    by_name = {tool.name: tool for tool in tools}
    return str(asyncio.run(by_name[name].run(arguments, CALLER)))


@pytest.mark.req("S2-46")
def test_a_finding_that_is_filed_again_is_the_same(store: MemoryStore, reviewed: Ticket) -> None:
    first = call(store, "review", reviewed.id, "file_finding", title="It drops", body="parse.py:2")
    again = call(store, "review", reviewed.id, "file_finding", title="It drops")
    assert again.split()[0] == first.split()[0]
    finding = Tickets(store, "reader").get(first.split()[0])
    assert finding.created.author == "rita"
    state = finding.state
    assert (state.type, state.parent) == ("review_finding", reviewed.id)
    assert state.reviewers == {"rita": "pending"}
    with pytest.raises(InvalidArguments, match="no argument 'context_id'"):
        call(store, "review", reviewed.id, "file_finding", title="Other", context_id="ctx-12")


def test_a_review_is_approved_when_the_findings_of_the_reviewer_are_accepted(
    store: MemoryStore, reviewed: Ticket
) -> None:
    filed = call(store, "review", reviewed.id, "file_finding", title="It drops")
    finding = Tickets(store, "reader").get(filed.split()[0]).id
    with pytest.raises(ToolError, match="not approved: your findings tkt-"):
        call(store, "review", reviewed.id, "conclude_review", disposition="approved")
    call(store, "review", reviewed.id, "conclude_review", disposition="changes_requested")
    with pytest.raises(ToolError, match="is open, not closed"):
        call(store, "closed", finding, "verify_finding", verdict="accept")
    ann = Tickets(store, "ann")
    ann.close(finding)
    assert "open again" in call(store, "closed", finding, "verify_finding", verdict="reopen")
    ann.close(finding)
    answer = call(store, "closed", finding, "verify_finding", verdict="accept", note="seen")
    assert answer.endswith("is accepted, and the review")
    versions = ann.history(finding)
    assert call(store, "closed", finding, "verify_finding", verdict="accept") == answer
    assert ann.history(finding) == versions, "a repeated call changes nothing"
    assert ann.get(reviewed.id).state.reviewers == {"rita": "approved"}


def test_a_finding_that_another_principal_opens_or_closes_is_not_accepted(
    store: MemoryStore, reviewed: Ticket
) -> None:
    ann = Tickets(store, "ann")
    filed = call(store, "review", reviewed.id, "file_finding", title="It drops")
    finding = ann.get(filed.split()[0]).id
    ann.close(finding)
    call(store, "closed", finding, "verify_finding", verdict="accept")
    assert ann.get(reviewed.id).state.reviewers == {"rita": "approved"}
    ann.reopen(finding, note="it is back")
    assert ann.get(finding).state.reviewers == {"rita": "pending"}
    parent = ann.get(reviewed.id)
    assert (parent.state.reviewers, parent.version.author) == (
        {"rita": "changes_requested"},
        "ann",
    )
    ann.update(finding, TicketChange(status="closed"))
    assert ann.get(finding).state.reviewers == {"rita": "pending"}
    with pytest.raises(ToolError, match="not approved: your findings tkt-"):
        call(store, "review", reviewed.id, "conclude_review", disposition="approved")
    answer = call(store, "closed", finding, "verify_finding", verdict="accept")
    assert answer.endswith("is accepted, and the review")
    assert ann.get(reviewed.id).state.reviewers == {"rita": "approved"}


def test_only_a_reviewer_concludes_a_review(store: MemoryStore) -> None:
    ticket = Tickets(store, "ann").create("Other", TicketChange(status="review"))
    with pytest.raises(ToolError, match="rita is not a reviewer of"):
        call(store, "review", ticket.id, "conclude_review", disposition="approved")
    with pytest.raises(ToolError, match="no change attached"):
        call(store, "review", ticket.id, "read_change")


def test_a_long_change_is_read_in_parts(store: MemoryStore, reviewed: Ticket) -> None:
    first = call(store, "review", reviewed.id, "read_change").splitlines()
    assert (len(first), first[0], first[499]) == (501, "    1 line 1", "  500 line 500")
    assert first[-1] == "(700 more lines: continue with first_line=501)"
    last = call(store, "review", reviewed.id, "read_change", first_line=1200)
    assert last == " 1200 line 1200"
    assert "1200 lines" in call(store, "review", reviewed.id, "read_change", first_line=1201)
    with pytest.raises(InvalidArguments, match="number is 1 to 1"):
        call(store, "review", reviewed.id, "read_change", number=2)


def test_no_code_of_a_change_is_hidden(store: MemoryStore) -> None:
    """A line that is cut says so, and only a line feed ends a line."""
    ann = Tickets(store, "ann")
    lines = ["+ok = 1;" + " " * 1000 + "remove(everything)", "+a\u2028b\x0bc\x85d\re", "-x"]
    diff = "\n".join(lines).encode()
    ticket = create_review(ann, ChangeToReview(title="Rewrite", diff=diff))
    reviewed = request_review(ann, ticket.id, ["rita"])
    first, second, third = call(store, "review", reviewed.id, "read_change").split("\n")
    assert first.endswith(" (26 more characters: first_line=1, first_character=1001)")
    assert (second, third) == (f"    2 {lines[1]}", "    3 -x")
    rest = call(store, "review", reviewed.id, "read_change", first_character=1001)
    assert rest.split("\n")[0] == "    1         remove(everything)"
    with pytest.raises(InvalidArguments, match="1 or more"):
        call(store, "review", reviewed.id, "read_change", first_character=0)


def test_plan_mode_allows_a_report_and_a_rule_denies_it(
    store: MemoryStore, reviewed: Ticket
) -> None:
    tool = next(t for t in build_tools(store, "review", reviewed) if t.name == "file_finding")
    request = PermissionRequest(tool, {"title": "It drops"}, ["rita"])
    assert Permissions("plan").decide(request).kind == "free"
    rules = PermissionRules.parse(deny=["file_finding"])
    assert Permissions("all", rules).decide(request).kind == "denied"
