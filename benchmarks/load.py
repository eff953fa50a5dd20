"""Loading: a log of a million events, against decoding its lines into Structs.

Each run is a process of its own, so that neither finds the other's memory; the reference keeps
what it decodes, as a load must.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.measure import RUNS, Row, median, spread

EVENTS = 1_000_000
CODE = "import sys; from benchmarks.load import child; child(*sys.argv[1:])"


def write(path: Path, events: int) -> None:
    """Write a log as a long run leaves it: turns of request, answer, usage and result."""
    from harken import Session, SessionOptions
    from harken.core.events import LlmRequest, LlmResponse, Usage

    text = "Read the file and tell what it says about the weather of tomorrow, please. " * 4
    with Session(path, options=SessionOptions(durability="none")) as session:
        agent = session.allocate_agent_id()
        session.log_agent_created(agent, name="main", language_model="bench/model")
        session.log_transcript_entry(agent, {"role": "user", "content": text})
        state = session.agent(agent)
        while session.state.next_message < events - 4:
            count = state.context_hash_state[0] + len(state.new_entries)
            request = session.append(
                LlmRequest(
                    agent_id=agent,
                    context=state.segments(),
                    count=count,
                    context_hash="0" * 64,
                    model="bench/model",
                )
            )
            function = {"name": "read", "arguments": '{"path": "notes/today.md"}'}
            call = {"id": f"call_{count}", "type": "function", "function": function}
            entry = session.log_transcript_entry(agent, {"role": "assistant", "tool_calls": [call]})
            usage = Usage(input_tokens=1200, output_tokens=40)
            session.append(
                LlmResponse(
                    agent_id=agent, request=request, entry=entry, usage=usage, latency_s=0.5
                )
            )
            result = {"role": "tool", "content": text, "tool_call_id": call["id"], "name": "read"}
            session.log_transcript_entry(agent, result)


def child(kind: str, path: str) -> None:
    """Load or decode once, in this process; print CPU seconds and peak memory in MB."""
    import gc

    from harken.core import events as ev
    from harken.session.session import Session

    start = time.process_time()
    if kind == "load":
        kept: object = Session.load(path)
    else:
        gc.disable()
        decode = ev._decoder.decode
        with Path(path).open("rb") as file:
            kept = [decode(line[:-27] + b"}") for line in file]
    seconds = time.process_time() - start
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sys.stdout.write(f"{seconds} {peak_mb}\n")
    del kept


def measure(kind: str, path: Path) -> tuple[float, float]:
    """Run a child; return its CPU seconds and its peak memory in MB."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, kind, str(path)], check=True, capture_output=True, text=True
    )
    seconds, peak_mb = map(float, done.stdout.split())
    return seconds, peak_mb


def rows() -> list[Row]:
    """Measure both, in turn."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "big.jsonl"
        write(path, EVENTS)
        size_mb = path.stat().st_size / 1e6
        pairs = [(measure("load", path), measure("decode", path)) for _ in range(RUNS)]
    ratios = [load[0] / decode[0] for load, decode in pairs]
    return [
        Row(
            "load 1,000,000 events: CPU s",
            spread([a[0] for a, _ in pairs], 1, 2),
            "",
            f"{size_mb:.0f} MB",
        ),
        Row("decode its lines into Structs: CPU s", spread([b[0] for _, b in pairs], 1, 2)),
        Row("load / decode", spread(ratios, 1, 2), "< 2"),
        Row(
            "load: peak memory MB",
            f"{median([a[1] for a, _ in pairs]):,.0f}",
            "",
            f"decode alone {median([b[1] for _, b in pairs]):,.0f}",
        ),
    ]
