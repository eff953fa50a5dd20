"""The output of `harken proxy`: its address, its conversations, and unrecorded calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import click

from harken.capture.proxy.upstreams import VARIABLES, Upstreams
from harken.terminal.text import escape_control_characters, one_line, print_json, print_text
from harken.views.message_text import format_count

_MAX_REPORTED = 20


class ProxyStatus:
    """Reports to a person, or to a program. Used by several threads."""

    def __init__(
        self, address: str, upstreams: Upstreams, *, is_quiet: bool, as_json: bool
    ) -> None:
        """is_quiet: a client has the terminal; errors and totals are printed at the end."""
        self.addresses = {name: upstreams.address(name, address) for name in upstreams.by_name}
        self.is_complete = True
        """Whether all forwarded calls were recorded before the end."""
        self._servers = {name: upstream.url for name, upstream in upstreams.by_name.items()}
        self._is_quiet, self._as_json = is_quiet, as_json
        self._lines: list[str] = []
        self._recorded = 0
        self._unrecorded: Counter[str] = Counter()
        self._sessions: dict[str, int] = {}

    def begin(self) -> None:
        """Print the address of the proxy."""
        variables = {VARIABLES[n]: url for n, url in self.addresses.items() if n in VARIABLES}
        if self._as_json:
            print_json({"addresses": self.addresses, "variables": variables}, indent=None)
            return
        if self._is_quiet:
            return
        print_text("Forwarding and recording; Ctrl-C ends it. Configure a client with one of:")
        for variable, url in variables.items():
            print_text(f"  export {variable}={url}")
        print_text(f"  codex -c openai_base_url={self.addresses['openai']}")
        for name, url in self.addresses.items():
            if name not in VARIABLES:
                print_text(f"  {url}  for {self._servers[name]}")

    def on_message(self, value: Mapping[str, Any]) -> None:
        """Process a message of the recorder process."""
        match value:
            case {"told": str(text)}:
                self.report(text)
            case {"recorded": int(number), "unrecorded": dict(reasons)}:
                self._recorded += number
                self._unrecorded.update({str(name): int(n) for name, n in reasons.items()})
            case {"session": str(session), "agent": str(agent), "said": str(answer)}:
                self._print_call(session, agent, answer, value)

    def report(self, text: str) -> None:
        """Report an error, or its end."""
        if self._as_json:
            print_json({"told": text}, indent=None)
        elif not self._is_quiet:
            click.echo(f"harken: {one_line(text, 500)}", err=True)
        elif text not in self._lines and len(self._lines) < _MAX_REPORTED:
            self._lines.append(text)

    def end(self, calls: int, unrecorded: Mapping[str, int]) -> None:
        """Report the totals. calls: forwarded calls; unrecorded: calls never recorded."""
        self._unrecorded.update(unrecorded)
        summary = {
            "calls": calls,
            "recorded": self._recorded,
            "sessions": list(self._sessions),
            "unrecorded": dict(self._unrecorded),
            "complete": self.is_complete,
        }
        if self._as_json:
            print_json(summary, indent=None)
            return
        for text in self._lines:
            click.echo(f"harken: {one_line(text, 500)}", err=True)
        if calls:
            click.echo(
                f"harken: {escape_control_characters(self._summary(calls))}", err=self._is_quiet
            )
        for reason, number in self._unrecorded.items():
            text = f"{format_count(number, 'call')} not recorded: {one_line(reason, 300)}"
            click.echo(f"harken: {text}", err=True)

    def _summary(self, calls: int) -> str:
        names = list(self._sessions)
        recent = ", ".join(names[-3:]) + (", ..." if len(names) > 3 else "")
        text = f"{format_count(self._recorded, 'call')} of {calls} recorded"
        if names:
            text += f" in {format_count(len(names), 'session')}: {recent}"
        return text if self.is_complete else f"{text}; the background recorder has the rest"

    def _print_call(self, session: str, agent: str, text: str, value: Mapping[str, Any]) -> None:
        is_new = session not in self._sessions
        self._sessions[session] = self._sessions.get(session, 0) + 1
        if self._as_json:
            print_json(dict(value), indent=None)
        elif not self._is_quiet:
            now = datetime.now().astimezone()
            mark = "+" if is_new else " "
            print_text(
                f"{now:%H:%M:%S} {mark} {session} {one_line(agent, 20)}: {one_line(text, 60)}"
            )
