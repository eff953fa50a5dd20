"""The sessions of a home for tests of the page: scripted agents with hooks, images, an import."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path

from harken import AgentRuntime, Deny, HookQuestion, LocalWorld, Ok, Rewrite, load_session, tool
from harken.cli.main import run_cli
from harken.core.events import TranscriptEntry
from harken.core.messages import ContentPart, ImagePart, TextPart
from harken.core.verdict import Verdict
from harken.session.session import Session
from tests.agent_kit import Stage, call, call_message, fast_options, script_model
from tests.session_kit import create_agent, log_answer, log_user_message, session_options
from tests.unit.agents.hook_kit import Judging
from tests.unit.formats.transcript_kit import Transcript, text_block, tool_use_block

TASK = "Ask Ann for the harbor code."
DENIED, SPOKEN = "The harbor code is 1234.", "The harbor code is secret 5678."
REWRITTEN = "The harbor code is hidden."
PROPOSED_CALL, EXECUTED_CALL = "We meet at noon.", "We meet at dusk."
ANSWER = "Ann keeps the code hidden."
IMPORTED = "claude:5e551011-0000-4000-8000-000000000001"
IMPORTED_TITLE = "Which tea is green"
IMAGE_SIZE = (24, 16)


@tool
def edit_file(path: str, old_string: str, new_string: str) -> str:
    """Replace a text in a file."""
    return f"edited {path}"


@tool
def send(text: str) -> str:
    """Send a text."""
    return f"sent {text}"


def write_home(home: Path, imports: Path) -> None:
    """Write all sessions of the tests into a new home, and index them."""
    (home / "sessions").mkdir(parents=True)
    write_harbor_log(home / "sessions" / "harbor.jsonl")
    write_album_log(home / "sessions" / "album.jsonl")
    import_tea(home, imports)
    run(home, "search", "harbor")


def run(home: Path, *arguments: str | Path) -> None:
    """Run a command of `harken` with this home."""
    environ = {"HARKEN_HOME": str(home), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    command = [str(argument) for argument in arguments]
    assert run_cli([command[0], "--home", str(home), *command[1:]], environ) == 0


def write_harbor_log(log: Path) -> None:
    """Run a session: a call with a diff, a rewritten call, and a subagent whose answers are judged.

    The guard denies the first answer of Ann and rewrites the second, which the root hears.
    """
    edit = call("edit_file", "c1", path="tour.txt", old_string="by sea\n", new_string="by land\n")
    ask = call("task", "c3", name="Ann", instructions="You are Ann.", prompt="Which code?")
    model = script_model(
        main=[
            call_message(edit, text="I edit the **tour** first."),
            call_message(call("send", "c2", text=PROPOSED_CALL)),
            call_message(ask),
            ANSWER,
        ],
        Ann=[DENIED, SPOKEN],
    )
    runtime = AgentRuntime(model=model, world=LocalWorld([edit_file, send]))
    root, session = load_session(
        log, runtime=runtime, system_prompt="You are main.", name="main", options=fast_options()
    )
    hook = Judging(session, runtime=runtime).install(root, "guard")
    hook.judges.update({"action": judge_call, "response": judge_answer})
    with session:
        assert Stage(root, session, runtime).ask(TASK) == ANSWER
        session.end("done")


def judge_answer(question: HookQuestion) -> Verdict:
    """Deny the code, and rewrite the secret."""
    if "1234" in question.text:
        return Deny("no codes")
    if "secret 5678" in question.text:
        return Rewrite(question.text.replace("secret 5678", "hidden"))
    return Ok()


def judge_call(question: HookQuestion) -> Verdict:
    """Rewrite the call that sends a text."""
    if PROPOSED_CALL in question.text:
        return Rewrite(json.dumps({"text": EXECUTED_CALL}))
    return Ok()


def write_album_log(log: Path) -> None:
    """Write a session with an image."""
    with Session(log, options=session_options()) as session:
        agent = create_agent(session, relation="primary", name="Painter")
        image = ImagePart(media_type="image/png", data=base64.b64encode(png(*IMAGE_SIZE)).decode())
        content: list[ContentPart] = [TextPart("Look at this picture."), image]
        session.append(TranscriptEntry(agent_id=agent, role="user", content=content))
        log_answer(session, agent, "A blue field.")
        for number in range(30):
            log_user_message(session, agent, f"Remark {number}.")
        session.end("done")


def png(width: int, height: int) -> bytes:
    """Return a PNG image of one color."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        checksum = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    rows = (b"\0" + b"\x00\x72\xb2" * width) * height
    data = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + data


def import_tea(home: Path, folder: Path) -> None:
    """Import a session of Claude Code."""
    transcript = Transcript()
    transcript.add("ai-title", aiTitle=IMPORTED_TITLE)
    transcript.user("Which tea is green?")
    transcript.answer(tool_use_block("c1", "Bash", command="ls teas"))
    transcript.result("c1", "sencha")
    transcript.answer(text_block("Sencha is green."))
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(transcript.data)
    run(home, "import", folder)
