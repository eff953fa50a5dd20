"""A summary takes the place of what was said; nothing is lost, and nothing changes in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from harken import AgentRuntime, Budget, register_agent_class
from harken.agents import texts
from harken.agents.checkpoints import checkpoint_agent
from harken.agents.compaction_text import format_summary_message
from harken.agents.hooks.hook import Hook
from harken.agents.load import start_from_commit
from harken.agents.open_calls import has_open_calls
from harken.agents.runtime import ContextLimits
from harken.agents.turn.compaction import CompactionResult
from harken.core.messages import Message
from harken.core.stream import Finish, TextDelta
from harken.core.verdict import Comment, Deny, HookQuestion, Ok, Verdict
from harken.errors import AgentBusy, BudgetExceeded, ConfigError, ModelError
from harken.llm.base import ModelRequest
from tests.agent_kit import ScriptedAnswer, call, call_message, check_log, request_texts, run
from tests.unit.agents.compaction_kit import SUMMARY, WORDS, Scene, Talk, begin, said, shape, talk

STOOD = ("user", format_summary_message(SUMMARY, is_pending=False))
GOES_ON = ("user", format_summary_message(SUMMARY, is_pending=True))


def compacted(scene: Scene, instructions: str = "") -> CompactionResult | None:
    return run(scene.root.compact(instructions))


def inner(folder: Path) -> Path:
    (folder / "inner").mkdir()
    return folder / "inner"


@pytest.mark.req("S2-25", "D-03")
def test_when_asked_to_an_agent_goes_on_with_its_instructions_and_a_summary(
    tmp_path: Path,
) -> None:
    model = talk(main=["one", "two"])
    scene = begin(tmp_path, model)
    scene.ask("first")
    scene.ask("second")
    done = compacted(scene, "the colours")
    assert done is not None
    assert (str(done.summary), done.messages) == (SUMMARY, 4)
    assert scene.context() == [("system", "You are main."), STOOD]
    [asked] = model.requests_of("compaction")
    assert request_texts(asked)[:-1] == ["You are main.", "first", "one", "second", "two"]
    assert request_texts(asked)[-1].endswith("keep in particular:\nthe colours")
    assert shape(scene.commits())[2:] == [("compaction", "compaction", 2)]
    assert scene.commits()[-1].notes.summary == SUMMARY
    assert scene.kept() == scene.context()
    full = [text for _, text in scene.kept("root")]
    assert full == ["You are main.", "first", "one", "second", "two"]
    assert not has_open_calls(scene.root)
    assert scene.is_exact()
    check_log(scene.stage.log)


@pytest.mark.req("S2-25", "S2-28")
def test_what_is_pending_is_committed_before_the_summary(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", "two"]), every=None)
    scene.ask("first")
    compacted(scene)
    scene.ask("second")
    checkpoint_agent(scene.root)
    assert shape(scene.commits()) == [
        ("delta", "compaction", 3),
        ("compaction", "compaction", 2),
        ("delta", "explicit", 2),
    ]
    full = [text for _, text in scene.kept("root")]
    assert full == ["You are main.", "first", "one", "second", "two"]


@register_agent_class("listening-to-summaries")
class Listening(Hook):
    """Hears everything, and has nothing to say."""

    def begin(self) -> None:
        self.asked: list[str] = []

    def judge(self, question: HookQuestion) -> Ok:
        self.asked.append(question.text)
        return Ok()


@pytest.mark.req("S2-25")
def test_hooks_are_not_asked_about_a_summary_nor_about_who_made_it(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", "two"]))
    hook = Listening(scene.stage.session, runtime=scene.stage.runtime).install(scene.root)
    scene.ask("first")
    compacted(scene)
    scene.ask("second")
    assert hook.asked == ["first", "one", "second", "two"]


@pytest.mark.req("S2-25")
def test_who_sums_up_is_given_the_same_prompt_so_that_it_is_cached(tmp_path: Path) -> None:
    model = talk(main=["one"])
    scene = begin(tmp_path, model, parameters={"temperature": 0.5})
    scene.ask("first")
    compacted(scene)
    [mine], [its] = model.requests_of("main"), model.requests_of("compaction")
    assert (its.tools_hash, its.parameters) == (mine.tools_hash, {"temperature": 0.5})
    assert request_texts(its)[: len(mine.messages)] == request_texts(mine)
    assert scene.root.subagents == {}


@pytest.mark.req("S2-25")
def test_an_agent_compacts_by_itself_when_its_context_is_nearly_full(tmp_path: Path) -> None:
    model = talk(main=[said("one", 500), said("two", 790), said("three", 100)])
    scene = begin(tmp_path, model, window=1000)
    for text in ("first", "second", "third"):
        scene.ask(text)
    assert scene.context()[1:] == [GOES_ON, ("user", "third"), ("assistant", "three")]
    [asked] = model.requests_of("compaction")
    assert request_texts(asked)[1:-1] == ["first", "one", "second", "two"]
    assert scene.told == []
    assert scene.is_exact()


def test_what_was_not_counted_is_estimated(tmp_path: Path) -> None:
    model = talk(main=["one", "two", "three", "four"])
    scene = begin(tmp_path, model, window=1500)
    asked = [(scene.ask(WORDS), len(model.requests_of("compaction")))[1] for _ in range(4)]
    assert asked in ([0, 0, 0, 1], [0, 0, 1, 1])


def test_without_a_window_or_where_it_is_off_nothing_is_done(tmp_path: Path) -> None:
    model = talk(main=[said("one", 10**7), "two"])
    scene = begin(tmp_path, model)
    scene.ask("first")
    scene.ask("second")
    assert model.requests_of("compaction") == []
    off = talk(main=[said("one", 10**7), "two", no_more_than(9)])
    scene = begin(inner(tmp_path), off, window=100, compact_at=None)
    scene.ask("first")
    scene.ask("second")
    with pytest.raises(ModelError, match="prompt is too long$"):
        scene.ask("third")
    assert off.requests_of("compaction") == []


@pytest.mark.req("S2-25", "D-03")
def test_in_the_middle_of_a_turn_calls_keep_their_results_and_the_request_stays(
    tmp_path: Path,
) -> None:
    acting = [call_message(call("look", f"c{n}", n=n)) for n in range(6)]
    model = talk(main=[*acting, "done"])
    scene = begin(tmp_path, model, window=1800)
    assert scene.ask("go") == "done"
    [asked] = model.requests_of("compaction")
    assert [message.role for message in asked.messages[-2:]] == ["tool", "user"]
    after = model.requests_of("main")[model.requests.index(asked)]
    assert [message.role for message in after.messages] == [
        *("system", "user", "user", "assistant", "tool")
    ]
    assert request_texts(after)[1:3] == [GOES_ON[1], "go"]
    last = len(model.requests_of("main")[: model.requests.index(asked)]) - 1
    assert request_texts(after)[4].startswith(f"{last}: ")
    assert scene.is_exact()
    results = [text.partition(":")[0] for role, text in scene.kept("root") if role == "tool"]
    assert results == list("012345")


def test_a_step_that_is_long_itself_is_summed_up_too(tmp_path: Path) -> None:
    many = [call("look", f"c{n}", n=n) for n in range(6)]
    scene = begin(tmp_path, talk(main=[call_message(*many), "done"]), window=1300)
    scene.ask("go")
    assert scene.context()[1:] == [GOES_ON, ("user", "go"), ("assistant", "done")]


@pytest.mark.parametrize(
    "line",
    [
        ModelError("the service has too much to do"),
        [TextDelta("half a summ")],
        [TextDelta("  \n"), Finish(stop_reason="end_turn")],
        call_message(call("look")),
    ],
)
@pytest.mark.req("S2-25")
def test_without_a_summary_everything_is_as_it_was(tmp_path: Path, line: ScriptedAnswer) -> None:
    scene = begin(tmp_path, talk(main=["one", "two"], compaction=line))
    scene.ask("first")
    before, commits = scene.context(), scene.commits()
    with pytest.raises(ModelError):
        compacted(scene)
    assert (scene.context(), scene.commits()) == (before, commits)
    assert scene.stage.select_lines(event_type="transcript_edited", reason="compaction") == []
    assert scene.ask("second") == "two"
    assert scene.is_exact()
    check_log(scene.stage.log)


def test_a_failure_is_told_and_the_turn_goes_on_and_it_is_not_tried_at_every_step(
    tmp_path: Path,
) -> None:
    model = talk(main=["more"] * 9, compaction=ModelError("play: out of tea"))
    scene = begin(tmp_path, model, window=1450)
    for text in (WORDS, WORDS, WORDS, "a", "b", "c"):
        assert scene.ask(text) == "more"
    assert len(model.requests_of("compaction")) == 1
    [line] = scene.told
    assert line.startswith("main: the context takes ")
    assert line.endswith("could not be compacted: play: out of tea")
    scene.ask(WORDS)
    assert len(model.requests_of("compaction")) == 2


def test_text_beside_calls_is_a_summary_and_the_calls_are_not_run(tmp_path: Path) -> None:
    talking = Message("assistant", SUMMARY, call_message(call("look")).tool_calls)
    scene = begin(tmp_path, talk(main=["one"], compaction=talking))
    scene.ask("first")
    compacted(scene)
    [result] = scene.stage.select_lines(role="tool")
    assert result["content"] == texts.SUMMARY_CALL_NOT_RUN
    assert scene.context()[1] == STOOD
    check_log(scene.stage.log)


def test_a_summary_that_was_cut_off_says_so(tmp_path: Path) -> None:
    cut: ScriptedAnswer = [TextDelta("## Goals\nTea f"), Finish(stop_reason="max_tokens")]
    scene = begin(tmp_path, talk(main=["one"], compaction=cut))
    scene.ask("first")
    compacted(scene)
    assert scene.context()[1][1].endswith(f"Tea f{texts.SUMMARY_CUT_OFF}")


def test_what_is_long_without_a_history_is_told_once_and_not_compacted(tmp_path: Path) -> None:
    model = talk(main=[call_message(call("todo")), "one"])
    scene = begin(tmp_path, model, window=1000)
    scene.ask(WORDS * 9)
    [line] = scene.told
    assert line.endswith("too little of it could give way to a summary")
    assert model.requests_of("compaction") == []


def test_a_summary_that_is_long_itself_is_not_summed_up_again_and_again(tmp_path: Path) -> None:
    model = talk(main=["answer"] * 9, compaction=WORDS * 3)
    scene = begin(tmp_path, model, window=1450)
    for text in (WORDS, WORDS, WORDS, "a", "b", "c"):
        scene.ask(text)
    assert len(model.requests_of("compaction")) == 1
    [line] = scene.told
    assert line.endswith("could not be compacted: what is left is too long")


@pytest.mark.parametrize("refused", [False, True])
def test_a_summary_that_is_no_shorter_than_what_it_sums_up_takes_no_place(
    tmp_path: Path, *, refused: bool
) -> None:
    last: list[ScriptedAnswer] = [no_more_than(3500), "three"] if refused else ["three"]
    model = talk(main=["one", "two", *last], compaction=WORDS * 9)
    scene = begin(tmp_path, model, window=None if refused else 800)
    scene.ask(WORDS)
    scene.ask(WORDS)
    if refused:
        with pytest.raises(ModelError, match=r"too long - .* not shorter than the original"):
            scene.ask(WORDS * 4)
    else:
        scene.ask(WORDS)
        assert scene.told[-1].endswith("a summary that is not shorter than the original")
    assert [text for _, text in scene.context()[1:5]] == [WORDS, "one", WORDS, "two"]
    assert {kind for kind, *_ in shape(scene.commits())} == {"delta"}
    assert scene.root.subagents == {}
    check_log(scene.stage.log)


def test_there_may_be_too_little_to_sum_up(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one"]))
    assert compacted(scene) is None
    scene.ask("first")
    assert compacted(scene) is not None
    assert compacted(scene) is None
    assert len(scene.stage.select_lines(event_type="transcript_edited", reason="compaction")) == 1


def no_more_than(characters: int) -> ScriptedAnswer:
    """Return the line of a model that refuses what is longer."""

    def answer(request: ModelRequest) -> str:
        if len("".join(request_texts(request))) > characters:
            raise ModelError("prompt is too long", why="context_too_long")
        return "fine"

    return answer


@pytest.mark.req("S2-25")
def test_a_context_that_the_provider_refuses_is_compacted_once_and_asked_again(
    tmp_path: Path,
) -> None:
    model = talk(main=[no_more_than(4000)] * 9, compaction=SUMMARY)
    scene = begin(tmp_path, model)
    for n in range(6):
        assert scene.ask(f"{n} {WORDS}") == "fine"
    [asked] = model.requests_of("compaction")
    assert len("".join(request_texts(asked)[:-1])) < 3000
    assert any("left out here" in text for text in request_texts(asked))
    assert scene.context()[1:] == [GOES_ON, ("user", f"5 {WORDS}"), ("assistant", "fine")]
    assert scene.is_exact()
    results = [text for role, text in scene.kept("root") if role == "user"]
    assert results == [f"{n} {WORDS}" for n in range(6)]


def test_who_sums_up_reads_less_where_it_is_refused_too_and_then_it_is_given_up(
    tmp_path: Path,
) -> None:
    model = talk(main=["one", "two", no_more_than(9)], compaction=no_more_than(9))
    scene = begin(tmp_path, model)
    scene.ask(WORDS * 8)
    scene.ask(WORDS * 8)
    with pytest.raises(ModelError, match="it could not be compacted") as caught:
        scene.ask("third")
    assert caught.value.kind == "context_too_long"
    whole, part = (len("".join(request_texts(one)[:-1])) for one in model.requests_of("compaction"))
    assert part < whole / 2 < len(WORDS) * 8
    assert scene.context()[-1] == ("user", "third")


def test_what_cannot_be_made_to_fit_is_said_and_not_tried_for_ever(tmp_path: Path) -> None:
    model = talk(main=[no_more_than(9)] * 9)
    scene = begin(tmp_path, model)
    with pytest.raises(ModelError, match="give way to a summary"):
        scene.ask(WORDS)
    assert len(model.requests) == 1
    talked = talk(main=["one", *[no_more_than(9)] * 9])
    other = begin(inner(tmp_path), talked)
    other.ask(WORDS)
    with pytest.raises(ModelError, match="it was compacted and is still too long"):
        other.ask("second")
    assert [request.agent for request in talked.requests] == ["main", "main", "compaction", "main"]


def test_nobody_is_compacted_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    async def peek(_: ModelRequest) -> str:
        with pytest.raises(AgentBusy):
            await scene.root.compact()
        return "done"

    scene = begin(tmp_path, talk(main=[peek]))
    assert scene.ask("go") == "done"


def test_a_denied_answer_and_why_it_was_denied_stay(tmp_path: Path) -> None:
    @register_agent_class("strict-about-summaries")
    class Strict(Hook):
        def judge(self, question: HookQuestion) -> Verdict:
            if question.point == "response" and question.text == "two":
                return Deny("three is better")
            return Ok() if question.point != "input" else Comment("be brief")

    model = talk(main=[said("one", 10), said("two", 990), said("three", 10)])
    scene = begin(tmp_path, model, window=1000)
    Strict(scene.stage.session, runtime=scene.stage.runtime).install(scene.root)
    scene.ask("first")
    assert scene.ask("second") == "three"
    texts = [text for _, text in scene.context()]
    assert texts[1:4] == [GOES_ON[1], "second", "two"]
    assert "three is better" in texts[4]


@pytest.mark.parametrize("point", ["input", "response"])
def test_what_a_hook_could_not_judge_yet_is_judged_though_a_user_compacts(
    tmp_path: Path, point: str
) -> None:
    """The model that the hook asks fails: so the user compacts, and lets the agent go on."""
    asked: list[str] = []

    @register_agent_class("fails-once")
    class Failing(Hook):
        def judge(self, question: HookQuestion) -> Verdict:
            if question.point == point:
                asked.append(question.text)
                if asked.count(question.text) == 1 and len(asked) == 3:
                    raise ModelError("no connection")
            return Ok()

    scene = begin(tmp_path, talk(main=["one", "two", "three"]))
    Failing(scene.stage.session, runtime=scene.stage.runtime).install(scene.root)
    for text in ("first", "second"):
        scene.ask(text)
    with pytest.raises(ModelError, match="no connection"):
        scene.ask("third")
    if point == "input":
        assert compacted(scene) is not None
    else:
        with pytest.raises(ModelError, match="waits for its hooks"):
            compacted(scene)
    assert has_open_calls(scene.root)
    assert scene.ask() == "three"
    last = "third" if point == "input" else "three"
    assert asked[2:] == [last, last]


def test_what_it_costs_counts_in_the_budget(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", "two"]), budget=Budget(model_calls=2))
    scene.ask("first")
    assert compacted(scene) is not None
    assert scene.ask("second").startswith("[stopped]")
    other = begin(inner(tmp_path), talk(main=["one"]), budget=Budget(model_calls=1))
    other.ask("first")
    before = other.context()
    with pytest.raises(BudgetExceeded):
        compacted(other)
    assert other.context() == before


@pytest.mark.req("S2-25", "S2-24")
def test_subagents_compact_each_its_own(tmp_path: Path) -> None:
    looks = [call_message(call("look", f"c{n}")) for n in range(6)]
    task = call("task", name="helper", prompt="look about")
    scene = begin(
        tmp_path, talk(main=[call_message(task), "done"], helper=[*looks, "seen"]), window=1800
    )
    scene.ask("go")
    assert len(scene.context()) == 5
    assert scene.context("helper")[:2] == [GOES_ON, ("user", "look about")]
    assert scene.kept(name="helper") == scene.context("helper")
    assert scene.is_exact()


@pytest.mark.req("S2-25", "S2-22")
def test_a_conversation_that_began_with_a_commit_is_compacted_as_any_other(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one"]))
    scene.ask("first")
    fork = begin(
        inner(tmp_path), talk(main=["two", "three"]), store=scene.store, system_prompt=None
    )
    start_from_commit(fork.root, scene.commits()[-1].id)
    fork.ask("second")
    compacted(fork)
    fork.ask("third")
    assert fork.context()[:2] == [("system", "You are main."), STOOD]
    assert fork.kept() == fork.context()
    full = [text for _, text in fork.kept("root")]
    assert full == ["You are main.", "first", "one", "second", "two", "third", "three"]
    assert fork.is_exact()


def test_a_second_compaction_sums_up_the_first(tmp_path: Path) -> None:
    model = talk(main=["one", "two"])
    scene = begin(tmp_path, model)
    scene.ask("first")
    compacted(scene)
    scene.ask("second")
    compacted(scene)
    assert scene.context()[1:] == [STOOD]
    assert request_texts(model.requests_of("compaction")[1])[1:-1] == [STOOD[1], "second", "two"]
    assert shape(scene.commits())[1:] == [
        ("compaction", "compaction", 2),
        ("delta", "turn_boundary", 2),
        ("compaction", "compaction", 2),
    ]
    full = [text for _, text in scene.kept("root")]
    assert full == ["You are main.", "first", "one", "second", "two"]
    assert scene.is_exact()


def test_a_turn_that_was_cut_off_keeps_what_was_asked(tmp_path: Path) -> None:
    scene = begin(tmp_path, talk(main=["one", ModelError("down"), "two"]))
    scene.ask("first")
    with pytest.raises(ModelError):
        scene.ask("second")
    compacted(scene)
    assert scene.context()[1:] == [GOES_ON, ("user", "second")]
    assert has_open_calls(scene.root)
    assert scene.ask() == "two"


def test_a_part_of_nothing_is_refused() -> None:
    for part in (0, -1, 1.5):
        with pytest.raises(ConfigError, match="compact_at"):
            AgentRuntime(limits=ContextLimits(compact_at=part))


def test_a_model_may_say_itself_how_much_it_reads(tmp_path: Path) -> None:
    class Small(Talk):
        context_window = 1000

    model = Small({"main": [said("one", 900), said("two", 100)], "compaction": [SUMMARY]})
    scene = begin(tmp_path, model)
    assert scene.root.window == 1000
    scene.ask("first")
    scene.ask("second")
    assert scene.context()[1] == GOES_ON
