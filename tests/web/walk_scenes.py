"""The machine of an engineer: a repository, and 200 sessions of Claude Code and Codex."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from tests.cli.git_kit import Repository, Session
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

COUNT, CODEX_COUNT = 200, 39
SHOP_SESSION = "claude:5e551001-0000-4000-8000-000000000001"
TITLE = "Delivery fee"
REQUEST = "Delivery costs 4.90, and nothing for orders of 30.00 or more. Add a function for it."
REASON = "All amounts are in cents, so the limit is 3000. A fee of its own keeps `total` as it is."
CORRECTION = "Orders that are picked up have no fee."
CORRECTION_REASON = "A pickup is not delivered, whatever it costs, so it is checked first."
ANSWER = "Done: `delivery_fee` is 0 for a pickup and from 30.00 on, otherwise 4.90."
ORDERS = '''\
"""Orders of the shop."""

from dataclasses import dataclass


@dataclass
class Order:
    """Some cups of one kind of tea."""

    price: int
    count: int
    is_pickup: bool = False


def total(order):
    """Return what an order costs, in cents."""
    return order.price * order.count
'''
SUM = "    return order.price * order.count\n"
FUNCTION = '''

def delivery_fee(order):
    """Return what the delivery of an order costs, in cents."""
    if total(order) >= 3000:
        return 0
    return 490
'''
LIMIT = "    if total(order) >= 3000:\n"
PICKUP = "    if order.is_pickup or total(order) >= 3000:\n"
TASKS = ["Fix", "Test", "Rename", "Document", "Speed up", "Split", "Review", "Remove"]
THINGS = [
    *("the login page", "the receipt printer", "the tea catalog", "the cache of prices"),
    *("the nightly export", "the discount codes", "the search field", "the stock report"),
    *("the payment retries", "the mail templates", "the address form", "the size of images"),
    *("the order history", "the admin menu", "the currency names", "the health check"),
    *("the import of suppliers", "the log rotation", "the price tags", "the table of taxes"),
    *("the opening hours", "the loyalty points", "the deploy script", "the delivery dates"),
    "the feature flags",
]
PROJECTS = ["shop", "shop-web", "receipts", "deploy"]


def write_machine(user: Path) -> Repository:
    """Write a repository of the user, and the sessions of the last weeks."""
    now = datetime.now(UTC).replace(microsecond=0)
    repository = Repository.create(user / "shop")
    write_shop_session(repository, user, now - timedelta(hours=30))
    talks = [f"{task} {thing}" for thing, task in product(THINGS, TASKS)]
    for number, talk in enumerate(talks[: COUNT - 1]):
        began = now - timedelta(hours=3 + 7 * number)
        folder = user / PROJECTS[number % len(PROJECTS)]
        write = write_codex_session if number % 5 == 4 else write_claude_session
        write(user, folder, talk, number, began)
    return repository


def write_shop_session(repository: Repository, user: Path, began: datetime) -> None:
    """Write the session whose agent wrote `delivery_fee`, and commit its work."""
    repository.write("src/orders.py", ORDERS)
    repository.write("README.md", "# Shop\n\nTea by the cup.\n")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "Begin the shop", time=stamp(began - timedelta(days=9)))
    session = Session(repository, 1).ask(REQUEST)
    session.edit("src/orders.py", SUM, SUM + FUNCTION, REASON)
    session.ask(CORRECTION).edit("src/orders.py", LIMIT, PICKUP, CORRECTION_REASON)
    session.transcript.answer(text_block(ANSWER))
    session.transcript.add("ai-title", aiTitle=TITLE)
    save(session.transcript, user, repository.folder, began)
    repository.write("src/orders.py", (ORDERS + FUNCTION).replace(LIMIT, PICKUP))
    repository.git(
        *("commit", "-q", "-a", "-m", "Add the delivery fee"),
        time=stamp(began + timedelta(hours=1)),
    )


def write_claude_session(user: Path, folder: Path, talk: str, number: int, began: datetime) -> None:
    """Write a session of Claude Code with a call and an answer."""
    transcript = Transcript(session=f"{number:08x}-0000-4000-8000-000000000002")
    transcript.shared = {"cwd": str(folder)}
    transcript.add("ai-title", aiTitle=talk)
    transcript.user(f"{talk}, please.")
    transcript.answer(tool_use_block(f"toolu_{number:022d}", "Bash", command="git status"))
    transcript.result(f"toolu_{number:022d}", "nothing to commit, working tree clean")
    transcript.answer(text_block(f"{talk}: done, and the tests pass."), id=f"msg_b{number}")
    save(transcript, user, folder, began)


def save(transcript: Transcript, user: Path, folder: Path, began: datetime) -> None:
    """Write a transcript of Claude Code where it would be, one record each twenty seconds."""
    for number, record in enumerate(transcript.records):
        record["timestamp"] = stamp(began + timedelta(seconds=20 * number))
    place = user / ".claude/projects" / str(folder).replace("/", "-")
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{transcript.session}.jsonl").write_bytes(transcript.data)


def write_codex_session(user: Path, folder: Path, talk: str, number: int, began: datetime) -> None:
    """Write a rollout of Codex with a question and an answer."""
    id_ = f"0199c0de-0000-7000-8000-{number:012d}"
    meta = {"id": id_, "timestamp": stamp(began), "cwd": str(folder), "cli_version": "0.142.2"}
    messages = [("user", "input_text", talk), ("assistant", "output_text", f"{talk}: done.")]
    lines: list[tuple[str, dict[str, Any]]] = [
        ("session_meta", meta),
        ("turn_context", {"cwd": str(folder), "model": "gpt-5.5-codex"}),
        *(
            (
                "response_item",
                {"type": "message", "role": role, "content": [{"type": kind, "text": text}]},
            )
            for role, kind, text in messages
        ),
    ]
    place = user / ".codex/sessions" / f"{began:%Y/%m/%d}"
    place.mkdir(parents=True, exist_ok=True)
    records = [
        {"timestamp": stamp(began + timedelta(seconds=9 * at)), "type": kind, "payload": payload}
        for at, (kind, payload) in enumerate(lines)
    ]
    text = "".join(json.dumps(record) + "\n" for record in records)
    (place / f"rollout-{began:%Y-%m-%dT%H-%M-%S}-{id_}.jsonl").write_text(text)


def stamp(time: datetime) -> str:
    """Return a time as clients write it."""
    return f"{time:%Y-%m-%dT%H:%M:%S}.000Z"
