"""`harken discuss`: ask the reviewer that filed a finding."""

from __future__ import annotations

from typing import Any

import click

from harken.cli.commands.review.running import agent_options, open_runner
from harken.cli.commands.ticket.fields import read_text
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import TICKET
from harken.config.home import Home
from harken.review.request import find_reviewer
from harken.terminal.text import print_json, print_text
from harken.tickets.ticket import version_as_json


@click.command()
@click.argument("ticket", type=TICKET)
@click.argument("text", default="-")
@agent_options
@json_option
@home_option
def command(home: Home, ticket: str, text: str, as_json: bool, **options: Any) -> int:
    """Ask the reviewer of a finding: TEXT, or stdin. Print its answer.

    The reviewer continues from the commit at which it filed the finding, or from its last answer
    about it, with all that it knew then. Discussions of other findings are not part of that.
    The question and the answer are kept in the history of the ticket. Exit code 1 if the reviewer
    failed.
    """
    with open_runner(home, options, prints_answers=False) as (tickets, runner):
        id_ = tickets.find_id(ticket)
        runner.agents.check_template(find_reviewer(tickets, id_))
        question = tickets.note(id_, read_text(text) or "")
        runner.run_until_ended({id_}, lambda start: start.version == question.head)
        start = runner.ledger.find_start(id_, question.head)
        if start is None or start.state != "done":
            return 1  # The runner has reported why.
        if as_json:
            print_json(version_as_json(question.head, start.step) | {"thread_id": id_})
        else:
            print_text(start.step.note)
    return 0
