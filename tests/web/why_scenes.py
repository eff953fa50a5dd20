"""A repository whose lines agents and persons wrote, and a home with the sessions of the agents."""

from __future__ import annotations

from pathlib import Path

from tests.cli.git_kit import Repository, Session
from tests.web.scenes import run

REQUEST = "Add a total for orders, please"
REASON = "The total is the price times the count."
FREE_REASON = "Free orders cost nothing."
SECOND_REQUEST = "Add a discount"
TOTAL = '''\
"""Totals of orders."""


def total(order):
    return order.price * order.count
'''
PRICE = "    return order.price * order.count\n"
FREE = "    if order.is_free:\n        return 0\n"
DISCOUNT = """\


def discount(order):
    return order.price * order.rate / 100
"""
PERSON = "\n\nprint(total(None), 'by hand')\n"
HOSTILE_NAME = "<img src=x onerror=alert(1)> \u202ecod.py"
HOSTILE_LINE = "title = '<script>alert(1)</script> \u202e evil'"
LONG_LINES = 10_000
FIRST, SECOND = (f"claude:5e55100{number}-0000-4000-8000-000000000001" for number in (1, 2))


def write_shop(home: Path, folder: Path) -> Repository:
    """Write a repository with two sessions of agents and commits of a person; import them."""
    home.mkdir()
    repository = Repository.create(folder / "shop")
    first = Session(repository, 1).ask(REQUEST)
    first.write("src/orders.py", TOTAL, REASON)
    first.edit("src/orders.py", PRICE, FREE + PRICE, FREE_REASON)
    first.save(folder)
    second = Session(repository, 2).ask(SECOND_REQUEST)
    second.transcript.shared |= {"timestamp": "2026-01-31T14:00:00.000Z"}
    end = PRICE + DISCOUNT
    second.edit("src/orders.py", PRICE, end, "A rate is in percent.")
    second.save(folder)
    run(home, "import", folder / "projects")
    text = TOTAL.replace(PRICE, FREE + end)
    repository.write("src/orders.py", text + PERSON)
    repository.write(HOSTILE_NAME, f"{HOSTILE_LINE}\n")
    repository.write("docs/long.py", "".join(f"line_{n} = {n}\n" for n in range(LONG_LINES)))
    repository.write("empty.txt", "")
    (repository.folder / "data.bin").write_bytes(b"\0\1\2")
    repository.commit("Add totals and discounts")
    rounded = text.replace("order.rate / 100", "order.rate // 100")
    repository.write("src/orders.py", rounded + PERSON)
    repository.commit("Round discounts")
    run(home, "search", "total")
    return repository
