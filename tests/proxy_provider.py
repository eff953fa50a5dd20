"""A fast provider on loopback in its own process, which streams in all protocols.

`python tests/proxy_provider.py` prints its address and serves until its standard input ends. A request
says in its header `X-Fake` what is to happen, as JSON: see `Wish`. What it was asked is at `/log`.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from aiohttp import web

WORDS = ["The", "kettle", "is", "on", "the", "fire", "and", "whistles"]


@dataclass(frozen=True)
class ResponsePlan:
    """The planned response to a request."""

    status: int = 200
    first_ms: float = 0
    """The delay before the response."""
    each_ms: float = 0
    """The delay before each further piece of a stream."""
    pieces: int = 8
    encoding: str = ""
    cut: int = -1
    """The number of pieces after which the connection is cut. 0 is before the response."""
    whole: bool = False
    """Whether the response is one JSON object with its length."""
    size: int = 0
    """The bytes of filling in each piece."""
    extra: tuple[tuple[str, str], ...] = ()
    bare: bool = False
    """Whether the body is empty."""
    close: bool = False
    """Whether the end of the connection ends the response, without a length or chunks."""


class Provider:
    """The handler of requests, which records them."""

    def __init__(self) -> None:
        self.log: list[dict[str, Any]] = []
        self.disconnect_count = 0
        """The number of clients that disconnected during a response."""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/log":
            return web.json_response({"log": self.log, "gone": self.disconnect_count})
        digest, size = hashlib.sha256(), 0
        async for data in request.content.iter_any():
            digest.update(data)
            size += len(data)
        headers = [[a.decode(), b.decode("latin-1")] for a, b in request.raw_headers]
        self.log.append({"method": request.method, "path": request.raw_path, "headers": headers,
                         "sha256": digest.hexdigest(), "size": size})  # fmt: skip
        wish = ResponsePlan(**json.loads(request.headers.get("X-Fake", "{}")))
        if wish.first_ms:
            await asyncio.sleep(wish.first_ms / 1000)
        if wish.cut == 0:
            assert request.transport is not None
            request.transport.abort()
        try:
            return await self.answer(request, wish)
        except (asyncio.CancelledError, ConnectionError):
            self.disconnect_count += 1
            raise

    async def answer(self, request: web.Request, wish: ResponsePlan) -> web.StreamResponse:
        pieces = [] if wish.bare else list(stream_events(request.path, wish))
        kind = "application/json" if wish.whole or wish.status >= 400 else "text/event-stream"
        if wish.whole or wish.status >= 400:
            pieces = [json.dumps(response_body(request.path, wish)).encode()]
        response = web.StreamResponse(status=wish.status, headers={"Content-Type": kind})
        for name, value in wish.extra:
            response.headers.add(name, value)
        if wish.encoding:
            response.headers["Content-Encoding"] = wish.encoding
            pieces = compress(pieces, wish.encoding)
        if wish.bare or wish.whole:
            response.headers["Content-Length"] = str(sum(map(len, pieces)))
        if wish.close:
            response.headers["Connection"] = "close"
            response.force_close()
        await response.prepare(request)
        for number, piece in enumerate(pieces if request.method != "HEAD" else []):
            if number == wish.cut:
                assert request.transport is not None
                request.transport.close()
                return response
            if number and wish.each_ms:
                await asyncio.sleep(wish.each_ms / 1000)
            await response.write(piece)
        await response.write_eof()
        return response


def compress(pieces: list[bytes], encoding: str) -> list[bytes]:
    if encoding == "gzip" and len(pieces) == 1:
        return [gzip.compress(pieces[0], mtime=0)]
    step = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
    parts = [step.compress(piece) + step.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*parts, step.flush()]


def texts(wish: ResponsePlan) -> list[str]:
    filling = "." * wish.size
    return [f"{WORDS[n % len(WORDS)]} {filling}" for n in range(wish.pieces)]


def stream_events(path: str, wish: ResponsePlan) -> Iterator[bytes]:
    """Yield the serialized events of a response."""
    for name, data in iter_events(path, texts(wish)):
        head = f"event: {name}\n" if name else ""
        text = data if isinstance(data, str) else json.dumps(data)
        yield f"{head}data: {text}\n\n".encode()


def iter_events(path: str, contents: list[str]) -> Iterator[tuple[str, Any]]:
    if "/messages" in path:
        usage = {"input_tokens": 11, "output_tokens": len(contents)}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake"}
        yield "message_start", {"type": "message_start",
                                "message": {**head, "content": [], "usage": usage}}  # fmt: skip
        block = {"type": "text", "text": ""}
        yield "content_block_start", {"type": "content_block_start", "index": 0,
                                      "content_block": block}  # fmt: skip
        for text in contents:
            delta = {"type": "text_delta", "text": text}
            yield "content_block_delta", {"type": "content_block_delta", "index": 0, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": 0}
        yield "message_delta", {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                                "usage": usage}  # fmt: skip
        yield "message_stop", {"type": "message_stop"}
    elif "/responses" in path:
        for text in contents:
            yield "response.output_text.delta", {"type": "response.output_text.delta",
                                                 "delta": text}  # fmt: skip
        answer = response_body(path, ResponsePlan(pieces=len(contents)))
        answer["output"][0]["content"][0]["text"] = "".join(contents)
        item = answer["output"][0]
        kind = "response.output_item.done"
        yield kind, {"type": kind, "output_index": 0, "item": item}
        yield "response.completed", {"type": "response.completed", "response": answer}
    elif ":streamGenerateContent" in path:
        for number, text in enumerate(contents, 1):
            content = {"role": "model", "parts": [{"text": text}]}
            last = {"finishReason": "STOP"} if number == len(contents) else {}
            usage = {"promptTokenCount": 11, "candidatesTokenCount": number}
            yield "", {"candidates": [{"content": content, **last}], "usageMetadata": usage}
    else:
        head = {"id": "c_1", "object": "chat.completion.chunk", "model": "fake"}
        for text in contents:
            delta = {"role": "assistant", "content": text}
            yield "", {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        yield "", {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield "", "[DONE]"


def response_body(path: str, wish: ResponsePlan) -> dict[str, Any]:
    """Return the body of a response without a stream."""
    if wish.status >= 400:
        return {"type": "error", "error": {"type": "some_error", "message": f"is {wish.status}"}}
    text_ = "".join(texts(wish))
    if "/messages" in path:
        return {"id": "msg_1", "type": "message", "role": "assistant", "model": "fake",
                "content": [{"type": "text", "text": text_}], "stop_reason": "end_turn",
                "usage": {"input_tokens": 11, "output_tokens": 3}}  # fmt: skip
    if "/responses" in path:
        text = {"type": "output_text", "text": text_}
        item = {"type": "message", "id": "m_1", "role": "assistant", "content": [text]}
        usage = {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14}
        return {"id": "r_1", "status": "completed", "model": "fake", "output": [item],
                "usage": usage}  # fmt: skip
    if "enerateContent" in path:
        content = {"role": "model", "parts": [{"text": text_}]}
        return {"candidates": [{"content": content, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 11}}  # fmt: skip
    message = {"role": "assistant", "content": text_}
    return {"id": "c_1", "object": "chat.completion", "model": "fake",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}  # fmt: skip


async def main() -> None:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", Provider().handle)
    runner = web.AppRunner(app, access_log=None, handler_cancellation=True, auto_decompress=False)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(main())
