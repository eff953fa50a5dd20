"""`harken sessions check|repair|compress|decompress|rename`: look after session logs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from harken.cli.commands.sessions.picker import check_new_name
from harken.cli.options.home import home_option, json_option
from harken.cli.options.name_types import LOG
from harken.cli.options.time import Duration
from harken.config.home import Home
from harken.config.name_resolver import NameResolver
from harken.errors import LogError
from harken.session.log.compressed import stat_log
from harken.session.log.file import is_being_written
from harken.session.repair import LogFinding, repair, verify
from harken.terminal.text import escape_control_characters, print_json, print_text, program_name
from harken.views.message_text import format_size


@click.command(name="check")
@click.argument("session", type=LOG, metavar="SESSION")
@json_option
@home_option
def check_command(session: str, as_json: bool, home: Home) -> int:
    """Check every line of a log, without changing it. Exit code 1 if a line is damaged."""
    path = NameResolver(home).log(session)
    findings = verify(path)
    if as_json:
        print_json([msgspec.structs.asdict(finding) for finding in findings])
    else:
        for finding in findings:
            where = f"{path}:{finding.line} (byte {finding.byte})"
            print_text(f"{where}: {finding.kind}: {finding.message}")
        if not findings:
            print_text(f"{path}: intact")
    if findings:
        click.echo(escape_control_characters(advice(path, findings)), err=True)
    return int(bool(findings))


def advice(path: Path, findings: Sequence[LogFinding]) -> str:
    """Return advice on the findings."""
    kinds = {finding.kind for finding in findings}
    file = shlex.quote(str(path))
    if kinds == {"torn"}:
        resume = f"{program_name()} chat --resume {file}"
        return f"No acknowledged event is lost: `{resume}` moves the incomplete line aside."
    repaired = f"`{program_name()} sessions repair {file} --out NEW.jsonl`"
    if kinds == {"unverified"}:
        return f"An older log format, readable as it is; {repaired} converts it."
    return f"{repaired} writes the intact events to a new log; this log is not changed."


@click.command(name="repair")
@click.argument("session", type=LOG, metavar="SESSION")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new log.")
@json_option
@home_option
def repair_command(session: str, out: Path, as_json: bool, home: Home) -> None:
    """Write the intact events of a damaged or older log to a NEW file. The log is not changed."""
    result = repair(NameResolver(home).log(session), out)
    if as_json:
        print_json({**msgspec.to_builtins(result, enc_hook=str), "path": str(out)})
        return
    print_text(f"{out}: {result.kept_events} events kept, {len(result.lost)} lost")
    for finding in result.lost:
        print_text(f"  line {finding.line} (byte {finding.byte}): {finding.message}")
    if result.lost_file is not None:
        print_text(f"The lost bytes are in {result.lost_file}")


@click.command(name="compress")
@click.argument("sessions", type=LOG, nargs=-1, metavar="[SESSION]...")
@click.option(
    "--older-than",
    type=Duration(),
    metavar="AGE",
    help="Compress all logs that were not written for this time: 30d, 12h.",
)
@click.option(
    "--dry-run", is_flag=True, help="Print what would be compressed, without compressing it."
)
@json_option
@home_option
def compress_command(
    sessions: Sequence[str],
    older_than: float | None,
    dry_run: bool,
    as_json: bool,
    home: Home,
) -> int:
    """Compress logs. They can be read, searched and resumed as before.

    A log that is being written is not compressed. Exit code 1 if a log failed.
    """
    from harken.session.log.compress import compress_log

    if bool(sessions) == (older_than is not None):
        raise click.UsageError("no sessions given; name sessions, or use --older-than 30d")
    resolver = NameResolver(home)
    paths = [resolver.log(name) for name in sessions]
    if older_than is not None:
        paths = list(_iter_old_logs(home, older_than))
    rows: list[dict[str, object]] = []
    for path in paths:
        row: dict[str, object] = {"session": path.stem}
        try:
            if dry_run:
                row["before_bytes"] = stat_log(path).disk_bytes
            else:
                result = compress_log(path)
                row |= {**msgspec.structs.asdict(result), "path": str(result.path)}
        except LogError as error:
            row["error"] = str(error)
        rows.append(row)
    _tell_packed(rows, as_json=as_json, dry_run=dry_run)
    return int(any("error" in row for row in rows))


def _iter_old_logs(home: Home, age_s: float) -> Iterator[Path]:
    """Yield the uncompressed logs without writes for so long that no process has open."""
    before_ns = time.time_ns() - int(age_s * 1e9)
    for path in home.list_logs():
        stat = stat_log(path)
        is_old = stat.modified_ns < before_ns and stat.size_bytes and not stat.is_packed
        if is_old and not is_being_written(path):
            yield path


def _tell_packed(rows: Sequence[Mapping[str, Any]], *, as_json: bool, dry_run: bool) -> None:
    if as_json:
        print_json(rows)
    for row in () if as_json else rows:
        if "error" not in row:
            before = format_size(row["before_bytes"])
            print_text(f"{row['session']}: {before}" + ("" if dry_run else f", now {_now(row)}"))
    for row in rows:
        if "error" in row:
            click.echo(escape_control_characters(f"harken: {row['error']}"), err=True)
    if not rows:
        click.echo("No uncompressed log is that old.", err=True)


def _now(row: Mapping[str, Any]) -> str:
    return format_size(row["after_bytes"])


@click.command(name="decompress")
@click.argument("sessions", type=LOG, nargs=-1, required=True, metavar="SESSION...")
@home_option
def decompress_command(sessions: Sequence[str], home: Home) -> None:
    """Decompress logs, for other programs such as grep and jq.

    Harken reads compressed logs, and decompresses a log when it is resumed.
    """
    from harken.session.log.compress import decompress_log

    resolver = NameResolver(home)
    for path in [resolver.log(name) for name in sessions]:
        print_text(f"{decompress_log(path).path}: {format_size(stat_log(path).size_bytes)}")


@click.command(name="rename")
@click.argument("session", type=LOG, metavar="SESSION")
@click.argument("name", metavar="NAME")
@json_option
@home_option
def rename_command(session: str, name: str, as_json: bool, home: Home) -> None:
    """Rename the log of a session.

    The content of the log does not change, and earlier commits and reruns keep the old name. A
    session that is being written, or was imported, cannot be renamed.
    """
    from harken.session.rename import rename_log

    path = NameResolver(home).log(session)
    if path.parent != home.sessions_folder:
        raise click.UsageError(f"{path} is not a session of {home.folder}")
    target = rename_log(path, check_new_name(home, name))
    outputs = home.folder / "outputs" / path.stem
    if outputs.is_dir():
        outputs.rename(outputs.with_name(target.stem))
    if as_json:
        print_json({"session": target.stem, "was": path.stem, "path": str(target)})
    else:
        print_text(f"{path.stem} is now {target.stem}")
