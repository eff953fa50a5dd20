"""The chat: what `harken chat` in a terminal adds to the vendor's SDK in a loop.

Both ask one provider on loopback, which notes when it is asked and when it sends; both send the
same system prompt, tools and earlier messages.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from benchmarks.measure import RUNS, Row, median, spread
from benchmarks.provider import MODEL, NotingProvider
from benchmarks.terminal import Terminal, at_rest, quiet
from harken.terminal.styled_text import PROMPT

HARKEN = Path(sys.executable).with_name("harken")
NAME = f"bench/{MODEL}"
LATER = 5
"""Turns of a process after its first."""
EARLIER = 500
"""Turns of a long session."""
WAIT_S, STEP_S, TICK_S = 0.15, 0.0137, 0.1
"""How long the provider thinks: another time in each turn, for the chat draws in a rhythm."""
NEXT_PER_S = 12.0
"""The answer goes on later than the chat draws again: what is waited for is the first words."""
TOKENS = 1000
RATES = (100, 1000)
LAST = "Omega"
"""What the long answers end with."""
ANSWER = "I have looked at the file, and it says what you expect: nothing is wrong there. " * 6
MARKDOWN = """\
## What is slow

The loader reads **every** line of the file, also where only the last ones are wanted. There are \
two ways out, and I would take the *second* one, because it changes nothing of the format:

- keep an index beside the log, written by `append()` and thrown away when it is older;
- read from the end, block by block, until the last `commit` is found.

```python
def last_commit(path: Path) -> Commit | None:
    with path.open("rb") as file:
        for line in reversed_lines(file, size=1 << 16):
            if b'"commit"' in line:
                return decode(line)
    return None
```

| way | reads | writes |
|-----|-------|--------|
| index | a page | two files |
| from the end | 64 kB | nothing |

1. I have measured both with a log of 350 MB.
2. The second takes 4 ms, and 3 of them are the *opening* of the file.

Shall I go on and change `load()` so, and keep the old way as a test of the new one?

"""


def tokens() -> list[str]:
    """Return a typical answer, in pieces as a model makes them."""
    pieces = re.findall(r"\s*\w{1,6}|\s*[^\w\s]|\s+", MARKDOWN)
    return [*(pieces * (TOKENS // len(pieces) + 1))[: TOKENS - 1], f"\n\n{LAST}"]


@dataclass(slots=True)
class Measured:
    """What was measured of one program; times in seconds."""

    start: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    """From Enter to the request, in the first turn of a process."""
    later: list[float] = field(default_factory=list)
    shown: list[float] = field(default_factory=list)
    """From when the first words were sent until they were on the screen."""
    cpu: dict[int, list[float]] = field(default_factory=lambda: {rate: [] for rate in RATES})
    """For an answer of 1,000 tokens, by how many came a second."""


Pair: TypeAlias = list[tuple[Measured, Terminal]]
"""The chat, then the reference."""


@dataclass(frozen=True, slots=True)
class Place:
    """A home folder with a configured provider, and a folder to work in."""

    home: Path
    here: Path
    provider: NotingProvider

    @classmethod
    def make(cls, folder: Path, provider: NotingProvider) -> Place:
        """Make both folders."""
        place = cls(folder / "home", folder / "here", provider)
        place.home.mkdir(parents=True)
        place.here.mkdir()
        (place.home / "config.toml").write_text(
            f'[providers.bench]\nbase_url = "{provider.url}"\nprotocol = "anthropic"\n'
        )
        return place

    @property
    def command(self) -> list[str]:
        """What starts a chat."""
        return [str(HARKEN), "chat", "--home", str(self.home), "--model", NAME]

    @property
    def last_request(self) -> Path:
        """The body of the last request of the session that is there."""
        return self.home / "body.json"

    def have_session(self, turns: int) -> None:
        """Leave a session of so many turns."""
        self.provider.answer_with([ANSWER])
        lines = "".join(f"What about file number {number}?\n" for number in range(turns))
        subprocess.run(
            self.command, cwd=self.here, input=lines.encode(), check=True, capture_output=True
        )
        self.last_request.write_text(json.dumps(self.provider.bodies[-1]))

    @contextmanager
    def started(self, ours: Measured, bare: Measured, *options: str) -> Iterator[Pair]:
        """Start a chat and the reference, and wait until nothing is left for them to do."""
        module = "benchmarks.bare_chat"
        bare_chat = [sys.executable, "-m", module, self.provider.url, str(self.last_request)]
        with Terminal([*self.command, *options], folder=self.here) as chat:
            ours.start.append(chat.shows(PROMPT.strip()) - chat.started)
            with Terminal(bare_chat, folder=Path.cwd()) as reference:
                at_rest(chat)
                at_rest(reference)
                yield [(ours, chat), (bare, reference)]


def turn(terminal: Terminal, provider: NotingProvider, number: int) -> tuple[float, float]:
    """Say something; return the seconds to the request, and from the first words to the screen."""
    word = f"Zebra{number}"
    wait_s = WAIT_S + number * STEP_S % TICK_S
    provider.answer_with([word, " and so on."], after_s=wait_s, per_s=NEXT_PER_S)
    pressed = terminal.enter("hello there")
    shown = terminal.shows(word)
    quiet(terminal)
    return provider.asked_at - pressed, shown - provider.sent_at


def stream(provider: NotingProvider, rate: int, *terminals: Terminal) -> list[float]:
    """Let an answer stream in; return the CPU seconds of each program."""
    provider.answer_with(tokens(), per_s=rate)
    before = [terminal.cpu_s for terminal in terminals]
    for terminal in terminals:
        terminal.enter("tell me more")
    while not all(terminal.has(LAST) for terminal in terminals):
        quiet(*terminals, for_s=0.02)
    quiet(*terminals)
    return [terminal.cpu_s - was for terminal, was in zip(terminals, before, strict=True)]


def converse(pair: Pair, provider: NotingProvider, turns: range) -> None:
    """Talk with both in turn; note how long it took to the request and to the first words."""
    for measured, terminal in pair:
        measured.first.append(turn(terminal, provider, 0)[0])
    for number in turns:
        for measured, terminal in pair:
            asked, shown = turn(terminal, provider, number)
            measured.later.append(asked)
            measured.shown.append(shown)


def listen(pair: Pair, provider: NotingProvider) -> None:
    """Let both hear long answers, and note what that costs them."""
    slow, fast = RATES
    used = stream(provider, slow, *(terminal for _, terminal in pair))  # idle mostly: both at once
    for (measured, terminal), cpu in zip(pair, used, strict=True):
        measured.cpu[slow].append(cpu)
        measured.cpu[fast] += stream(provider, fast, terminal)


def rows() -> list[Row]:
    """Measure a new session and a long one."""
    new, long = (Measured(), Measured()), (Measured(), Measured())
    with tempfile.TemporaryDirectory() as name, NotingProvider() as provider:
        fresh, old = (Place.make(Path(name) / kind, provider) for kind in ("fresh", "old"))
        fresh.have_session(1)
        old.have_session(EARLIER)
        for run in range(RUNS):
            turns = range(run * LATER, (run + 1) * LATER)
            with fresh.started(*new) as pair:
                converse(pair, provider, turns)
                listen(pair, provider)
            with old.started(*long, "--continue") as pair:
                converse(pair, provider, turns[:2])
    return [
        Row("`harken chat`: ms to its prompt", spread(new[0].start, 1e3, 0)),
        Row(f"the same, {EARLIER} earlier turns", spread(long[0].start, 1e3, 0)),
        *request_rows("new session", new),
        *request_rows(f"{EARLIER} earlier turns", long),
        shown_row(new),
        *(cpu_row(rate, new) for rate in RATES),
    ]


def request_rows(what: str, pair: tuple[Measured, Measured]) -> list[Row]:
    """Return how long it took from Enter to the request."""
    ours, bare = pair
    turns = {"first turn": (ours.first, bare.first), "later turns": (ours.later, bare.later)}
    return [
        Row(f"Enter to the request, {what}, {which}: ms", spread(a, 1e3, 1), "", sdk(b, 1e3))
        for which, (a, b) in turns.items()
    ]


def shown_row(pair: tuple[Measured, Measured]) -> Row:
    """Return how long the first words took to the screen, beyond the reference."""
    ours, bare = pair
    beyond = [a - b for a, b in zip(ours.shown, bare.shown, strict=True)]
    slow = sorted(beyond)[len(beyond) * 9 // 10] * 1e3
    note = f"{sdk(bare.shown, 1e3)}; nine of ten below {slow:.1f}"
    return Row("first words on the screen: ms more", spread(beyond, 1e3, 1), "< 5", note)


def cpu_row(rate: int, pair: tuple[Measured, Measured]) -> Row:
    """Return what an answer of 1,000 tokens costs, beyond the reference."""
    ours, bare = pair
    beyond = [a - b for a, b in zip(ours.cpu[rate], bare.cpu[rate], strict=True)]
    note = f"chat {median(ours.cpu[rate]) * 1e3:.0f}, {sdk(bare.cpu[rate], 1e3)}"
    what = f"{TOKENS:,} tokens of Markdown, {rate:,} a second: CPU ms more"
    return Row(what, spread(beyond, 1e3, 0), "", note)


def sdk(values: list[float], scale: float) -> str:
    """Return what the reference took, for a note."""
    return f"SDK {median(values) * scale:.1f}"
