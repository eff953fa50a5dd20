"""What agents understood is in the store while they work, each in its own chain."""

from pathlib import Path
from typing import Any

import pytest

from harken import AgentRuntime, DumbAgent, LocalWorld, register_agent_class, tool
from harken.agents.agent import log_birth
from harken.agents.checkpointer import Checkpointer
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.load import load_session, start_from_commit
from harken.agents.runtime import Observers
from harken.agents.tree.moves import endo
from harken.agents.turn.conversation import Conversation
from harken.context.checkpoint import CommitIdentity
from harken.context.history import get_commit
from harken.context.materialize import make_resolver, materialize
from harken.core.commits import CommitId
from harken.core.events import Segment, TranscriptEdited
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.errors import InvalidEvent, ModelError
from harken.session.session import SessionOptions
from harken.store.base import StoredCommit, WriteBatch
from harken.store.memory import MemoryStore
from harken.testing import ticking
from tests.agent_kit import (
    ScriptModel,
    Stage,
    call,
    call_message,
    check_log,
    open_stage,
    request_texts,
    run,
    script_model,
)


@pytest.fixture
def store() -> MemoryStore:
    """An empty store."""
    return MemoryStore()


@tool
def look() -> str:
    """Look around."""
    return "a room"


def options(store: MemoryStore) -> SessionOptions:
    return SessionOptions(durability="none", clock=ticking(), resolver=make_resolver(store))


def begin(folder: Path, model: ScriptModel, store: MemoryStore, **how: Any) -> Stage:
    """Begin a session whose agents have checkpoints, and one tool."""
    on_notice = how.pop("on_notice", None)
    checkpoints = Checkpointer(store=store, **how)
    runtime = AgentRuntime(
        model=model,
        world=LocalWorld([look]),
        checkpoints=checkpoints,
        observers=Observers(on_notice=on_notice),
    )
    return open_stage(folder, model, runtime=runtime, options=options(store))


def resume(stage: Stage, store: MemoryStore, model: ScriptModel | None = None) -> Stage:
    stage.session.close()
    root, session = load_session(
        stage.log, runtime=stage.runtime, options=options(store), model=model
    )
    return Stage(root, session, stage.runtime)


def chain(store: MemoryStore, stage: Stage, name: str = "main") -> list[StoredCommit]:
    """The commits of an agent, oldest first, as the store has them."""
    ctx = stage.session.agents[AgentId(stage.id_of(name))].commit_id
    assert ctx is not None
    return store.chain(CommitId(ctx))[::-1]


def shape(commits: list[StoredCommit]) -> list[tuple[str, str, int]]:
    return [(c.commit.type, c.commit.checkpoint, c.commit.message_count) for c in commits]


def context(stage: Stage, name: str = "main") -> list[tuple[str, str]]:
    return plain(stage.session.context(stage.id_of(name)))


def plain(messages: Any) -> list[tuple[str, str]]:
    return [(message.role, text_of(message.content)) for message in messages]


def kept(store: MemoryStore, stage: Stage, name: str = "main", stop: str = "compaction") -> Any:
    """What the last commit of an agent materializes to."""
    return plain(materialize(store, chain(store, stage, name)[-1].id, stop).messages)


@pytest.mark.req("S2-28", "S2-29", "S2-01")
def test_there_is_a_commit_before_tools_act_and_one_with_results_and_answer(
    tmp_path: Path, store: MemoryStore
) -> None:
    seen: list[int] = []

    @tool
    def peek() -> str:
        """Look at the store."""
        seen.append(len(store.names_with_prefix("ctx-")))
        return "seen"

    model = script_model(main=[call_message(call("peek")), "done"])
    checkpoints = Checkpointer(store=store)
    runtime = AgentRuntime(model=model, world=LocalWorld([peek]), checkpoints=checkpoints)
    scene = open_stage(tmp_path, model, runtime=runtime)
    scene.ask("go")
    assert seen == [1]
    commits = chain(store, scene)
    assert shape(commits) == [("delta", "turn_boundary", 3), ("delta", "turn_boundary", 2)]
    assert kept(store, scene) == context(scene)
    assert commits[-1].notes.summary == "done"
    check_log(scene.log)


@pytest.mark.req("S2-28")
def test_the_store_has_a_commit_before_the_log_says_so(tmp_path: Path, store: MemoryStore) -> None:
    scene = begin(tmp_path, script_model(main=["hello", "again"]), store)
    known: list[bool] = []
    scene.session.add_listener(
        lambda event: (
            known.append(CommitId(getattr(event, "ctx", "")) in store.commits(store_ids(store)))
            if type(event).__name__ == "ContextCommitted"
            else None
        )
    )
    scene.ask("hi")
    scene.ask("and?")
    assert known == [True, True]
    logged = scene.select_lines(event_type="context_committed")
    assert [row["ctx"] for row in logged] == [one.id for one in chain(store, scene)]
    assert logged[1]["parent_ctx"] == logged[0]["ctx"]
    assert logged[1]["checkpoint"] == "turn_boundary"
    [answer] = scene.select_lines(role="assistant", content="again")
    assert logged[1]["upto"] == answer["message_id"]


def store_ids(store: MemoryStore) -> list[CommitId]:
    return [CommitId(name) for name in store.names_with_prefix("ctx-")]


@pytest.mark.req("S2-28", "S2-29")
def test_results_have_a_commit_of_their_own_where_that_is_asked_for(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(
        tmp_path, script_model(main=[call_message(call("look")), "done"]), store, results=True
    )
    scene.ask("go")
    assert shape(chain(store, scene)) == [
        ("delta", "turn_boundary", 3),
        ("delta", "tool_call", 1),
        ("delta", "turn_boundary", 1),
    ]


@pytest.mark.req("S2-29", "S2-28")
def test_fewer_checkpoints_lose_nothing_by_the_end(tmp_path: Path, store: MemoryStore) -> None:
    for every, expected in ((2, [5, 4, 2]), (None, [11])):
        folder = tmp_path / str(every)
        folder.mkdir()
        scene = begin(folder, script_model(main=list("abcde")), store, turns_per_commit=every)
        for text in "12345":
            scene.ask(text)
        checkpoints = scene.runtime.checkpoints
        assert checkpoints is not None
        checkpoints.finish(scene.session, pytest.fail)
        commits = chain(store, scene)
        assert [one.commit.message_count for one in commits] == expected
        assert commits[-1].commit.checkpoint == "session_end"
        assert kept(store, scene) == context(scene)
        checkpoints.finish(scene.session, pytest.fail)
        assert chain(store, scene) == commits
    with pytest.raises(ValueError, match="every 1 or more"):
        Checkpointer(store=store, turns_per_commit=0)


@pytest.mark.req("S2-28")
def test_an_agent_or_operator_may_ask_for_a_commit(tmp_path: Path, store: MemoryStore) -> None:
    scene = begin(tmp_path, script_model(main=["hello"]), store, turns_per_commit=None)
    assert checkpoint_agent(scene.root) is None
    scene.ask("hi")
    ctx = checkpoint_agent(scene.root, summary="greeted")
    assert ctx is not None
    stored = get_commit(store, ctx)
    assert (stored.commit.checkpoint, stored.notes.summary) == ("explicit", "greeted")
    assert checkpoint_agent(scene.root) == ctx
    bare = open_stage(tmp_path_in(tmp_path), script_model(main=["hello"]))
    assert checkpoint_agent(bare.root) is None


def tmp_path_in(folder: Path) -> Path:
    inner = folder / "inner"
    inner.mkdir()
    return inner


@pytest.mark.req("S2-24", "D-03")
def test_a_subagent_begins_with_a_snapshot_whose_parent_is_the_commit_that_spawned_it(
    tmp_path: Path, store: MemoryStore
) -> None:
    task = call("task", name="helper", instructions="You help.", prompt="do it")
    model = script_model(
        main=[call_message(task), "all done"], helper=[call_message(call("look")), "did it"]
    )
    scene = begin(tmp_path, model, store, identity=CommitIdentity(principal="ann"))
    scene.ask("go")
    mine, helpers = chain(store, scene), chain(store, scene, "helper")
    assert helpers[0] == mine[0]
    assert shape(helpers[1:]) == [
        ("snapshot", "spawn", 2),
        ("delta", "turn_boundary", 1),
        ("delta", "turn_boundary", 2),
    ]
    assert kept(store, scene, "helper") == context(scene, "helper")
    assert kept(store, scene, "helper", "root") == context(scene, "helper")
    assert kept(store, scene) == context(scene)
    assert mine[0].commit.principal == "ann"
    assert helpers[-1].commit.principal == "ann/helper"


def test_a_subagent_that_took_a_place_before_it_said_a_thing_begins_with_its_own_words(
    tmp_path: Path, store: MemoryStore
) -> None:
    task = call("task", name="helper", instructions="You help.")
    model = script_model(main=[call_message(task), "It is there."], helper=["I have it."])
    scene = begin(tmp_path, model, store)
    scene.ask("a secret")
    endo(scene.root, scene.root.subagents["helper"], scene.root.state.birth, points=())
    assert run(Conversation(scene.root).say("go on")) == "I have it."
    assert "secret" not in str(kept(store, scene, "helper"))
    assert kept(store, scene, "helper") == context(scene, "helper")


@pytest.mark.req("S2-24", "S2-29")
def test_a_spawn_commits_its_parent_first_however_rare_checkpoints_are(
    tmp_path: Path, store: MemoryStore
) -> None:
    task = call("task", name="helper", prompt="do it")
    later = call("discuss", "c2", prompt="and?")
    model = script_model(
        main=[call_message(task), call_message(later), "done"], helper=["did it", "that too"]
    )
    scene = begin(tmp_path, model, store, turns_per_commit=None)
    scene.ask("go")
    assert shape(chain(store, scene)) == [("delta", "spawn", 3)]
    checkpoints = scene.runtime.checkpoints
    assert checkpoints is not None
    checkpoints.finish(scene.session, pytest.fail)
    helpers = chain(store, scene, "helper")
    assert [one.id for one in helpers[:1]] == [chain(store, scene)[0].id]
    assert shape(helpers[1:]) == [("snapshot", "spawn", 1), ("delta", "session_end", 3)]


@pytest.mark.req("S2-28", "D-03")
def test_after_a_crash_checkpoints_go_on_from_what_the_log_knows(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one", ModelError("down")]), store)
    scene.ask("first")
    with pytest.raises(ModelError):
        scene.ask("second")
    before = chain(store, scene)
    again = resume(scene, store, script_model(main=["one", "two"]))
    ended = chain(store, again)
    assert ended[: len(before)] == before
    assert shape(ended[len(before) :]) == [("delta", "session_end", 1)]
    again.ask()
    assert shape(chain(store, again)[-1:]) == [("delta", "turn_boundary", 1)]
    assert kept(store, again) == context(again)


@pytest.mark.req("S2-28")
def test_where_the_log_missed_a_commit_it_is_merely_made_again(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one", "two"]), store)
    scene.ask("first")
    made = len(store.names_with_prefix("ctx-"))
    log = scene.log.read_bytes().splitlines(keepends=True)
    assert b"context_committed" in log[-1]
    scene.session.close()
    scene.log.write_bytes(b"".join(log[:-1]))
    again = resume(scene, store)
    assert [one.commit.checkpoint for one in chain(store, again)] == ["session_end"]
    assert len(store.names_with_prefix("ctx-")) == made + 1
    assert kept(store, again) == context(again)


@pytest.mark.req("S2-25")
def test_an_edited_context_is_committed_with_what_was_pending_before(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(
        tmp_path, script_model(main=["one", "two", "three"]), store, turns_per_commit=None
    )
    scene.ask("first")
    checkpoint_agent(scene.root)
    scene.ask("second")
    compacted(scene, "in short")
    scene.root.harken("third")
    checkpoint_agent(scene.root)
    commits = chain(store, scene)
    assert shape(commits[1:]) == [
        ("delta", "compaction", 2),
        ("compaction", "compaction", 2),
        ("delta", "explicit", 1),
    ]
    assert commits[2].notes.summary == "in short"
    assert kept(store, scene) == context(scene)
    full = [text for _, text in kept(store, scene, stop="root")]
    assert full == ["You are main.", "first", "one", "second", "two", "third"]
    assert checkpoint_agent(scene.root) == commits[-1].id


def compacted(scene: Stage, summary: str) -> None:
    """Replace all but the system prompt by a summary, as a compaction does."""
    agent = scene.root.agent_id
    id_ = scene.session.log_transcript_entry(agent, {"role": "user", "content": summary})
    segments = [Segment(start=0, stop=1), Segment(entries=[id_])]
    edit = TranscriptEdited(agent_id=agent, segments=segments, summary=id_, reason="compaction")
    scene.session.append(edit)


@pytest.mark.req("D-05")
def test_a_checkpoint_of_a_long_session_writes_what_is_new_alone(tmp_path: Path) -> None:
    written: list[int] = []

    class Counting(MemoryStore):
        def write(self, batch: WriteBatch) -> None:
            super().write(batch)
            written.append(sum(map(len, batch.deltas.values())))

        def chain(self, name: CommitId, depth: int | None = None) -> list[StoredCommit]:
            raise AssertionError("a checkpoint reads no history")

    scene = begin(tmp_path, script_model(main=[str(at) for at in range(50)]), Counting())
    for at in range(50):
        scene.ask(str(at))
    assert written == [3, *[2] * 49]


@pytest.mark.req("S2-22", "S2-23", "S2-13")
def test_the_first_request_holds_the_commit_and_the_first_commit_has_it_as_parent(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one"]), store)
    scene.ask("first")
    ctx = chain(store, scene)[-1].id
    model = script_model(main=["-", "two"])
    fork = started(tmp_path / "fork", model, store, ctx)
    assert fork.ask("second") == "two"
    assert request_texts(model.requests[0]) == ["You are main.", "first", "one", "second"]
    commits = chain(store, fork)
    assert commits[-1].commit.parent == ctx
    assert shape(commits[-1:]) == [("delta", "turn_boundary", 2)]
    assert kept(store, fork) == context(fork)
    resumed = resume(fork, store)
    assert context(resumed) == context(fork)
    assert chain(store, resumed) == commits


def started(
    folder: Path, model: ScriptModel, store: MemoryStore, ctx: str, prompt: str | None = None
) -> Stage:
    """Begin a session from a commit, with a system prompt of its own or without."""
    folder.mkdir()
    runtime = AgentRuntime(
        model=model, world=LocalWorld([look]), checkpoints=Checkpointer(store=store)
    )
    scene = open_stage(folder, model, runtime=runtime, options=options(store), system_prompt=prompt)
    start_from_commit(scene.root, ctx)
    return scene


@pytest.mark.req("S2-22", "S2-23")
def test_any_template_starts_from_any_commit_with_its_own_system_prompt(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one"]), store)
    scene.ask("first")
    ctx = chain(store, scene)[-1].id
    model = script_model(main=["-", "two"])
    other = started(tmp_path / "other", model, store, ctx, "You review.")
    other.ask("second")
    assert request_texts(model.requests[0]) == ["You review.", "first", "one", "second"]
    assert kept(store, other) == context(other)
    full = [text for _, text in kept(store, other, stop="root")]
    assert full == ["You are main.", "first", "one", "You review.", "second", "two"]
    assert ctx in [one.id for one in chain(store, other)]


@pytest.mark.req("S2-08", "D-03")
def test_two_forks_of_one_commit_never_hear_each_other(tmp_path: Path, store: MemoryStore) -> None:
    scene = begin(tmp_path, script_model(main=["one", "two"]), store)
    scene.ask("first")
    ctx = chain(store, scene)[-1].id
    left = started(tmp_path / "left", script_model(main=["-", "left"]), store, ctx)
    right = started(tmp_path / "right", script_model(main=["-", "right"]), store, ctx)
    left.ask("to the left")
    right.ask("to the right")
    scene.ask("straight on")
    shared = ["You are main.", "first", "one"]
    for one, texts in (
        (left, ["to the left", "left"]),
        (right, ["to the right", "right"]),
        (scene, ["straight on", "two"]),
    ):
        assert [text for _, text in kept(store, one)] == [*shared, *texts]


@pytest.mark.req("S2-22", "S2-23")
def test_a_start_in_the_middle_of_a_turn_gives_its_calls_their_results(
    tmp_path: Path, store: MemoryStore
) -> None:
    model = script_model(main=[call_message(call("look"), call("look", "c2")), "done"])
    scene = begin(tmp_path, model, store)
    scene.ask("go")
    boundary = chain(store, scene)[0]
    for prompt in (None, "You review."):
        fork = started(tmp_path / f"fork{prompt}", model, store, boundary.id, prompt)
        assert fork.ask() == "done"
        results = fork.select_lines(role="tool")
        assert [row["tool_call_id"] for row in results] == ["c1", "c2"]
        assert kept(store, fork) == context(fork)
        check_context_kept(store, fork)


def check_context_kept(store: MemoryStore, scene: Stage) -> None:
    resumed = resume(scene, store)
    assert context(resumed) == context(scene)


@pytest.mark.req("S2-22")
def test_only_an_agent_that_has_heard_nothing_starts_from_a_commit(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["one"]), store)
    scene.ask("first")
    ctx = chain(store, scene)[-1].id
    with pytest.raises(ValueError, match="has already started"):
        start_from_commit(scene.root, ctx)
    inner = tmp_path_in(tmp_path)
    bare = open_stage(inner, script_model(main=["one"]), system_prompt=None)
    with pytest.raises(InvalidEvent, match="without a store"):
        start_from_commit(bare.root, ctx)


@pytest.mark.req("S2-02")
def test_the_template_of_a_subagent_is_in_its_commits(tmp_path: Path, store: MemoryStore) -> None:
    scene = begin(
        tmp_path,
        script_model(main=["one"]),
        store,
        identity=CommitIdentity(machine="m1", ticket_id="tkt-1"),
    )
    scene.ask("first")
    commit = chain(store, scene)[-1].commit
    assert (commit.machine, commit.ticket_id, commit.template) == ("m1", "tkt-1", "")
    assert commit.session_id == commit.principal == "s"


@register_agent_class("echo-of-checkpoints")
class Echo(DumbAgent):
    """Says what it heard."""

    async def answer(self, heard: str) -> str:
        return heard


@pytest.mark.req("S2-28", "S2-30")
def test_what_code_decides_is_committed_at_each_answer_too(
    tmp_path: Path, store: MemoryStore
) -> None:
    scene = begin(tmp_path, script_model(main=["-"]), store)
    echo = Echo(scene.session, runtime=scene.runtime)
    log_birth(echo, scene.root.state.birth, "echo", "subagent")
    run(echo.response("hi"))
    run(echo.response("ho"))
    assert shape(chain(store, scene, "echo")) == [
        ("snapshot", "spawn", 1),
        ("delta", "turn_boundary", 1),
        ("delta", "turn_boundary", 2),
    ]
