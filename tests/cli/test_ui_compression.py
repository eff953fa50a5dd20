"""Answers of the viewer are compressed where that pays, and streams arrive line by line."""

from __future__ import annotations

import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from harken.session.session import Session
from tests.cli.ui_kit import BEARER, Page, show_home
from tests.session_kit import create_agent, log_user_message, session_options


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Page]:
    log = tmp_path / "sessions" / "talk.jsonl"
    log.parent.mkdir()
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="main")
        for number in range(200):
            log_user_message(session, agent, f"question {number}: who saw the ship?")
        with show_home(tmp_path) as page:
            yield page


class Raw:
    """A response as it is on the wire."""

    def __init__(self, page: Page, path: str, accept: str | None = "br, gzip") -> None:
        place = urlsplit(page.address)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=30)
        headers = BEARER if accept is None else {**BEARER, "Accept-Encoding": accept}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        self.status, self.headers = response.status, response.headers
        self.body = b"" if path.endswith("/follow") else response.read()
        self.line = response.readline() if path.endswith("/follow") else b""
        connection.close()

    @property
    def encoding(self) -> str | None:
        return self.headers["content-encoding"]


ITEMS = "/api/sessions/talk/items"


def test_long_json_is_compressed(page: Page) -> None:
    plain, packed = Raw(page, ITEMS, "identity"), Raw(page, ITEMS)
    assert (plain.encoding, packed.encoding) == (None, "gzip")
    assert packed.headers["vary"] == "Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 5
    assert packed.headers.get_all("content-length") == [str(len(packed.body))]
    assert packed.headers["cache-control"] == "no-store"


def test_long_json_is_compressed_beside_the_event_loop_too(page: Page) -> None:
    path = f"{ITEMS}?limit=500"
    plain, packed = Raw(page, path, None), Raw(page, path, "gzip;q=0.5")
    assert len(plain.body) > 50_000
    assert gzip.decompress(packed.body) == plain.body


@pytest.mark.parametrize("accept", [None, "identity", "br"])
def test_a_client_that_does_not_accept_gzip_gets_none(page: Page, accept: str | None) -> None:
    for path in (ITEMS, "/"):
        assert Raw(page, path, accept).encoding is None


def test_a_short_answer_and_an_error_are_not_compressed(page: Page) -> None:
    for path in ("/api/about", "/api/sessions/none"):
        answer = Raw(page, path)
        assert answer.encoding is None
        assert json.loads(answer.body)


def test_a_stream_is_not_compressed_and_its_first_line_arrives(page: Page) -> None:
    answer = Raw(page, "/api/sessions/talk/follow")
    assert answer.encoding is None
    assert json.loads(answer.line)["total"] == 200


def test_built_files_are_compressed(page: Page) -> None:
    index = Raw(page, "/", "identity").body.decode()
    scripts = [part.split('"')[0] for part in index.split('src="./')[1:]]
    assert scripts
    for path in ("", *scripts, "share.js"):
        plain, packed = Raw(page, f"/{path}", "identity"), Raw(page, f"/{path}")
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < 0.7 * len(plain.body)
        assert packed.headers["vary"] == "Accept-Encoding"
        assert packed.headers["cache-control"] == plain.headers["cache-control"]
