"""Small files of research programs: a short conversation in the form of each."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

Record = dict[str, Any]


def who_and_when(**changes: Any) -> Record:
    """Return a document of the kind with named speakers."""
    document = {
        "is_correct": False,
        "question": "Who opened the cafe?",
        "question_ID": "q-1",
        "level": "2",
        "ground_truth": "Jill",
        "history": [
            {"content": "Find out who opened it.", "role": "assistant", "name": "Planner"},
            {"content": "It was Jack.", "role": "user", "name": "Searcher"},
            {"content": "TERMINATE", "role": "assistant", "name": "Planner"},
        ],
        "mistake_agent": "Searcher",
        "mistake_step": "1",
        "mistake_reason": "It did not search.",
        "system_prompt": {"Planner": "You plan.", "Searcher": "You search."},
    }
    return {**document, **changes}


def hand_crafted(**changes: Any) -> Record:
    """Return a document of the kind with speakers and addressees in roles."""
    document = {
        "history": [
            {"content": "Who opened the cafe?", "role": "human"},
            {"content": "I make a plan.", "role": "Orchestrator (thought)"},
            {"content": "Search for it.", "role": "Orchestrator (-> WebSurfer)"},
            {"content": "It was Jill.", "role": "WebSurfer"},
            {"content": "Done.", "role": "Orchestrator (termination condition)"},
            {"content": "Run it.", "role": "Orchestrator (-> ComputerTerminal)"},
            {"content": "exit 0", "role": "ComputerTerminal"},
        ],
        "question": "Who opened the cafe?",
        "ground_truth": "Jill",
        "is_corrected": True,
        "question_ID": "q-1",
        "mistake_agent": "websurfer",
        "mistake_step": "3",
        "mistake_reason": "",
    }
    return {**document, **changes}


def inspect_sample(number: Any = 1, **changes: Any) -> Record:
    """Return a sample with a tool call, and a scorer that asks a model."""
    answer_usage = {
        "input_tokens": 10,
        "output_tokens": 2,
        "total_tokens": 17,
        "input_tokens_cache_read": 5,
    }
    call = {"id": f"c{number}", "function": "look", "arguments": {"at": "door"}, "type": "function"}
    messages: list[Record] = [
        {"id": f"s{number}", "role": "system", "content": "attachment://aa"},
        {"id": f"u{number}", "role": "user", "content": f"Door {number}?", "source": "input"},
        {"id": f"a{number}", "role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"id": f"t{number}", "role": "tool", "content": "Jill.", "tool_call_id": f"c{number}"},
        {
            "id": f"b{number}",
            "role": "assistant",
            "content": [
                {"type": "reasoning", "reasoning": "Hm."},
                {"type": "text", "text": "Jill is there."},
            ],
        },
    ]
    events = [
        {"event": "span_begin", "id": "x", "name": "solve", "type": "solver"},
        model_event(messages[:2], messages[2], answer_usage, 1),
        {"event": "tool", "id": f"c{number}", "completed": "2026-01-31T12:00:02+00:00"},
        {"event": "state", "changes": []},
        model_event(messages[:4], messages[4], answer_usage, 3),
        {"event": "span_end", "id": "x"},
        {"event": "span_begin", "id": "y", "name": "grader", "type": "scorer"},
        model_event(
            [{"role": "user", "content": "Is it right?"}],
            {"role": "assistant", "content": "GRADE: C"},
            {"input_tokens": 7, "output_tokens": 1, "total_tokens": 8},
            4,
            span_id="y",
        ),
        {"event": "score", "score": {"value": "C"}},
    ]
    sample = {
        "id": number,
        "epoch": 1,
        "input": f"Door {number}?",
        "target": "Jill",
        "messages": messages,
        "events": events,
        "scores": {
            "grader": {
                "value": "C",
                "answer": "Jill",
                "explanation": "It is right.",
                "metadata": {"strict": True},
            }
        },
        "attachments": {"aa": "You watch doors."},
        "uuid": f"sample-run-{number}",
    }
    return {**sample, **changes}


def model_event(
    given: list[Record], answer: Record, usage: Record, second: int, **members: Any
) -> Record:
    """Return an event of a model call."""
    return {
        "event": "model",
        "model": "openai/gpt-tea",
        "input": given,
        "output": {
            "model": "gpt-tea-1",
            "choices": [{"message": answer, "stop_reason": "stop"}],
            "usage": usage,
        },
        "completed": f"2026-01-31T12:00:0{second}+00:00",
        **members,
    }


def inspect_log(*samples: Record) -> Record:
    """Return a log of version 2."""
    spec = {"eval_id": "e-1", "run_id": "r-1", "task": "doors", "packages": {"inspect_ai": "0.3"}}
    return {
        "version": 2,
        "status": "success",
        "eval": spec,
        "samples": list(samples or [inspect_sample()]),
    }


def inspect_archive(
    samples: Mapping[str, Record], *, method: int = zipfile.ZIP_DEFLATED, has_header: bool = True
) -> bytes:
    """Return an `.eval` file with these samples, by the names of their members."""
    header = {name: value for name, value in inspect_log().items() if name != "samples"}
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr("_journal/start.json", json.dumps({"version": 2, "eval": header["eval"]}))
        for name, sample in samples.items():
            archive.writestr(f"samples/{name}.json", json.dumps(sample))
        archive.writestr("summaries.json", "[]")
        if has_header:
            archive.writestr("header.json", json.dumps(header))
    return out.getvalue()


def swe_agent(**changes: Any) -> Record:
    """Return a trajectory whose history lacks the last step."""
    calls = [{"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}]
    document = {
        "environment": "main",
        "trajectory": [
            {"action": "ls", "observation": "door.py", "response": "I look.", "state": {}},
            {
                "action": "submit",
                "observation": "bye",
                "response": "I submit.",
                "state": '{"working_dir": "/cafe"}',
            },
        ],
        "history": [
            {"role": "system", "content": "You repair doors.", "agent": "main"},
            {"role": "user", "content": "A demo.", "agent": "main", "is_demo": True},
            {"role": "user", "content": "The door is stuck.", "agent": "main"},
            {"role": "assistant", "content": "I look.", "agent": "main", "tool_calls": calls},
            {"role": "tool", "content": "door.py", "agent": "main", "tool_call_ids": ["call_1"]},
        ],
        "info": {
            "exit_status": "submitted",
            "model_stats": {"instance_cost": 0.5, "tokens_sent": 70, "tokens_received": 9},
        },
        "replay_config": json.dumps({"agent": {"model": {"name": "gpt-tea"}}}),
    }
    return {**document, **changes}


def mini_swe_agent() -> Record:
    """Return a trajectory of the newer form."""
    response = {"id": "chatcmpl-1", "model": "tea-1", "usage": {"prompt_tokens": 8}}
    extra = {"response": response, "cost": 0.25, "timestamp": 1769860800.5}
    return {
        "info": {
            "exit_status": "Submitted",
            "mini_version": "2.0",
            "model_stats": {"instance_cost": 0.25, "api_calls": 1},
        },
        "messages": [
            {"role": "system", "content": "You repair doors."},
            {"role": "user", "content": "The door is stuck."},
            {"role": "assistant", "content": "I push.", "extra": extra},
            {"role": "user", "content": "It is open."},
            {"role": "exit", "content": "", "extra": {}},
        ],
        "instance_id": "door-1",
        "trajectory_format": "mini-swe-agent-1.1",
    }


def tau_simulation(number: Any = 1, **changes: Any) -> Record:
    """Return a simulation in which the agent and the user call tools."""
    day = "2026-01-31T12:00"
    look = {"id": "c1", "name": "look", "arguments": {"at": "door"}, "requestor": "assistant"}
    push = {"id": "c2", "name": "push", "arguments": {}, "requestor": "user"}
    usage = {"prompt_tokens": 20, "completion_tokens": 3}
    messages = [
        {"role": "assistant", "content": "Hello.", "timestamp": f"{day}:00.5"},
        {
            "role": "user",
            "content": f"The door {number} is stuck.",
            "cost": 0.1,
            "usage": usage,
            "timestamp": f"{day}:01",
        },
        {"role": "assistant", "content": None, "tool_calls": [look], "cost": 0.2, "usage": usage},
        {"role": "tool", "id": "c1", "content": "stuck", "requestor": "assistant", "error": True},
        {"role": "assistant", "content": "Push it.", "cost": 0.3, "usage": usage},
        {"role": "user", "content": None, "tool_calls": [push], "usage": usage},
        {"role": "tool", "id": "c2", "content": "open", "requestor": "user"},
        {"role": "user", "content": "###STOP###", "usage": usage},
    ]
    simulation = {
        "id": f"sim-{number}",
        "task_id": str(number),
        "trial": 0,
        "seed": 7,
        "end_time": f"{day}:09",
        "termination_reason": "user_stop",
        "reward_info": {"reward": 1.0, "reward_breakdown": {"DB": 1.0}, "db_check": {"met": True}},
        "messages": messages,
    }
    return {**simulation, **changes}


def tau_results(*simulations: Record) -> Record:
    """Return the results of tau2-bench."""
    info = {
        "git_commit": "abc",
        "agent_info": {"llm": "agent-model"},
        "user_info": {"llm": "user-model"},
    }
    return {
        "timestamp": "2026-01-31T12:01:00",
        "info": info,
        "tasks": [],
        "simulations": list(simulations or [tau_simulation()]),
    }


def chatdev_log() -> str:
    """Return a log of two phases between three roles."""

    def at(second: int, text: str) -> str:
        return f"[2026-31-01 12:00:{second:02} INFO] {text}\n\n"

    def table(kind: str, assistant: str, user: str, phase: str) -> str:
        rows = {
            "assistant_role_name": assistant,
            "user_role_name": user,
            "phase_name": phase,
            "model_type": "ModelType.TEA",
        }
        return f"System: **[{kind}]**\n\n" + "".join(
            f"| **{name}** | {value} |\n" for name, value in rows.items()
        )

    usage = "**[OpenAI_Usage_Info Receive]**\nprompt_tokens: 30\ncompletion_tokens: 4\n"
    started = "**[Preprocessing]**\n\n**ChatDev Starts** (20260131120000)\n\n"
    return "".join(
        [
            at(0, f"{started}**task_prompt**: A cafe.\n\n**project_name**: Cafe\n"),
            at(1, table("RolePlaying", "Cook", "Boss", "Menu")),
            at(2, "Boss: **[Start Chat]**\n\n[You are the cook.]\n\nWhich tea?"),
            at(3, usage),
            at(4, "Cook: **Cook<->Boss on : Menu, turn 0**\n\n[You are the boss.]\n\nGreen."),
            at(5, "**[Seminar Conclusion]**:\n\n Green."),
            at(6, table("RolePlaying", "Waiter", "Cook", "Serving")),
            at(7, "Cook: **[Start Chat]**\n\n[You are the waiter.]\n\nServe it."),
            at(8, usage),
            at(9, "Waiter: **Waiter<->Cook on : Serving, turn 0**\n\n[You are the cook.]\n\nDone."),
            at(10, "flask app.py did not start for online log"),
        ]
    )


def encode(record: object) -> bytes:
    """Return a document as its program writes it."""
    return json.dumps(record, indent=4).encode()


SAMPLES: dict[str, tuple[str, bytes]] = {
    "who-and-when-v1": ("1.json", encode(who_and_when())),
    "inspect-ai-v2": ("doors.json", encode(inspect_log())),
    "swe-agent-v1": ("door.traj", encode(swe_agent())),
    "mini-swe-agent-v1": ("door.traj.json", encode(mini_swe_agent())),
    "tau-bench-v2": ("results.json", encode(tau_results())),
    "chatdev-v1": ("Cafe.log", chatdev_log().encode()),
}
"""Format -> the name and the bytes of a file."""
