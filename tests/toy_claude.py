"""A toy Claude Code that talks to a model: it names its session, writes its file, and prints events.

`claude -p PROMPT` asks the provider of `ANTHROPIC_BASE_URL`, runs the calls of the answers (each has
the same result), and continues the session of the last run. `--output-format stream-json` prints
events; `--no-session-persistence` writes no file.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.unit.formats.transcript_kit import Transcript, tool_result_block

ROOT = Path(__file__).parents[1]
SESSION = "5e551011-0000-4000-8000-00000000c0de"
FILE = f".claude/projects/-cafe/{SESSION}.jsonl"
MODEL = "claude-opus-4-5-20251101"
_REMINDER = "<system-reminder>\nToday is Monday.\n</system-reminder>"


def install(folder: Path) -> Path:
    """Write the program into a folder. Return the folder for PATH."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    roots = [str(ROOT / "src"), str(ROOT)]
    program.write_text(
        f"#!{sys.executable}\n"
        f"import sys\n"
        f"sys.path[:0] = {roots!r}\n"
        f"from tests.toy_claude import main\n"
        f"main(sys.argv[1:])\n"
    )
    program.chmod(0o755)
    return folder


@dataclass
class _Run:
    """The state of a session, which the next run continues."""

    messages: list[dict[str, Any]] = field(default_factory=list)
    transcript: Transcript = field(default_factory=lambda: Transcript(SESSION))


def main(words: list[str]) -> None:
    """Run the client."""
    home = Path(os.environ["HOME"])
    prompt = words[words.index("-p") + 1]
    state_file, file = home / "toy-claude.json", home / FILE
    run = _Run()
    if state_file.exists():
        saved = json.loads(state_file.read_text())
        run.messages, run.transcript.records = saved["messages"], saved["records"]
        run.transcript._last = run.transcript.records[-1]["uuid"]
    has_events, has_file = "stream-json" in words, "--no-session-persistence" not in words
    _print(has_events, {"type": "system", "subtype": "init", "tools": ["Bash"], "model": MODEL})
    reminder = [] if run.messages else [{"type": "text", "text": _REMINDER}]
    content: list[Any] = [*reminder, {"type": "text", "text": prompt}]
    run.transcript.user(prompt)
    turns = 0
    while content:
        run.messages.append({"role": "user", "content": content})
        answer, turns = _ask(run.messages), turns + 1
        run.messages.append({"role": "assistant", "content": answer["content"]})
        run.transcript.answer(*answer["content"], id=answer["id"], model=MODEL)
        _write(file if has_file else None, run.transcript)
        _print(has_events, {"type": "assistant", "message": answer, "uuid": f"u-{answer['id']}"})
        content = [
            tool_result_block(block["id"], "The kettle is on.")
            for block in answer["content"]
            if block["type"] == "tool_use"
        ]
        if content:
            run.transcript.user(content)
            message = {"role": "user", "content": content}
            _print(has_events, {"type": "user", "message": message})
    end = {"subtype": "success", "result": "Done.", "num_turns": turns, "total_cost_usd": 0.25}
    _print(has_events, {"type": "result", "is_error": False, **end})
    state = {"messages": run.messages, "records": run.transcript.records}
    state_file.write_text(json.dumps(state))


def _ask(messages: list[dict[str, Any]]) -> dict[str, Any]:
    body = {
        "model": MODEL,
        "max_tokens": 100,
        "system": "You are Claude Code.",
        "tools": [{"name": "Bash", "description": "Run", "input_schema": {"type": "object"}}],
        "messages": messages,
        "metadata": {"user_id": json.dumps({"session_id": SESSION})},
    }
    headers = {"user-agent": "claude-cli/2.1.329", "content-type": "application/json"}
    url = os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def _write(file: Path | None, transcript: Transcript) -> None:
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(transcript.data)


def _print(is_wanted: bool, event: dict[str, Any]) -> None:
    if is_wanted:
        members = {"session_id": SESSION, "parent_tool_use_id": None}
        print(json.dumps({**event, **members}), flush=True)


@contextmanager
def serve_model() -> Iterator[str]:
    """Serve a model that calls a tool for each prompt, and then answers. Yield its address."""
    number = iter(range(1000))

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            index, last = next(number), body["messages"][-1]["content"][-1]
            call = {"type": "tool_use", "id": f"toolu_{index:020d}", "name": "Bash", "input": {}}
            is_result = last["type"] == "tool_result"
            text = {"type": "text", "text": f"Tea is ready {index}." if is_result else "I look."}
            answer = {
                "id": f"msg_{index:022d}",
                "type": "message",
                "role": "assistant",
                "model": MODEL,
                "content": [text] if is_result else [text, call],
                "stop_reason": "end_turn" if is_result else "tool_use",
                "usage": {"input_tokens": 100, "output_tokens": 10},
            }
            data = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
