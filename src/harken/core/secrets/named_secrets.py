"""Credentials that are identified by a name before them: `DB_PASSWORD=...`, `{"password": ...}`.

Such a value has no shape of its own, so these patterns check its syntax. A quoted value is a
literal. A value without quotes may be code, so the pattern requires more evidence of a literal:
an environment variable as name, or digits where an identifier has none. A call, an attribute, a
reference (`$X`, `{x}`, `<x>`), a type, and a placeholder word are not secrets. Each pattern begins
with fixed letters, as those of `harken.core.secrets.patterns`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harken.core.secrets.shape import Shape, iter_shapes

_OPTIONAL_SUFFIX = r"(?:[_-]?(?i:key|base|value|prod|dev|test|staging|live|old|new|\d{1,2})){0,2}"
_CLOSED = r"\\{0,3}[\"']?\]?"
"""After a name: its quote, if it has one."""
_TYPED = r"(?:(?:\s?:\s?|\s)(?:str|string|String|&str|SecretStr)\s?(?==))?"
_ASSIGNED = rf"{_TYPED}\s*+(?:=>|:=|=|:)\s*+[rbu]?\\{{0,3}}"
_LINE_END = r"[ \t]{0,8}(?:[\r\n#]|\\{1,4}[nr]|$)"
_STOP = r"(?=[\s\"'\\`;,&|<>)}\]]|$)"
"""The end of a value without quotes. An opening bracket would make it code."""
_PLAIN = r"[^\s\"'\\`;,&|<>(){}\[\]]"
_REFERENCE = r"(?!\$|%[({sdr]|[{<*\[(]|\.{2}|@@|[xX*.•-]{3,}(?![^\s\"'\\]))"
"""The beginning of a value that is a placeholder or was redacted."""
_STAND_IN_WORD = (
    r"(?i:[\w./ -]{0,40}(?:pass(?:w(?:or)?d|phrase|e|wort)?|pwd|secret)s?[_./-]?\d?"
    r"|pw|token|key|str(?:ing)?|text|bytes|any|int|bool(?:ean)?|number|object|optional|unknown|undefined|none"
    r"|null|nil|true|false|auto|required|hidden|invalid|incorrect|missing|empty|masked|redacted"
    r"|removed|filtered|plain|basic|bearer|example|placeholder|change[_-]?me|foo|bar|todo|tbd"
    r"|(?:your|my|the|some|new|old|enter)[\w-]*|[xX*.•-]+)"
)
"""Placeholder words for a password."""
_TYPE_NAME = (
    r"(?i:(?:u?int|float|bytes?|uint|u|i|f|sha|utf|base|complex|string|md|blake|argon|v|type"
    r"|bcrypt|ipv)_?\d+(?:_t)?)"
)
_ATTRIBUTE = r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+"
_NO_CODE = rf"(?!(?:{_STAND_IN_WORD}|{_TYPE_NAME}|{_ATTRIBUTE}){_STOP})"
_VALUE = rf"{_REFERENCE}{_NO_CODE}(?P<secret>{_PLAIN}{{4,128}}+){_STOP}"
_WITH_DIGIT = rf"(?!=)(?={_PLAIN}{{0,64}}(?:[\d!@#%^]|=={_STOP}))(?=\S{{0,64}}[A-Za-z])"

_PASSWORDS = "password passwd passphrase"
_PASSES = (
    "_PASS dbPass smtpPass mailPass userPass adminPass rootPass db_pass smtp_pass mail_pass "
    "user_pass admin_pass root_pass sudo_pass become_pass ssh_pass http_pass ftp_pass"
)
"""Names that end in `pass` and mean a password: most, such as `first_pass`, do not."""
_KEYS = (
    "token secret api_key apikey access_key private_key secret_key encryption_key signing_key "
    "auth_key master_key app_key"
)
_POSITIONS = (
    "next page next_page continuation cursor sync start end eos bos pad unk sep cls mask stop "
    "special input output max min last resume watch delta nextpage"
)
"""Words before `token` that make it a list position or a piece of text."""


def _spellings(names: str) -> Iterator[str]:
    """Yield names in the spellings `api_key`, `API_KEY`, `api-key`, `apiKey`, `ApiKey`."""
    for name in names.split():
        words = name.split("_")
        camel = "".join(word.capitalize() for word in words)
        spellings = [name, name.upper(), camel, camel[0].lower() + camel[1:]]
        yield from dict.fromkeys([*spellings, name.replace("_", "-")])


def _quoted_pattern(value: str, quote: str, kind: str) -> str:
    """Return a pattern for a quoted value; a backslash before the quote comes from JSON."""
    no_stand_in = rf"(?!{_STAND_IN_WORD}\\{{0,3}}[\"'])" if kind == "password" else ""
    letters = rf"(?:[^\s{quote}\\]|\\[^\s\\\"'nrt])" if kind == "password" else value
    min_chars = 4 if kind == "password" else 12
    digits = "" if kind == "password" else rf"(?=(?:{value}{{0,200}}?\d){{2}})(?=[^\"']*[A-Za-z])"
    return (
        rf"{quote}{_REFERENCE}{no_stand_in}{digits}"
        rf"(?P<secret>{letters}{{{min_chars},4096}}+)(?=\\{{0,3}}{quote})"
    )


def _exclude_positions(name: str) -> str:
    """Return lookbehinds that exclude `next_token`, `nextToken`, `eos_token` and the like."""
    if name.lower() != "token":
        return ""
    befores = {
        spelling
        for word in _POSITIONS.split()
        for spelling in (f"{word}_", f"{word.upper()}_", word, word.capitalize(), f"{word}-")
    }
    befores |= {"nextPage", "next_page_"}
    return "".join(rf"(?<!{re.escape(before + name)})" for before in sorted(befores))


def _iter_password_shapes() -> Iterator[Shape]:
    for name in (*_spellings(_PASSWORDS), *_PASSES.split()):
        head = rf"{_OPTIONAL_SUFFIX}"
        for quote in "\"'":
            pattern = rf"{head}{_CLOSED}{_ASSIGNED}{_quoted_pattern('', quote, 'password')}"
            yield from iter_shapes("password", name, pattern)
        if name.isupper():
            words = rf"{_REFERENCE}(?P<secret>[^\"'\\\r\n]{{8,128}})(?=\\{{0,3}}\1)"
            yield from iter_shapes("password", name, rf"{head}=\\{{0,3}}([\"']){words}")
        evidence = "" if name.isupper() else _WITH_DIGIT
        pattern = rf"{head}(?:=|(?:\s=\s|:\s{{1,3}})(?=\S+{_LINE_END})){evidence}{_VALUE}"
        yield from iter_shapes("password", name, pattern)
        yield from iter_shapes(
            "password", name, rf">{_REFERENCE}(?P<secret>[^\s<>]{{4,128}})(?=</)"
        )
        if not name.startswith("_"):
            attribute = rf"\\{{0,3}}[\"']\s{{1,3}}value\s?=\s?\\{{0,3}}[\"']{_REFERENCE}"
            literal = r"(?P<secret>[^\s\\\"'<>]{4,128})(?=[\\\"'])"
            pattern = rf"{attribute}(?!{_STAND_IN_WORD}[\\\"']){literal}"
            yield from iter_shapes("password", name, pattern)
            element = rf"\\{{0,3}}[\"']>(?=[^\s<>]{{0,64}}\d)(?!{_STAND_IN_WORD}<)"
            yield from iter_shapes(
                "password", name, rf"{element}(?P<secret>[^\s<>]{{4,128}})(?=</)"
            )
    for quote in ("'", '"', "\\"):  # the backslash comes from JSON
        array_key = rf"(?<=[\"']pass{re.escape(quote)})\\{{0,2}}(?:(?<!\\)|[\"'])(?:=>|:|=)"
        array_key += r"\s*+\\{0,3}"
        for mark in "\"'":
            digit = rf"(?={mark}[^\s{mark}]{{0,64}}\d)"
            pattern = array_key + digit + _quoted_pattern("", mark, "password")
            yield from iter_shapes("password", f"pass{quote}", pattern)
    for name in ("password", "PASSWORD"):
        pattern = rf"[ \t]{{1,3}}{_WITH_DIGIT}{_VALUE}(?={_LINE_END})"
        yield from iter_shapes("password", name, pattern)
    yield from _iter_command_shapes()


def _iter_command_shapes() -> Iterator[Shape]:
    """Yield shapes for options of commands that take a password."""
    yield from iter_shapes("password", "--password --passwd", rf"\s{{1,3}}{_WITH_DIGIT}{_VALUE}")
    yield from iter_shapes("password", "sshpass", rf"\s{{1,3}}-p\s?{_VALUE}")
    option = r"[^\n]{0,200}?\s(?:-p|--password)[ =]"
    yield from iter_shapes("password", "login", rf"(?=\s){option}(?=\S{{8,}}|\S{{0,64}}\d){_VALUE}")
    option = r"(?:dump|admin)?(?=\s)[^\n]{0,100}?\s-p"
    yield from iter_shapes("password", "mysql", rf"{option}{_WITH_DIGIT}{_VALUE}")
    for name in ("pwd", "PWD", "Pwd"):  # also the working folder
        begin = r"(?:(?<!\\)|(?=[\"']))[\"']?"  # a backslash without a quote is of an escape
        pattern = rf"{_CLOSED}{_ASSIGNED}{begin}(?![~./]|[A-Za-z]:){_WITH_DIGIT}{_VALUE}"
        yield from iter_shapes("password", name, pattern)
    yield from iter_shapes(
        "password", "login", rf"\s{{1,3}}\S{{1,64}}\s{{1,3}}password\s{{1,3}}{_VALUE}"
    )
    user = r"(?:-u|--user)[ =]{1,2}\\{0,3}[\"']?[A-Za-z0-9._@%+-]{1,64}:"
    yield from iter_shapes("password", "curl", rf"(?=\s)[^\n]{{0,200}}?\s{user}{_VALUE}")


def _iter_key_shapes() -> Iterator[Shape]:
    letters = r"[^\s\"'\\<>{}]"
    literal = r"[A-Za-z0-9_~+/=-]"
    snake = rf"(?![A-Za-z]+(?:[_-][A-Za-z]+)*[_-]?\d{{0,4}}{_STOP})"
    for name in _spellings(_KEYS):
        head = rf"{_exclude_positions(name)}{_OPTIONAL_SUFFIX}"
        for quote in "\"'":
            value = _quoted_pattern(rf"(?!://){letters}", quote, "key")
            pattern = rf"{head}{_CLOSED}{_ASSIGNED}(?!{quote}(?:\.{{0,2}}/|https?:)){value}"
            yield from iter_shapes("secret", name, pattern)
        if name in ("SECRET", "TOKEN"):
            words = rf"{_REFERENCE}(?=[^\"'\\\r\n]{{0,128}}\d)(?P<secret>[^\"'\\\r\n]{{12,128}})"
            pattern = rf"{head}=\\{{0,3}}([\"']){words}(?=\\{{0,3}}\1)"
            yield from iter_shapes("secret", name, pattern)
        min_chars, digits = (12, 1) if name.isupper() else (16, 3)
        evidence = rf"(?=(?:{literal}{{0,200}}?\d){{{digits}}})(?={literal}{{0,64}}[A-Za-z])"
        pattern = (
            rf"{head}(?:=|\s=\s|:\s{{1,3}})(?:base64:)?(?![/.]){snake}{evidence}(?!{_ATTRIBUTE}{_STOP})"
            rf"(?P<secret>{literal}{{{min_chars},4096}}+){_STOP}"
        )
        yield from iter_shapes("secret", name, pattern)


def _iter_header_shapes() -> Iterator[Shape]:
    value = r"[^\s;\"'\\<>{}$]"
    before = rf"(?:{value}{{0,200}};\s?[\w.%-]{{1,64}}=){{0,60}}?"
    after = rf"(?:;\s?[\w.%-]{{1,64}}(?:={value}{{0,4096}})?){{0,60}}"
    long = rf"(?={value}{{0,200}}\d){value}{{8,4096}}"
    cookies = rf"[\w.%-]{{1,64}}=(?P<secret>{before}{long}{after})"
    yield from iter_shapes("cookie", "ookie OOKIE", rf"{_CLOSED}\s*+:\s*+\\{{0,3}}[\"']?{cookies}")
    option = r"(?=\s)[^\n]{0,200}?\s(?:-b|--cookie)[ =]"
    yield from iter_shapes("cookie", "curl", rf"{option}\\{{0,3}}[\"']?{cookies}")
    yield from iter_shapes("cookie", "--cookie", rf"[ =]{{1,2}}\\{{0,3}}[\"']?{cookies}")
    yield from iter_shapes(
        "authorization-header",
        "uthorization UTHORIZATION",
        rf"{_CLOSED}\s*+[=:]\s*+\\{{0,3}}[\"']?(?i:basic)\s{{1,3}}"
        rf"(?=[A-Za-z0-9+/]{{0,200}}(?:[a-z][A-Z]|\d|=))(?P<secret>[A-Za-z0-9+/]{{8,}}={{0,2}})"
        rf"{_STOP}",
    )


NAMED_SHAPES = (*_iter_password_shapes(), *_iter_key_shapes(), *_iter_header_shapes())
"""Shapes of named secrets, searched like the framed shapes of `harken.core.secrets.patterns`."""
