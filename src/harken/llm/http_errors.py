"""How a call of a service fails: which kind of failure it is, and one line that a person can use.

Errors of SDKs and of the HTTP library below them are told apart by the names of their classes,
which both vendors share, so nothing is imported for it. What a provider says is quoted, shortened,
and never holds a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harken.core import canonical
from harken.errors import Failure, ModelError

_QUOTED = 240
_KEY = 8
"""So many letters in a row of a key are a part of it; a shorter key is none."""
_TOO_LONG = re.compile(
    r"prompt is too long|input is too long|context[_ ](length|window|limit|size)"
    r"|maximum (context|prompt) length|maximum model length|exceeds? the maximum number of tokens"
    r"|reduce the length of the (messages|prompt|input)|request_too_large|exceed_context_size",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model_not_found|not a valid model|model\b.{0,80}\b(does not exist|not found)", re.IGNORECASE
)
_KINDS: dict[str, Failure] = {
    "authentication_error": "auth",
    "permission_error": "auth",
    "invalid_api_key": "auth",
    "not_found_error": "unknown_model",
    "rate_limit_error": "rate_limit",
    "rate_limit_exceeded": "rate_limit",
    "insufficient_quota": "rate_limit",
    "overloaded_error": "overloaded",
    "api_error": "overloaded",
    "server_error": "overloaded",
    "internal_server_error": "overloaded",
    "timeout_error": "timeout",
    "request_too_large": "context_too_long",
    "invalid_request_error": "refused",
}
"""What providers call a failure in an event of a stream."""
_REQUEST = re.compile(r"[\w.:-]{4,64}", re.ASCII)
_TOO_SHORT = frozenset({"max_tokens", "length"})
_REFUSALS = frozenset({"refusal", "content_filter"})
_STATUSES: dict[int, Failure] = {
    401: "auth",
    403: "auth",
    404: "unknown_model",
    408: "timeout",
    413: "context_too_long",
    429: "rate_limit",
}
_TIMEOUT = frozenset({"APITimeoutError", "TimeoutException", "TimeoutError"})
_NETWORK = frozenset(
    {"APIConnectionError", "TransportError", "StreamError", "InvalidURL", "OSError"}
)
_UNREADABLE = frozenset({"DecodingError", "UnicodeDecodeError", "JSONDecodeError"})
_END_OF_KEY = 3
"""So many of the last letters of a key are not shown, also without a mask before them."""
_MASK = r"(?:[*•●·]{2,}|\.{3,}|…|[xX]{4,})"
_WORD = re.compile(
    rf"(?<![\w*•●·….-])(?P<before>{_MASK})?(?P<word>[\w-]{{1,40}}?)(?P<after>{_MASK})?(?![\w-])"
)
_MASKED = re.compile(r"[\w-]*(?:[*•●·]{3,}|[xX]{6,})[\w*•●·-]*")
_ENDING = re.compile(
    r"(?i:(?<=ending in )|(?<=ending with )|(?<=ends in )|(?<=ends with )|(?<=ending: ))"
    r"[\"'`]?[\w*•●·….-]{2,12}(?!\w)"
)
"""Letters that a provider calls the last of a key."""
_KEY_LIKE = re.compile(
    r"(?i:bearer|basic)\s+\S+|(?<=provided: )\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}"
    r"|\b(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelErrorFactory:
    """Makes the errors of one model, each with the kind and one line of text."""

    model: str
    host: str
    key: str | None = field(default=None, repr=False)
    key_name: str | None = None
    timeout_s: float = 600
    request: str = ""
    """What the provider calls the request, so that it can be found there; empty: unknown."""

    def about(self, headers: Mapping[str, str]) -> ModelErrorFactory:
        """Return those that name the request of an answer with these headers."""
        known = (headers.get(name) or "" for name in ("request-id", "x-request-id"))
        return replace(self, request=next(filter(self._is_id, known), ""))

    def of(self, error: Exception) -> ModelError:
        """Return what an SDK or its HTTP library raised as a ModelError."""
        names = {kind.__name__ for kind in type(error).__mro__}
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            said = getattr(error, "body", None) or str(error)
            headers = getattr(getattr(error, "response", None), "headers", {})
            return self.about(headers).told(said, status)
        cause = error.__cause__ or error
        if type(cause).__name__ == "ConnectTimeout":
            return self._error("network", "no connection in time")
        if names & _TIMEOUT:
            return self._error("timeout", None)
        if names & _NETWORK:
            return self._error("network", str(cause) or type(cause).__name__)
        if names & _UNREADABLE:
            return self._error("malformed", str(error))
        return self._error("failed", f"{type(error).__name__}: {error}")

    def told(self, said: Any, status: int | None = None) -> ModelError:
        """Return the failure that a service told of, in an event where there is no status."""
        code = said.get("code") if isinstance(said, dict) else None
        if status is None and isinstance(code, int) and 400 <= code < 600:
            status = code
        return self._error(_why(status, said), said, status)

    def unstreamed(self, body: bytes, media_type: str) -> ModelError:
        """Return the failure of an answer that is no stream: it may hold an error all the same."""
        reason = f"no stream of events, but {media_type or 'nothing'}"
        try:
            said = canonical.from_json(body)
        except ValueError:
            return self.malformed(b"", reason)
        if isinstance(said, dict) and said.get("error"):
            return self.told(said["error"])
        if isinstance(said, dict) and said.get("object") == "error":
            return self.told(said)
        return self.malformed(body, reason)

    def malformed(self, data: bytes, reason: str) -> ModelError:
        """Return the failure of an answer that cannot be read, with its first bytes."""
        begins = f": {data[:80].decode('utf-8', 'replace')}" if data else ""
        return self._error("malformed", reason + begins)

    def cut_off(self) -> ModelError:
        """Return the failure of a stream that ended too early."""
        return self._error("network", "the answer was cut off before its end")

    def no_answer(self, stop_reason: str) -> ModelError:
        """Return the failure of an answer that came to its end and is none."""
        why: Failure = "refused" if stop_reason in _REFUSALS else "failed"
        more = "allow it more tokens (max_tokens), then go on" if stop_reason in _TOO_SHORT else ""
        said = f"an answer that says nothing, or broke off ({stop_reason})"
        return self._error(why, said, advice=more)

    def _error(
        self, why: Failure, said: Any, status: int | None = None, *, advice: str = ""
    ) -> ModelError:
        facts = [str(status)] if status is not None else []
        facts += [f"request {self.request}"] if self.request else []
        code = f" ({', '.join(facts)})" if facts else ""
        text = f"{self.model}: {self.host} {self._what(why)}{code}"
        quoted = self.quoted(_words(said))
        return ModelError(
            f"{text}{f': {quoted}' if quoted else ''}; {advice or self._advice(why)}",
            why=why,
            status=status,
        )

    def _what(self, why: Failure) -> str:
        return {
            "auth": "does not accept the key" if self.key else "wants a key and was given none",
            "unknown_model": "does not know this model, or the address is wrong",
            "rate_limit": "has had too many requests",
            "overloaded": "is overloaded or failed",
            "timeout": f"said nothing for {self.timeout_s:g} s",
            "network": "could not be reached, or the connection broke",
            "context_too_long": "finds the conversation too long",
            "refused": "refused the request",
            "malformed": "sent what cannot be read",
            "failed": "failed",
        }[why]

    def _advice(self, why: Failure) -> str:
        key = self.key_name or "the key"
        return {
            "auth": f"check {key}" if self.key else f"set {key}",
            "unknown_model": "check the name of the model and the base URL",
            "rate_limit": "wait a little and go on, or look at your limits and credit there",
            "overloaded": "go on a little later",
            "timeout": "go on, or allow it more time",
            "network": "check the connection and the base URL, then go on",
            "context_too_long": "compact the conversation, or begin a new one",
            "refused": "change what it names, then go on",
            "malformed": "check that the base URL speaks this protocol",
            "failed": "go on, or try another model",
        }[why]

    def quoted(self, text: str) -> str:
        """Return what a provider said: one line, shortened, and without anything like a key."""
        line = " ".join(self._redacted(text).split()).rstrip(" .;:")
        return line if len(line) <= _QUOTED else f"{line[: _QUOTED - 3]}..."

    def _redacted(self, text: str) -> str:
        text = text[: 10 * _QUOTED]
        if self.key and len(self.key) < _KEY:  # `x`, `none`: a word, and no secret in others
            text = re.sub(rf"(?<!\w){re.escape(self.key)}(?!\w)", "[key]", text)
        elif self.key:
            text = text.replace(self.key, "[key]")
            text = re.sub(r"[\w*.+/=-]{6,}", self._unless_of_key, text)
            text = _WORD.sub(self._unless_end_of_key, text)
        for pattern in (_MASKED, _KEY_LIKE, _ENDING):
            text = pattern.sub("[key]", text)
        return text

    def _unless_end_of_key(self, match: re.Match[str]) -> str:
        """Return a word, unless the key begins or ends with it; a mask before or after it counts.

        Providers show the last letters of a key, which is enough to tell it from others.
        """
        key = self.key or ""
        word = match["word"]
        is_masked = bool(match["before"] or match["after"])
        least = 1 if is_masked else _END_OF_KEY
        is_end = len(word) >= least and (key.endswith(word) or (is_masked and key.startswith(word)))
        return "[key]" if is_end else match[0]

    def _unless_of_key(self, match: re.Match[str]) -> str:
        """Return a word, unless it shares eight letters in a row with the key."""
        return "[key]" if self._shares(match[0]) else match[0]

    def _shares(self, word: str) -> bool:
        key = self.key or ""
        return any(word[at : at + _KEY] in key for at in range(len(word) - _KEY + 1))

    def _is_id(self, text: str) -> bool:
        return bool(_REQUEST.fullmatch(text)) and not self._shares(text)


def _why(status: int | None, said: Any) -> Failure:
    """Return the kind of a failure, by its status, and by what the provider says of it."""
    kinds = [value for value in _strings(said) if value in _KINDS]
    text = " ".join(_strings(said))
    if status in (None, 400, 413, 422) and _TOO_LONG.search(text):
        return "context_too_long"
    if status in (None, 400) and _NO_MODEL.search(text):
        return "unknown_model"
    if status in _STATUSES:
        return _STATUSES[status]
    if status is not None and 300 <= status < 400:
        return "unknown_model"  # it is somewhere else: the address is wrong
    if status is not None and status >= 500:
        return "overloaded"
    if kinds:
        return _KINDS[kinds[-1]]
    return "refused" if status is not None and status >= 400 else "failed"


def _words(said: Any) -> str:
    """Return the message in what a provider said, whatever its shape."""
    if isinstance(said, list) and said:
        return _words(said[0])
    if isinstance(said, dict):
        for name in ("error", "message", "detail"):
            inner = said.get(name)
            if inner:
                return _words(inner)
        return " ".join(_strings(said))
    text = said if isinstance(said, str) else "" if said is None else str(said)
    return re.sub(r"<[^>]*>", " ", text) if text.lstrip().startswith("<") else text


def _strings(said: Any, depth: int = 4) -> Iterator[str]:
    """Yield the texts in what a provider said: outer ones first."""
    if isinstance(said, str):
        yield said
    elif isinstance(said, dict | list) and depth:
        for value in said.values() if isinstance(said, dict) else said:
            yield from _strings(value, depth - 1)
