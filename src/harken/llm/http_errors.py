"""Classification of failed model calls, with one line of advice for the user.

Exceptions of SDKs and of the HTTP library below them are classified by their class names, which
both vendors share, so no module is imported for it. A provider's message is quoted, truncated, and
never contains a key.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harken.core import canonical
from harken.errors import Failure, ModelError

_MAX_QUOTE_CHARS = 240
_MIN_KEY_CHARS = 8
"""The minimum length of a part of a key that is redacted. A shorter key is redacted only as a
complete word."""
_TOO_LONG_PATTERN = re.compile(
    r"prompt is too long|input is too long|context[_ ](length|window|limit|size)"
    r"|maximum (context|prompt) length|maximum model length|exceeds? the maximum number of tokens"
    r"|reduce the length of the (messages|prompt|input)|request_too_large|exceed_context_size",
    re.IGNORECASE,
)
_NO_MODEL_PATTERN = re.compile(
    r"model_not_found|not a valid model|model\b.{0,80}\b(does not exist|not found)", re.IGNORECASE
)
_FAILURES_BY_TYPE: dict[str, Failure] = {
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
"""Failures by the providers' error types in stream events."""
_REQUEST_ID_PATTERN = re.compile(r"[\w.:-]{4,64}", re.ASCII)
_LENGTH_REASONS = frozenset({"max_tokens", "length"})
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
_DECODING_ERRORS = frozenset({"DecodingError", "UnicodeDecodeError", "JSONDecodeError"})
_KEY_END_CHARS = 3
"""The number of last characters of a key that are redacted, also without a mask before them."""
_MASK = r"(?:[*•●·]{2,}|\.{3,}|…|[xX]{4,})"
_WORD_PATTERN = re.compile(
    rf"(?<![\w*•●·….-])(?P<before>{_MASK})?(?P<word>[\w-]{{1,40}}?)(?P<after>{_MASK})?(?![\w-])"
)
_MASKED_PATTERN = re.compile(r"[\w-]*(?:[*•●·]{3,}|[xX]{6,})[\w*•●·-]*")
_ENDING_PATTERN = re.compile(
    r"(?i:(?<=ending in )|(?<=ending with )|(?<=ends in )|(?<=ends with )|(?<=ending: ))"
    r"[\"'`]?[\w*•●·….-]{2,12}(?!\w)"
)
"""Matches characters that a provider describes as the end of a key."""
_KEY_PATTERN = re.compile(
    r"(?i:bearer|basic)\s+\S+|(?<=provided: )\S+"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|nvapi)[-_][\w*.-]{6,}|\bAIza[\w-]{10,}"
    r"|\b(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelErrorFactory:
    """Creates the errors of one model, each with a failure kind and one line of text."""

    model: str
    host: str
    key: str | None = field(default=None, repr=False)
    key_name: str | None = None
    timeout_s: float = 600
    request: str = ""
    """The provider's id of the request, for its support. Empty if unknown."""

    def for_response(self, headers: Mapping[str, str]) -> ModelErrorFactory:
        """Return a copy for the request that the response headers name."""
        request_ids = (headers.get(name) or "" for name in ("request-id", "x-request-id"))
        return replace(self, request=next(filter(self._is_id, request_ids), ""))

    def from_exception(self, error: Exception) -> ModelError:
        """Convert an exception of an SDK or its HTTP library to a ModelError."""
        names = {kind.__name__ for kind in type(error).__mro__}
        status = getattr(error, "status_code", None)
        if isinstance(status, int):
            body = getattr(error, "body", None) or str(error)
            headers = getattr(getattr(error, "response", None), "headers", {})
            return self.for_response(headers).from_body(body, status)
        cause = error.__cause__ or error
        if type(cause).__name__ == "ConnectTimeout":
            return self._build_error("network", "no connection in time")
        if names & _TIMEOUT:
            return self._build_error("timeout", None)
        if names & _NETWORK:
            return self._build_error("network", str(cause) or type(cause).__name__)
        if names & _DECODING_ERRORS:
            return self._build_error("malformed", str(error))
        return self._build_error("failed", f"{type(error).__name__}: {error}")

    def from_body(self, body: Any, status: int | None = None) -> ModelError:
        """Return the error that a service reported; `status` is None for a stream event."""
        code = body.get("code") if isinstance(body, dict) else None
        if status is None and isinstance(code, int) and 400 <= code < 600:
            status = code
        return self._build_error(_classify(status, body), body, status)

    def unstreamed(self, body: bytes, media_type: str) -> ModelError:
        """Return the error of a response that is no stream. It may hold an error object."""
        reason = f"no stream of events, but {media_type or 'nothing'}"
        try:
            value = canonical.from_json(body)
        except ValueError:
            return self.malformed(b"", reason)
        if isinstance(value, dict) and value.get("error"):
            return self.from_body(value["error"])
        if isinstance(value, dict) and value.get("object") == "error":
            return self.from_body(value)
        return self.malformed(body, reason)

    def malformed(self, data: bytes, reason: str) -> ModelError:
        """Return the error of a response that cannot be parsed, with its first bytes."""
        excerpt = f": {data[:80].decode('utf-8', 'replace')}" if data else ""
        return self._build_error("malformed", reason + excerpt)

    def for_truncated_stream(self) -> ModelError:
        """Return the error of a stream that ended too early."""
        return self._build_error("network", "the answer was cut off before its end")

    def no_answer(self, stop_reason: str) -> ModelError:
        """Return the error of a complete response without content."""
        why: Failure = "refused" if stop_reason in _REFUSALS else "failed"
        advice = "raise max_tokens, then resume" if stop_reason in _LENGTH_REASONS else ""
        text = f"an empty or truncated answer ({stop_reason})"
        return self._build_error(why, text, advice=advice)

    def _build_error(
        self, why: Failure, body: Any, status: int | None = None, *, advice: str = ""
    ) -> ModelError:
        facts = [str(status)] if status is not None else []
        facts += [f"request {self.request}"] if self.request else []
        code = f" ({', '.join(facts)})" if facts else ""
        text = f"{self.model}: {self.host} {self._describe(why)}{code}"
        quoted = self.quote(_find_message(body))
        return ModelError(
            f"{text}{f': {quoted}' if quoted else ''}; {advice or self._advice(why)}",
            why=why,
            status=status,
        )

    def _describe(self, why: Failure) -> str:
        return {
            "auth": "does not accept the key" if self.key else "needs a key, and none is set",
            "unknown_model": "does not know this model, or the base URL is wrong",
            "rate_limit": "received too many requests",
            "overloaded": "is overloaded or failed",
            "timeout": f"sent nothing for {self.timeout_s:g} s",
            "network": "could not be reached, or the connection broke",
            "context_too_long": "rejected the conversation as too long",
            "refused": "refused the request",
            "malformed": "sent an invalid response",
            "failed": "failed",
        }[why]

    def _advice(self, why: Failure) -> str:
        key = self.key_name or "the key"
        return {
            "auth": f"check {key}" if self.key else f"set {key}",
            "unknown_model": "check the name of the model and the base URL",
            "rate_limit": "wait, then resume, or check your limits and credit",
            "overloaded": "resume later",
            "timeout": "resume, or raise the timeout",
            "network": "check the connection and the base URL, then resume",
            "context_too_long": "compact the conversation, or start a new one",
            "refused": "correct the named value, then resume",
            "malformed": "check that the base URL has this protocol",
            "failed": "resume, or try another model",
        }[why]

    def quote(self, text: str) -> str:
        """Return a provider's message: one line, truncated, and without anything like a key."""
        line = " ".join(self._redact(text).split()).rstrip(" .;:")
        return line if len(line) <= _MAX_QUOTE_CHARS else f"{line[: _MAX_QUOTE_CHARS - 3]}..."

    def _redact(self, text: str) -> str:
        text = text[: 10 * _MAX_QUOTE_CHARS]
        if self.key and len(self.key) < _MIN_KEY_CHARS:  # A key such as `none` is a plain word.
            text = re.sub(rf"(?<!\w){re.escape(self.key)}(?!\w)", "[key]", text)
        elif self.key:
            text = text.replace(self.key, "[key]")
            text = re.sub(r"[\w*.+/=-]{6,}", self._redact_key_part, text)
            text = _WORD_PATTERN.sub(self._redact_key_end, text)
        for pattern in (_MASKED_PATTERN, _KEY_PATTERN, _ENDING_PATTERN):
            text = pattern.sub("[key]", text)
        return text

    def _redact_key_end(self, match: re.Match[str]) -> str:
        """Redact a word if the key begins or ends with it. A mask before or after it counts.

        Providers show the last letters of a key, which is enough to distinguish keys.
        """
        key = self.key or ""
        word = match["word"]
        is_masked = bool(match["before"] or match["after"])
        min_length = 1 if is_masked else _KEY_END_CHARS
        is_end = len(word) >= min_length and (
            key.endswith(word) or (is_masked and key.startswith(word))
        )
        return "[key]" if is_end else match[0]

    def _redact_key_part(self, match: re.Match[str]) -> str:
        """Redact a word that shares eight consecutive characters with the key."""
        return "[key]" if self._contains_key_part(match[0]) else match[0]

    def _contains_key_part(self, word: str) -> bool:
        key = self.key or ""
        return any(
            word[start : start + _MIN_KEY_CHARS] in key
            for start in range(len(word) - _MIN_KEY_CHARS + 1)
        )

    def _is_id(self, text: str) -> bool:
        return bool(_REQUEST_ID_PATTERN.fullmatch(text)) and not self._contains_key_part(text)


def _classify(status: int | None, body: Any) -> Failure:
    """Classify a failure by its status and the provider's message."""
    kinds = [value for value in _iter_strings(body) if value in _FAILURES_BY_TYPE]
    text = " ".join(_iter_strings(body))
    if status in (None, 400, 413, 422) and _TOO_LONG_PATTERN.search(text):
        return "context_too_long"
    if status in (None, 400) and _NO_MODEL_PATTERN.search(text):
        return "unknown_model"
    if status in _STATUSES:
        return _STATUSES[status]
    if status is not None and 300 <= status < 400:
        return "unknown_model"  # A redirect means that the base URL is wrong.
    if status is not None and status >= 500:
        return "overloaded"
    if kinds:
        return _FAILURES_BY_TYPE[kinds[-1]]
    return "refused" if status is not None and status >= 400 else "failed"


def _find_message(body: Any) -> str:
    """Return the message in an error body of any shape."""
    if isinstance(body, list) and body:
        return _find_message(body[0])
    if isinstance(body, dict):
        for name in ("error", "message", "detail"):
            inner = body.get(name)
            if inner:
                return _find_message(inner)
        return " ".join(_iter_strings(body))
    text = body if isinstance(body, str) else "" if body is None else str(body)
    return re.sub(r"<[^>]*>", " ", text) if text.lstrip().startswith("<") else text


def _iter_strings(body: Any, depth: int = 4) -> Iterator[str]:
    """Yield the strings in an error body, outer ones first."""
    if isinstance(body, str):
        yield body
    elif isinstance(body, dict | list) and depth:
        for value in body.values() if isinstance(body, dict) else body:
            yield from _iter_strings(value, depth - 1)
