"""The last letters of an API key in an error that a provider sent.

A provider that refuses a key quotes its last letters, masked or not. Harken hid the key where eight
letters in a row were shown, so that "ending in wxyz" and "****wxyz" passed into logs and onto the
screen. No part of the key that a provider quotes is shown now.
"""

from __future__ import annotations

import pytest

from harken.llm.http_errors import ModelErrorFactory

KEYS = ["sk-proj-ABCdef0123456789-ghijQ7Zk", "0a1b2c3d4e5f6a7b8c9dQ7Zk", "gsk_abcdefghijklmnopQ7Zk"]
ECHOES = [
    "Incorrect API key provided: {head}*********{tail}. You can find yours there.",
    "Incorrect API key provided: {head}...{tail}.",
    "Incorrect API key provided: {head}…{tail}",
    "The key ****{tail} is not valid",
    "The key ••••{tail} is not valid",
    "The key '...{tail}' was revoked",
    "The key xxxxxxxx{tail} was revoked",
    "No access for the API key ending in {tail}",
    'No access for the key ending with "{tail}"',
    "key ends with {two}",
    "invalid key (last four: {tail})",
    "apikey={tail} is unknown",
    "{tail}",
    "unknown key: {long}",
    "header value b'Bearer {key}'",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("echo", ECHOES)
def test_no_letters_of_a_key_that_a_provider_quotes_are_shown(echo: str, key: str) -> None:
    failures = ModelErrorFactory(model="x/y", host="example.org", key=key)
    parts = {"key": key, "head": key[:6], "tail": key[-4:], "two": key[-2:], "long": key[-7:]}
    body = {"error": {"message": echo.format(**parts), "code": "invalid_api_key"}}
    for shown in (str(failures.from_body(body, 401)), failures.quote(echo.format(**parts))):
        assert "[key]" in shown
        assert key[-4:] not in shown
        assert key[-2:] not in shown


@pytest.mark.parametrize(
    "text",
    [
        "The model claude-sonnet-4-5-20250929 does not exist",
        "messages.3.content.0.tool_use.id: should match '^[a-zA-Z0-9_-]+$'",
        "waiting... then retry, see https://docs.example.org/api/errors...",
        "**Important**: the *prompt* is too long",
        "unexpected ending of the input at 12 ... 14",
    ],
)
def test_what_is_no_key_is_shown(text: str) -> None:
    for key in KEYS:
        failures = ModelErrorFactory(model="x/y", host="example.org", key=key)
        assert failures.quote(text) == text.rstrip(" .;:")
