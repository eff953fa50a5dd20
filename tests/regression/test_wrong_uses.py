"""Wrong uses of the Python API fail where they are made.

39 wrong uses were tried from outside: 10 passed in silence and 6 gave a misleading error, because
constructors took any value and the mistake showed much later, or never. Now public functions check
their arguments. Each row here is a mistake; its error names what was given and what is possible.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from harken.agents.runtime import ActionPolicy, AgentLibrary, ContextLimits
from tests.wrong_uses_kit import (
    H,
    Stage,
    WrongUse,
    ask,
    check_error,
    harken_unawaited,
    hook_class,
    ok,
    weather,
)

NAMES: dict[str, WrongUse] = {
    "a misspelt point": (
        lambda _: type("Picky", (H.Hook,), {"points": frozenset({"actions"}), "judge": ok}),
        ValueError,
        "'actions' is not .* did you mean 'action'.*input, response, result",
    ),
    "points as a str": (
        lambda _: type("Picky", (H.Hook,), {"points": "action", "judge": ok}),
        TypeError,
        "points must be a set of str, not 'action'",
    ),
    "a durability that does not exist": (
        lambda _: H.SessionOptions(durability="fast"),
        ValueError,
        "durability must be 'turn', 'always' or 'none', not 'fast'",
    ),
    "a misspelt durability": (
        lambda _: H.SessionOptions(durability="allways"),
        ValueError,
        "did you mean 'always'",
    ),
    "a misspelt action": (
        lambda _: H.AgentRuntime(policy=ActionPolicy(actions=("taks",))),
        ValueError,
        "'taks' is not an action of agents; did you mean 'task'.*discuss",
    ),
    "a misspelt permission mode": (
        lambda _: H.Permissions(mode="edit"),
        ValueError,
        "mode must be .*'edits'.* did you mean 'edits'",
    ),
    "a misspelt protocol": (
        lambda _: H.Provider(name="x", base_url="http://localhost", protocol="openia"),
        ValueError,
        "did you mean 'openai'",
    ),
    "a misspelt provider": (
        lambda _: H.resolve_model("antropic/claude"),
        H.ConfigError,
        "provider 'antropic' not found; did you mean 'anthropic'",
    ),
    "a model without its provider": (
        lambda _: H.AgentRuntime(model="claude-opus"),
        H.ConfigError,
        "model 'claude-opus' not found; a model is .*PROVIDER/MODEL",
    ),
    "a misspelt type of a draft": (
        lambda _: H.CommitDraft(type="detla"),
        ValueError,
        "type must be .* did you mean 'delta'",
    ),
    "a misspelt point of a question": (
        lambda _: H.HookQuestion("inptu", "main", "msg_001", "Hi"),
        ValueError,
        "did you mean 'input'",
    ),
    "a kind name that is taken": (
        lambda _: H.register_agent_class("smart")(type("Other", (H.Hook,), {})),
        ValueError,
        "registered as smart: choose another name",
    ),
    "two tools of one name": (
        lambda _: H.LocalWorld([weather, H.tool(weather)]),
        ValueError,
        "two tools are named weather",
    ),
    "a tool named as an action": (
        lambda _: H.AgentRuntime(world=H.LocalWorld([H.tool(name="task")(weather)])),
        H.ConfigError,
        "cannot be named task",
    ),
    "a tool name that providers refuse": (
        lambda _: H.tool(name="the weather")(weather),
        TypeError,
        "'the weather' is not a name",
    ),
    "an unknown agent": (
        lambda s: s.root.subagents["Ann"],
        H.NameNotFound,
        "subagent 'Ann' not found",
    ),
    "an unknown agent of a view": (
        lambda s: H.SessionViewer(s.load()[1].path).extract_agent_perspective("Ann"),
        H.NameNotFound,
        "'Ann'.*main",
    ),
    "a hook without that option": (
        lambda s: hook_class("optional", judge=ok)(s.load()[1], options={"every": 3}),
        H.ConfigError,
        "option 'every' not found",
    ),
    "a rule that is none": (
        lambda _: H.PermissionRules.parse(deny=["bash("]),
        H.ConfigError,
        "'bash\\(' is not a rule",
    ),
}

TYPES: dict[str, WrongUse] = {
    "an integer as input": (
        lambda s: ask(s.root, 3),
        TypeError,
        "the input of main must be a str, not 3 \\(int\\)",
    ),
    "bytes as input": (lambda s: ask(s.root, b"Hi"), TypeError, "must be a str, not b'Hi'"),
    "an integer heard": (lambda s: s.root.harken(3), TypeError, "must be a str, not 3"),
    "None heard": (lambda s: s.root.harken(None), TypeError, "must be a str, not None"),
    "a Path heard": (lambda s: s.root.harken(Path("x")), TypeError, "must be a str"),
    "a coroutine heard": (
        lambda s: harken_unawaited(s.root),
        TypeError,
        "a coroutine of response that was not awaited",
    ),
    "an integer said to a conversation": (
        lambda s: asyncio.run(H.Conversation(s.root).say(3)),
        TypeError,
        "must be a str, not 3",
    ),
    "a message dict as input": (
        lambda s: ask(s.root, {"role": "user", "content": "Hi"}),
        TypeError,
        "must be a str, not {'role'",
    ),
    "text informed of by name": (
        lambda s: s.root.inform("Ann", "Hi"),
        TypeError,
        "dst must be an Agent, not 'Ann'",
    ),
    "an integer as model": (
        lambda _: H.AgentRuntime(model=3),
        TypeError,
        "model must be Model .*str or None, not 3",
    ),
    "a class as model": (
        lambda _: H.AgentRuntime(model=H.ScriptedModel),
        TypeError,
        "the class ScriptedModel; pass an instance",
    ),
    "a function as model": (
        lambda _: H.AgentRuntime(model=weather),
        TypeError,
        "model must be Model .*not the function weather",
    ),
    "a list of tools as world": (
        lambda _: H.AgentRuntime(world=[weather]),
        TypeError,
        "world must be World, not",
    ),
    "one action as a str": (
        lambda _: H.AgentRuntime(policy=ActionPolicy(actions="task")),
        TypeError,
        "actions must be Collection of str, not 'task' \\(str\\); pass \\['task'\\]",
    ),
    "a share that is a str": (
        lambda _: H.AgentRuntime(limits=ContextLimits(compact_at="0.8")),  # type: ignore[arg-type]
        TypeError,
        "compact_at must be float or None, not '0.8'",
    ),
    "a share above 1": (
        lambda _: H.AgentRuntime(limits=ContextLimits(compact_at=80)),
        H.ConfigError,
        "not 80",
    ),
    "a store as checkpoints": (
        lambda _: H.AgentRuntime(checkpoints=H.MemoryStore()),
        TypeError,
        "checkpoints must be Checkpointer or None",
    ),
    "an instance as kind": (
        lambda _: H.AgentRuntime(library=AgentLibrary(kinds={"x": 3})),  # type: ignore[dict-item]
        TypeError,
        "kinds\\['x'\\] must be type, not 3",
    ),
    "a clock that is a number": (
        lambda _: H.SessionOptions(clock=0),
        TypeError,
        "clock must be callable, not 0",
    ),
    "a count that is True": (
        lambda _: H.SessionOptions(in_memory=True),
        TypeError,
        "in_memory must be int or None, not True",
    ),
    "no session file": (lambda _: H.load_session(None), TypeError, "session_file must be .*None"),
    "an open file as session file": (
        lambda _: H.load_session(sys.stdin),
        TypeError,
        "session_file must be str or Path",
    ),
    "a session as session file": (
        lambda s: H.load_session(s.load()[1]),
        TypeError,
        "session_file must be str or Path, not a value of type Session",
    ),
    "a dict as options": (
        lambda s: s.load(options={"durability": "none"}),
        TypeError,
        "options must be SessionOptions or None, not {'durability'",
    ),
    "an integer as budget": (
        lambda s: s.load(budget=1000),
        TypeError,
        "budget must be Budget or None, not 1000",
    ),
    "a system prompt of bytes": (
        lambda s: s.load(system_prompt=b"You are Ann."),
        TypeError,
        "system_prompt must be str or None",
    ),
    "a runtime as model": (
        lambda s: s.load(model=H.AgentRuntime()),
        TypeError,
        "model must be Model .*not a value of type AgentRuntime",
    ),
    "a budget of text": (
        lambda _: H.Budget(tokens="1000"),
        TypeError,
        "tokens must be int or None, not '1000'",
    ),
    "a budget below 0": (lambda _: H.Budget(tokens=-1), ValueError, "0 or more, not -1"),
    "a path as session of an agent": (
        lambda _: H.SmartAgent("tea.jsonl"),
        TypeError,
        "SmartAgent: session must be Session, not 'tea.jsonl'",
    ),
    "tools of an agent as functions": (
        lambda s: H.SmartAgent(s.load()[1], tools=[weather]),
        TypeError,
        "tools\\[0\\] must be str, not the function weather",
    ),
    "a generator of tool names": (
        lambda s: H.SmartAgent(s.load()[1], tools=(name for name in ["weather"])),
        TypeError,
        "tools must be Sequence of str.* pass list\\(...\\)",
    ),
    "a conversation with a session": (
        lambda s: H.Conversation(s.load()[1]),
        TypeError,
        "agent must be Agent, not a value of type Session",
    ),
    "a world of one function": (
        lambda _: H.LocalWorld(weather),
        TypeError,
        "tools must be Iterable of Tool or callable, not the function weather",
    ),
    "a world of names": (
        lambda _: H.LocalWorld(["weather"]),
        TypeError,
        "tools\\[0\\] must be Tool or callable, not 'weather'",
    ),
    "a world of a class": (lambda _: H.LocalWorld([dict]), TypeError, "needs a function, not"),
    "a number as folder": (lambda _: H.LocalWorld(folder=3), TypeError, "folder must be str, Path"),
    "a local world without that limit": (
        lambda s: H.local_world(s.folder, hidden=["X"]),
        TypeError,
        "no argument 'hidden'; did you mean 'hide'",
    ),
    "rules of texts": (
        lambda _: H.PermissionRules(deny=["bash(git push*)"]),
        TypeError,
        "deny\\[0\\] must be PermissionRule, not 'bash\\(git push\\*\\)'",
    ),
    "a list as rules": (
        lambda _: H.Permissions(rules=["bash"]),
        TypeError,
        "rules must be PermissionRules, not \\['bash'\\]",
    ),
    "a comment that is no text": (lambda _: H.Comment(3), TypeError, "text must be str, not 3"),
    "a denial without a reason": (lambda _: H.Deny(None), TypeError, "reason must be str"),
    "arguments rewritten as a dict": (
        lambda _: H.Rewrite({"hotel": "Lake View"}),
        TypeError,
        "text must be str, not {'hotel'",
    ),
    "a rule of a script that is a text": (
        lambda _: H.ScriptedModel(["Hi"]),
        TypeError,
        "rules\\[0\\] must be .*not 'Hi'",
    ),
    "a script that is a path": (
        lambda _: H.ScriptedModel("trip.yaml"),
        TypeError,
        "rules must be .*not 'trip.yaml'",
    ),
    "a function model of a text": (
        lambda _: H.FunctionModel("Hi"),
        TypeError,
        "function must be callable, not 'Hi'",
    ),
    "a number as model name": (lambda _: H.resolve_model(3), TypeError, "name must be str"),
    "a key of bytes": (
        lambda _: H.Provider(name="x", base_url="http://localhost", api_key=b"sk-secret"),
        TypeError,
        "^(?!.*secret).*api_key must be str or None, not a value of type bytes",
    ),
    "a store path as store": (
        lambda _: H.Checkpointer(store="store.db"),
        TypeError,
        "store must be Store.*not 'store.db'",
    ),
    "a checkpoint every 0 turns": (
        lambda _: H.Checkpointer(store=H.MemoryStore(), turns_per_commit=0),
        ValueError,
        "every 1 or more turns, not 0",
    ),
    "messages as a draft": (
        lambda _: H.checkpoint(H.MemoryStore(), [H.Message("user", "Hi")]),
        TypeError,
        "draft must be CommitDraft, not \\[",
    ),
    "labels as a str": (
        lambda _: H.CommitDraft(labels="new"),
        TypeError,
        "labels must be tuple of str",
    ),
    "an origin as a str": (
        lambda _: H.CommitDraft(origin="me"),
        TypeError,
        "origin must be CommitOrigin",
    ),
    "a store that is no store": (
        lambda _: H.commit_history("store.db", "ctx-1"),
        TypeError,
        "store must be Store",
    ),
    "a number as store path": (lambda _: H.SqliteStore(3), TypeError, "path must be str or Path"),
    "stores in wrong order": (
        lambda s: H.TieredStore(H.MemoryStore(), H.SqliteStore(s.folder / "s.db")),
        TypeError,
        "local must be SqliteStore",
    ),
    "one folder of templates": (
        lambda _: H.Templates("templates"),
        TypeError,
        "folders must be Sequence of Path, not 'templates'",
    ),
    "folders of skills as str": (
        lambda _: H.Skills(["skills"]),
        TypeError,
        "folders\\[0\\] must be Path, not 'skills' \\(str\\); pass Path\\('skills'\\)",
    ),
    "a recorder's durability": (
        lambda _: H.RecorderOptions(durability="sometimes"),
        ValueError,
        "durability must be 'turn', 'always' or 'none'",
    ),
    "a viewer of a session": (
        lambda s: H.SessionViewer(s.load()[1]),
        TypeError,
        "session_file must be str or Path",
    ),
    "a client that cannot be wrapped": (
        lambda _: H.wrap_client("client", print),
        TypeError,
        "str cannot be wrapped: give one of openai, anthropic or httpx",
    ),
}

WRONG_USES = {**NAMES, **TYPES}


@pytest.mark.parametrize("mistake", WRONG_USES)
def test_a_wrong_use_is_an_error_where_it_is_made(tmp_path: Path, mistake: str) -> None:
    check_error(Stage(tmp_path), WRONG_USES[mistake])
