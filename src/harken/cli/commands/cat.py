"""`harken cat`: the bytes of an artifact."""

from __future__ import annotations

from collections.abc import Iterator

import click

from harken.cli.options.home import home_option
from harken.cli.output_file import write_pieces
from harken.config.home import Home
from harken.config.store import open_configured_store
from harken.context.refs import find_commit_or_artifact
from harken.core.commits import ArtifactRef, encode_delta, encode_sequence
from harken.errors import ConfigError
from harken.store.base import Store


@click.command("cat")
@click.argument("artifact")
@click.option("-o", "--out", "file", metavar="FILE", help="Output file (default: stdout).")
@home_option
def command(home: Home, artifact: str, file: str | None) -> None:
    """Print the bytes of an ARTIFACT (art-...). A delta is printed as JSON."""
    with open_configured_store(home) as store:
        name = find_commit_or_artifact(store, artifact)
        if name.startswith("ctx-"):
            raise ConfigError(
                f"{artifact} is a commit, not an artifact; use `harken ctx cat` or `harken export`"
            )
        write_pieces(pieces_of(store, ArtifactRef(name)), file, is_text=_is_text)


def pieces_of(store: Store, name: ArtifactRef) -> Iterator[bytes]:
    """Yield the bytes of an artifact; of a delta or a sequence the canonical JSON and a newline.

    Raises ObjectNotFound, ObjectCorrupted; the latter may come at the end.
    """
    for entries in store.deltas([name]).values():
        return iter([encode_delta(entries)[1], b"\n"])
    for names in store.sequences([name]).values():
        return iter([encode_sequence(names)[1], b"\n"])
    return store.read_chunks(name)


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
