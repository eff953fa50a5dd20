"""`harken discuss`: ask the reviewer that filed a finding."""

from __future__ import annotations

import time
from typing import Any

import click

from harken.cli.commands.review.running import agent_options, open_runner
from harken.cli.commands.ticket.fields import read_text
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import TICKET
from harken.config.home import Home
from harken.review.request import ask_about
from harken.terminal.text import print_json, print_text
from harken.tickets.ticket import version_as_json

POLL_INTERVAL_S = 0.5
"""The interval of checks for the answer while another process runs the reviewer."""


@click.command()
@click.argument("ticket", type=TICKET)
@click.argument("text", default="-")
@agent_options
@json_option
@home_option
def command(home: Home, ticket: str, text: str, as_json: bool, **options: Any) -> None:
    """Ask the reviewer of a finding: TEXT, or stdin. Print its answer.

    The reviewer continues from the commit at which it filed the finding, or from its last answer
    about it, with all that it knew then. Discussions of other findings are not part of that.
    The question and the answer are kept in the history of the ticket.
    """
    with open_runner(home, options, prints_answers=False) as (tickets, runner):
        id_ = tickets.find_id(ticket)
        question = ask_about(tickets, id_, read_text(text) or "")
        while True:
            runner.run_all({id_})
            answer = runner.ledger.find_answer(id_, question.head)
            if answer is not None:
                break
            for error in runner.failed.values():
                raise error
            time.sleep(POLL_INTERVAL_S)
        if as_json:
            print_json(version_as_json(question.head, answer) | {"thread_id": id_})
        else:
            print_text(answer.note)
