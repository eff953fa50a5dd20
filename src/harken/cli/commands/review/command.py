"""`harken review`: reviewers read a change and file findings."""

from __future__ import annotations

from typing import Any

import click

from harken.cli.commands.review.running import agent_options, open_runner
from harken.cli.commands.review.target import is_ticket, read_target
from harken.cli.options.home import home_option, json_option
from harken.config.home import Home
from harken.review.request import create_review, request_review, restart_reviews
from harken.terminal.text import print_json, print_text
from harken.tickets import query
from harken.tickets.ticket import Ticket, short_id
from harken.tickets.tracker import Tickets


@click.command()
@click.argument("target", metavar="DIFF|COMMIT|TICKET")
@click.option(
    *("--reviewers", "reviewers"),
    metavar="NAME,...",
    default="",
    help="The templates of the reviewers. Without them: those of the ticket that were cut off.",
)
@click.option("--title", default="", help="The title of a new ticket.")
@agent_options
@json_option
@home_option
def command(
    home: Home, target: str, reviewers: str, title: str, as_json: bool, **options: Any
) -> int:
    """Let reviewers read a change and file findings.

    The change is a file with a diff (- reads stdin), a commit or a range of git (main..side), or a
    ticket with a diff as its attachment. The ticket is set to `review`. Each reviewer is an agent
    of the template with its name; its findings are child tickets with its context. Ask it with
    `harken discuss`; when you close a finding, it verifies that. Exit code 1 if a reviewer failed.
    """
    names = [*dict.fromkeys(name.strip() for name in reviewers.split(",") if name.strip())]
    if not names and not is_ticket(target):
        raise click.UsageError("name the reviewers with --reviewers")
    if title and is_ticket(target):
        raise click.UsageError("--title is for a new ticket: `harken ticket update` changes others")
    change = None if is_ticket(target) else read_target(target)
    with open_runner(home, options) as (tickets, runner):
        for name in names:
            runner.agents.check_template(name)
        if change is None:
            ticket = tickets.get(target)
        else:
            ticket = create_review(tickets, change, title=title)
        if names:
            ticket = request_review(tickets, ticket.id, names)
            restart_reviews(runner.ledger, ticket.id, names)
        every = tickets.list_tickets()
        runner.run_until_ended(
            {ticket.id, *(child.id for child in query.children(ticket.id, every))},
            lambda start: (
                (start.ticket, start.event) == (ticket.id, "review")
                and (not names or start.principal in names)
            ),
        )
        current = tickets.get(ticket.id)
        _print_review(tickets, current, as_json=as_json)
        given = current.state.reviewers
        is_pending = any(given.get(name) == "pending" for name in names or given)
        return int(runner.has_failed or is_pending)


def _print_review(tickets: Tickets, current: Ticket, *, as_json: bool) -> None:
    """Print a ticket in review with its reviewers and findings."""
    findings = [
        child
        for child in query.children(current.id, tickets.list_tickets())
        if child.state.type == "review_finding"
    ]
    if as_json:
        print_json(current.as_json() | {"findings": [finding.as_json() for finding in findings]})
        return
    print_text(f"{short_id(current.id)}  {current.state.status}  {current.state.title}")
    for reviewer, disposition in current.state.reviewers.items():
        print_text(f"  {reviewer}: {disposition}")
    for finding in findings:
        state = finding.state
        author = finding.created.author
        print_text(
            f"  {short_id(finding.id)}  p{state.priority} {state.status}  {state.title} ({author})"
        )
