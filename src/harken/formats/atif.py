"""ATIF, the Agent Trajectory Interchange Format of Harbor: 1.x is read, 1.7 written.

One idea: a trajectory is a document, and documents of subagents stand in it or beside it. Those
that stand in it become agents of their own, spawned where a result names them.

Source: docs/formats/atif.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import harken.formats.atif_messages as steps_of_atif
from harken.core import codec
from harken.core.commits import raw_ref
from harken.errors import FormatError
from harken.formats.base import Format, WholeEntry
from harken.formats.json_lines import document
from harken.formats.native import Native, Reading, Source, Step
from harken.formats.records import Record, inner, items, text
from harken.formats.rounds import Rounds

NAME = "atif-v1"
VERSION = "ATIF-v1.7"
_LOOKS = re.compile(rb'"schema_version"\s*:\s*"ATIF-v1\.')
_DEPTH = 20
"""Subagents of subagents that stand deeper are not read."""


def looks(path: str, beginning: bytes) -> bool:
    """Whether a file is a trajectory, by its version; where members are sorted it stands late."""
    del path
    if not beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return False
    is_like = b'"step_id"' in beginning and b'"agent"' in beginning and b'"source"' in beginning
    return bool(_LOOKS.search(beginning)) or is_like


def steps(source: Source, reading: Reading) -> Iterator[Step]:
    """Yield the steps of a trajectory, and of those inside it. Raises FormatError."""
    whole = document(source, reading, NAME)
    if not isinstance(whole.get("steps"), list) or not isinstance(whole.get("agent"), dict):
        raise FormatError(NAME, "it has no agent or no steps")
    agent = inner(whole, "agent")
    reading.session_id = text(whole, "session_id") or text(whole, "trajectory_id")
    reading.version = " ".join(filter(None, (text(agent, "name"), text(agent, "version"))))
    reading.used = reading.lines
    if text(whole, "continued_trajectory_ref"):
        reading.notes.append(f"it goes on in {text(whole, 'continued_trajectory_ref')}")
    yield from _steps(whole, reading, Rounds(reading), "", 0)
    reading.tips = dict(sorted(reading.tips.items(), key=lambda tip: bool(tip[0])))


def _steps(
    whole: Record, reading: Reading, rounds: Rounds, path: str, depth: int
) -> Iterator[Step]:
    inside = {text(one, "trajectory_id"): one for one in items(whole, "subagent_trajectories")}
    for at, step in enumerate(items(whole, "steps"), 1):
        if text(step, "source") not in ("user", "agent", "system"):
            reading.keep(f"step/{text(step, 'source')}")
            continue
        said = _of_model(step, inner(whole, "agent"))
        yield from rounds.add(f"{path}{at}", rounds.head, steps_of_atif.entries_of(said))
        for name in _spawned(step):
            one = inside.pop(name, None)
            if one is not None and depth < _DEPTH:
                yield from rounds.pause()
                yield from _inside(one, reading, rounds, f"{path}{at}.", depth + 1)
    for one in inside.values():  # nobody says where they were spawned
        if depth < _DEPTH:
            yield from _inside(one, reading, rounds, f"{path}end.", depth + 1)
    yield from rounds.end()


def _of_model(step: Record, agent: Record) -> Record:
    """Return a step with the model that it has from the agent."""
    if text(step, "source") == "agent" and not text(step, "model_name") and agent.get("model_name"):
        return {**step, "model_name": agent["model_name"]}
    return step


def _spawned(step: Record) -> Iterator[str]:
    for result in items(inner(step, "observation"), "results"):
        for ref in items(result, "subagent_trajectory_ref"):
            yield text(ref, "trajectory_id")


def _inside(
    whole: Record, reading: Reading, above: Rounds, path: str, depth: int
) -> Iterator[Step]:
    name = text(whole, "trajectory_id") or path
    rounds = Rounds(reading, agent=name, origin=above.current, names=above.names)
    yield from _steps(whole, reading, rounds, f"{path}{name}.", depth)


def written(entries: Sequence[WholeEntry], session_id: str = "") -> bytes | None:
    """Return a conversation as a trajectory; None where nothing is in it: that has no steps."""
    if not entries:
        return None
    listed = steps_of_atif.steps_of(entries)
    models = [step["model_name"] for step in listed if "model_name" in step]
    agent: dict[str, Any] = {"name": "harken", "version": "1"}
    if models:
        agent["model_name"] = models[-1]
    whole: dict[str, Any] = {
        "schema_version": VERSION,
        "session_id": session_id or raw_ref(codec.encode(listed))[4:40],
        "agent": agent,
        "steps": listed,
        "final_metrics": _total(listed),
    }
    return codec.encode(whole) + b"\n"


def _total(listed: Sequence[Record]) -> dict[str, Any]:
    metrics = [inner(step, "metrics") for step in listed]
    names = ("prompt_tokens", "completion_tokens", "cached_tokens")
    found: dict[str, Any] = {"total_steps": len(listed)}
    for name in names:
        counts = [one[name] for one in metrics if name in one]
        if counts:
            found[f"total_{name}"] = sum(counts)
    return found


def _reads(data: bytes) -> list[WholeEntry]:
    reading = Reading()
    found = [step for step in steps(Source("", lambda: [data]), reading) if not step.agent]
    return [entry for step in found for entry in step.entries]


NATIVE = Native(name=NAME, runtime="atif", looks=looks, steps=steps)
FORMAT = Format(name=NAME, media_type="application/json", reads=_reads, writes=written)
