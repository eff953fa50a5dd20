"""The address of a store in PostgreSQL: a URL of libpq, and where the packs are.

`postgresql://user@host/database?packs=s3://bucket/prefix&schema=harken`. `packs`, `schema`,
`s3_endpoint` and `s3_region` are Harken's; all else is libpq's. No text of an error and no text
that is printed has a password.
"""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import msgspec

from harken.errors import ConfigError

SCHEMA = "harken"
SCHEMES = ("postgresql", "postgres")
_OWN_PARAMETERS = ("packs", "schema", "s3_endpoint", "s3_region")
_SCHEMA_PATTERN = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_PACK_SCHEMES = ("s3", "file")
_SECRETS = ("password", "sslpassword")
_HIDDEN = "***"


class PostgresAddress(msgspec.Struct, frozen=True):
    """A parsed address."""

    conninfo: str
    """The URL for libpq. It may have a password."""
    schema: str
    packs: str
    """The URL of the object storage, or empty: PostgreSQL has the packs."""
    s3_endpoint: str
    s3_region: str
    text: str
    """The address without secrets, to show."""
    secrets: tuple[str, ...]

    def hide(self, text: str) -> str:
        """Return a text without the secrets of this address."""
        for secret in self.secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def parse_address(url: str) -> PostgresAddress:
    """Parse an address. Raises ConfigError, without the text of a secret."""
    try:
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise ConfigError("the address of a PostgreSQL store is not a URL") from None
    options = {name: query.pop(name, "") for name in _OWN_PARAMETERS}
    schema = options["schema"] or SCHEMA
    if parts.scheme not in SCHEMES or not _SCHEMA_PATTERN.fullmatch(schema):
        raise ConfigError(
            f"{schema!r} is not the name of a schema: use small letters, digits and _"
            if parts.scheme in SCHEMES
            else "a PostgreSQL store has an address such as postgresql://user@host/database"
        )
    _check_packs(options["packs"])
    host = parts.netloc.rpartition("@")[2]
    user, _, password = parts.netloc.rpartition("@")[0].partition(":")
    conninfo = f"postgresql://{parts.netloc}{parts.path}?{urlencode(query, quote_via=quote)}"
    shown_query = {name: value for name, value in options.items() if value}
    if "host" in query:
        shown_query["host"] = query["host"]
    place = f"{user}@{host}" if user else host
    text = f"postgresql://{place}{parts.path}" + (
        f"?{urlencode(shown_query, safe=':/', quote_via=quote)}" if shown_query else ""
    )
    secrets = [password, unquote(password), *(query.get(name, "") for name in _SECRETS)]
    return PostgresAddress(
        conninfo,
        schema,
        options["packs"],
        options["s3_endpoint"],
        options["s3_region"],
        text,
        tuple(dict.fromkeys(filter(None, secrets))),
    )


def _check_packs(packs: str) -> None:
    """Raise ConfigError unless this is the URL of object storage, without credentials."""
    if not packs:
        return
    parts = urlsplit(packs)
    if parts.scheme not in _PACK_SCHEMES or (parts.scheme == "s3" and not parts.netloc):
        raise ConfigError("`packs` of a PostgreSQL store is s3://BUCKET/PREFIX or file:///FOLDER")
    if "@" in parts.netloc:
        raise ConfigError(
            "`packs` has no user and no password: the credentials of a bucket are in the "
            "environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)"
        )
