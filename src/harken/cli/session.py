"""`harken session verify|repair`: is a log whole, and what can be saved of one that is not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from harken.cli.home import Home, home_option, json_option
from harken.cli.terminal import program, safe, say, say_json
from harken.session.repair import Finding, repair, verify


@click.group(name="session")
def command() -> None:
    """Check or repair a session log."""


@command.command(name="verify")
@click.argument("session", metavar="FILE")
@json_option
@home_option
def verify_command(session: str, as_json: bool, home: Home) -> int:
    """Check every line of a log. Exit code 1 where something is wrong; nothing is changed."""
    path = home.find(session)
    findings = verify(path)
    if as_json:
        say_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            where = f"{path}:{finding.line} (byte {finding.byte})"
            say(f"{where}: {finding.kind}: {finding.message}")
        if not findings:
            say(f"{path}: whole")
    if findings:
        click.echo(safe(advice(path, findings)), err=True)
    return int(bool(findings))


def advice(path: Path, findings: Sequence[Finding]) -> str:
    """Say what to do about what was found."""
    kinds = {finding.kind for finding in findings}
    file = shlex.quote(str(path))
    if kinds == {"torn"}:
        resume = f"{program()} chat --resume {file}"
        return f"Nothing that was acknowledged is lost: `{resume}` sets the half line aside."
    repaired = f"`{program()} session repair {file} --out NEW.jsonl`"
    if kinds == {"unverified"}:
        return f"An older log, readable as it is; {repaired} writes it as a current one."
    return f"{repaired} saves what is whole; this log stays as it is."


@command.command(name="repair")
@click.argument("session", metavar="FILE")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new log.")
@json_option
@home_option
def repair_command(session: str, out: Path, as_json: bool, home: Home) -> None:
    """Write what is whole of a log to a NEW file. For damaged and older logs, which stay."""
    done = repair(home.find(session), out)
    if as_json:
        lost_file = str(done.lost_file) if done.lost_file is not None else None
        say_json({**asdict(done), "out": str(out), "lost_file": lost_file})
        return
    say(f"{out}: {done.kept} events kept, {len(done.lost)} lost")
    for finding in done.lost:
        say(f"  line {finding.line} (byte {finding.byte}): {finding.message}")
    if done.lost_file is not None:
        say(f"What is lost stands, as it was, in {done.lost_file}")
