"""Starts: each is recorded before its agent runs, none is lost, and none happens twice."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harken.core.commits import TicketId
from harken.errors import HarkenError, ModelError
from harken.review.request import request_review, restart_reviews
from harken.store.memory import MemoryStore
from harken.testing.store_kit import batch_of, commit_in
from harken.tickets.change import TicketChange
from harken.tickets.record import encode_version
from harken.tickets.start import StartCondition
from harken.tickets.ticket import StartRecord, TicketVersion
from harken.tickets.tracker import Tickets
from tests.unit.review.agents_kit import HOUR_S, Clock, DeathPoint, FakeAgents, Home, Killed

WORK = StartCondition(name="work", event="ready", template="coder")
RETURNED = StartCondition(name="returned", event="in_progress")
IN_REVIEW = TicketChange(status="review", add_reviewers=("rita",))


@pytest.fixture
def home() -> Home:
    return Home(MemoryStore(), Clock())


def file_finding(home: Home, context_id: str = "ctx-filed") -> TicketId:
    """File a finding of rita on a new ticket, and return it."""
    parent = home.clock.open_tickets(home.store, "ann").create("Rewrite the parser")
    rita = home.clock.open_tickets(home.store, "rita", context_id)
    return rita.create("It drops", TicketChange(type="review_finding", parent=parent.id)).id


def read_records(home: Home, action: str) -> list[TicketVersion]:
    """Return the versions of all tickets with this action."""
    tickets = Tickets(home.store, "reader")
    histories = [tickets.history(ticket.id) for ticket in tickets.list_tickets()]
    return [version for history in histories for _, version in history if version.action == action]


@pytest.mark.req("S2-51")
@pytest.mark.parametrize("dies", ["before the answer", "after the answer"])
def test_a_start_whose_process_died_is_resumed_and_not_doubled(
    home: Home, dies: DeathPoint
) -> None:
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    home.agents.dies = dies
    with pytest.raises(Killed):
        home.start_runner().run_all()
    [record] = read_records(home, "start")
    assert read_records(home, "finish") == []
    home.agents.dies = ""
    assert home.start_runner().run_all() == 1
    assert home.start_runner().run_all() == 0
    assert read_records(home, "start") == [record]
    [finish] = read_records(home, "finish")
    assert (finish.author, finish.note, finish.start) == ("rita", "answer 1", record.start)
    assert len(home.agents.asked) == 1
    assert [event.phase for event in home.events] == ["started", "resumed", "finished"]


@pytest.mark.req("S2-51")
def test_of_two_processes_that_see_a_start_one_records_it(home: Home) -> None:
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    first, second = home.start_runner().ledger, home.start_runner().ledger
    [start], [same] = first.read().due, second.read().due
    assert start == same
    assert first.record(start) is not None
    assert second.record(same) is None
    assert second.read().due == []


def test_another_home_takes_a_start_over_after_an_hour_and_the_first_cannot_finish_it(
    home: Home,
) -> None:
    file_finding(home)
    finding = file_finding(home)
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    first = home.start_runner()
    [due] = first.ledger.read().due
    recorded = first.ledger.record(due)
    assert recorded is not None
    other = Home(home.store, home.clock, owner="b" * 32)
    assert other.start_runner().run_all() == 0
    home.clock.seconds += HOUR_S
    assert other.start_runner().run_all() == 1
    assert first.ledger.finish(recorded, "late", "ctx-late") is None
    [finish] = read_records(home, "finish")
    assert finish.note == "answer 1"
    assert [task.context_id for task in other.agents.tasks] == ["ctx-filed"]


def test_a_home_whose_start_was_taken_over_cannot_end_it(home: Home) -> None:
    finding = file_finding(home)
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    first = home.start_runner().ledger
    recorded = first.record(first.read().due[0])
    other = Home(home.store, home.clock, owner="b" * 32).start_runner().ledger
    taken = other.take_over(other.read().running[0])
    assert recorded is not None
    assert taken is not None
    assert first.finish(recorded, "late", "ctx-late") is None
    assert other.finish(taken, "in time", "ctx-other") is not None


@pytest.mark.req("S2-47")
def test_a_question_waits_while_its_reviewer_answers_another_one(home: Home) -> None:
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    author.note(finding, "what do you mean?")
    ledger = home.start_runner().ledger
    answering = ledger.record(ledger.read().due[0])
    assert answering is not None
    author.note(finding, "and which?")
    assert ledger.read().due == []
    ledger.finish(answering, "line 12", "ctx-answer")
    [due] = ledger.read().due
    assert due.context_id == "ctx-answer"


@pytest.mark.req("S2-47")
def test_questions_are_answered_one_after_the_other_each_from_the_tip(home: Home) -> None:
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    author.note(finding, "what do you mean?")
    author.note(finding, "and which?")
    assert home.start_runner().run_all() == 2
    first, second = home.agents.tasks
    assert first.prompt.endswith("what do you mean?")
    assert second.prompt.endswith("and which?")
    assert (first.context_id, second.context_id) == ("ctx-filed", f"ctx-{first.session[-8:]}")
    assert {task.thread_id for task in home.agents.tasks} == {finding}


@pytest.mark.req("S2-49")
def test_a_closed_finding_starts_its_reviewer_at_the_tip_of_the_discussion(home: Home) -> None:
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    author.note(finding, "what do you mean?")
    home.start_runner().run_all()
    author.close(finding, note="kept it")
    home.start_runner().run_all()
    asked, verifying = home.agents.tasks
    assert verifying.context_id == f"ctx-{asked.session[-8:]}"
    assert "ann closed" in verifying.prompt
    assert "kept it" in verifying.prompt
    assert verifying.thread_id == finding
    assert [*verifying.tool_names] == ["read_change", "verify_finding"]


@pytest.mark.req("S2-51")
def test_a_ready_ticket_is_assigned_to_the_one_agent_that_it_starts(home: Home) -> None:
    ticket = home.clock.open_tickets(home.store, "pm").create("Rewrite the parser")
    same = StartCondition(name="work too", event="ready", template="rob")
    assert home.start_runner((WORK, same, RETURNED)).run_all() == 1
    [task] = home.agents.tasks
    state = Tickets(home.store, "reader").get(ticket.id).state
    assert (state.status, state.assignee) == ("in_progress", task.principal)
    assert task.context_id == ""


@pytest.mark.req("S2-50")
def test_a_successor_starts_at_the_last_commit_of_the_assignee_before(home: Home) -> None:
    ticket = home.clock.open_tickets(home.store, "pm").create(
        "Rewrite the parser", TicketChange(assignee="ann")
    )
    home.clock.open_tickets(home.store, "ann", "ctx-ann").note(ticket.id, "half of it is done")
    home.clock.open_tickets(home.store, "rob", "ctx-rob").note(ticket.id, "another agent")
    change = TicketChange(status="in_progress", assignee="bob")
    home.clock.open_tickets(home.store, "pm").update(ticket.id, change)
    assert home.start_runner((RETURNED,)).run_all() == 1
    [task] = home.agents.tasks
    assert (task.principal, task.template, task.context_id) == ("bob", "bob", "ctx-ann")


def test_an_assignee_that_begins_the_work_itself_starts_no_agent(home: Home) -> None:
    ann = home.clock.open_tickets(home.store, "ann")
    ticket = ann.create("Rewrite the parser", TicketChange(assignee="ann")).id
    returned = StartCondition(name="returned", event="in_progress", template="coder")
    ann.update(ticket, TicketChange(status="in_progress"))
    assert home.start_runner((returned,)).run_all() == 0
    assert read_records(home, "start") == []


@pytest.mark.parametrize(
    ("template", "assignee", "principal"),
    [("", "ann", "coder"), ("coder", "cora", "cora"), ("", "coder", "coder")],
)
def test_an_agent_never_has_a_person_as_its_principal(
    home: Home, template: str, assignee: str, principal: str
) -> None:
    batch = batch_of("half of it", template=template, principal=assignee)
    home.store.write(batch)
    pm = home.clock.open_tickets(home.store, "pm")
    ticket = pm.create("Rewrite the parser", TicketChange(assignee=assignee)).id
    own = home.clock.open_tickets(home.store, assignee, commit_in(batch))
    own.note(ticket, "half of it is done")
    returned = StartCondition(name="returned", event="in_progress", template="coder")
    pm.update(ticket, TicketChange(status="in_progress"))
    assert home.start_runner((returned,)).run_all() == 1
    [task] = home.agents.tasks
    assert (task.template, task.principal) == ("coder", principal)


def test_a_start_without_a_template_waits_for_a_home_that_has_it(home: Home) -> None:
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    home.agents.templates = ()
    runner = home.start_runner(retries=True)
    assert (runner.run_all(), runner.has_failed) == (0, False)
    home.clock.seconds += HOUR_S
    assert runner.run_all() == 0
    assert [event.phase for event in home.events] == ["unavailable"], "it is reported once"
    assert read_records(home, "start") == []
    other = Home(home.store, home.clock, owner="b" * 32)
    assert other.start_runner().run_all() == 1


def test_a_failure_that_may_pass_is_attempted_again_three_times_in_all(home: Home) -> None:
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    home.agents.error = ModelError("the server is overloaded", why="overloaded")
    runner = home.start_runner(retries=True)
    assert (runner.run_all(), runner.has_failed) == (0, True)
    assert runner.run_all() == 0
    assert len(home.agents.tasks) == 1, "the next attempt has a time"
    home.clock.seconds += HOUR_S
    home.start_runner(retries=True).run_all()
    assert len(home.agents.tasks) == 2, "a new process continues to count"
    home.clock.seconds += HOUR_S
    home.start_runner(retries=True).run_all()
    home.clock.seconds += HOUR_S
    home.start_runner(retries=True).run_all()
    [end] = read_records(home, "fail")
    assert len(home.agents.tasks) == 3
    assert end.start is not None
    assert (end.start.attempts, end.note) == (3, "the server is overloaded")


def test_an_attempt_after_a_failure_that_has_passed_finishes_the_start(home: Home) -> None:
    home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    home.agents.error = ModelError("no connection", why="network")
    home.start_runner().run_all()
    home.agents.error = None
    assert home.start_runner().run_all() == 1, "a command attempts it at once"
    assert [version.note for version in read_records(home, "start")] == ["", "no connection"]


def test_a_start_that_failed_for_good_blocks_no_other_one(home: Home) -> None:
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    author.note(finding, "a poison")
    home.agents.error = ModelError("the prompt is too long", why="context_too_long")
    runner = home.start_runner()
    assert (runner.run_all(), runner.has_failed) == (0, True)
    [end] = read_records(home, "fail")
    assert end.start is not None
    assert (end.note, end.start.attempts) == ("the prompt is too long", 1)
    home.agents.error = None
    author.note(finding, "harmless")
    author.close(finding)
    later = home.start_runner()
    assert (later.run_all(), later.has_failed) == (2, False)
    assert len(read_records(home, "fail")) == 1, "nothing runs it again by itself"


def test_a_failed_start_is_started_again_with_a_new_session(home: Home) -> None:
    finding = file_finding(home)
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    home.agents.error = ModelError("the prompt is too long", why="context_too_long")
    home.start_runner().run_all()
    home.agents.error = None
    runner = home.start_runner()
    [failed] = runner.ledger.read().failed
    runner.restart(finding, failed.id)
    first, second = home.agents.tasks
    assert second.session == f"{first.session}_1"
    assert (second.prompt, second.context_id) == (first.prompt, "ctx-filed")
    reading = runner.ledger.read()
    assert [start.state for start in reading.recorded] == ["done"]
    assert runner.ledger.restart(failed) is None, "it has not failed any more"


@pytest.mark.parametrize("event", ["review", "closed"])
def test_a_reviewer_that_gives_no_disposition_has_failed(home: Home, event: str) -> None:
    home.concludes = False
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    if event == "closed":
        author.update(finding, TicketChange(add_reviewers=("rita",)))
        author.close(finding)
    else:
        author.create("Rewrite the parser", IN_REVIEW)
    assert home.start_runner().run_all() == 0
    [end] = read_records(home, "fail")
    assert "rita ended without concluding" in end.note
    assert read_records(home, "finish") == []


def test_an_agent_without_an_answer_has_failed(home: Home) -> None:
    finding = file_finding(home)
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    home.agents.is_cut_off = True
    assert home.start_runner().run_all() == 0
    assert [version.note for version in read_records(home, "fail")] == ["answer 1"]


def test_a_reviewer_that_failed_is_asked_again(home: Home) -> None:
    home.concludes = False
    author = home.clock.open_tickets(home.store, "ann")
    ticket = author.create("Rewrite the parser", IN_REVIEW).id
    home.start_runner().run_all()
    home.concludes = True
    runner = home.start_runner()
    request_review(author, ticket, ["rita"])
    assert len(restart_reviews(runner.ledger, ticket, ["rita"])) == 1
    assert restart_reviews(runner.ledger, ticket, ["rita"]) == [], "it is open"
    assert runner.run_all() == 1
    assert author.get(ticket).state.reviewers == {"rita": "approved"}
    assert restart_reviews(runner.ledger, ticket, ["rita"]) == []


def test_a_command_waits_for_a_start_of_another_process_and_names_it_once(home: Home) -> None:
    finding = file_finding(home)
    question = home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    other = Home(home.store, home.clock, owner="b" * 32).start_runner().ledger
    recorded = other.record(other.read().due[0])
    assert recorded is not None
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            other.finish(recorded, "line 12", "ctx-answer")

    runner = home.start_runner()
    runner.run_until_ended({finding}, lambda start: start.version == question.head, sleep=sleep)
    assert len(slept) == 3
    [event] = home.events
    assert (event.phase, event.principal) == ("elsewhere", "rita")
    assert "the home bbbbbbbb runs it since 20" in event.text
    assert "--take-over 0s" in event.text
    assert home.agents.tasks == []


def test_a_command_does_not_wait_for_what_it_cannot_run(home: Home) -> None:
    finding = file_finding(home)
    author = home.clock.open_tickets(home.store, "ann")
    author.note(finding, "what do you mean?")
    later = author.note(finding, "and which?")
    home.agents.templates = ()
    runner = home.start_runner()
    runner.run_until_ended({finding}, lambda start: start.version == later.head, sleep=_never)
    home.agents.templates = ("rita",)
    home.agents.error = ModelError("no connection", why="network")
    runner = home.start_runner()
    runner.run_until_ended({finding}, lambda start: start.version == later.head, sleep=_never)
    assert [event.phase for event in home.events] == ["unavailable", "started", "retrying"]


def _never(seconds: float) -> None:
    raise AssertionError(f"it waits {seconds} s")


def test_a_session_that_another_process_continues_is_not_reported_as_resumed(home: Home) -> None:
    finding = file_finding(home)
    home.clock.open_tickets(home.store, "ann").note(finding, "what do you mean?")
    ledger = home.start_runner().ledger
    recorded = ledger.record(ledger.read().due[0])
    assert recorded is not None
    home.agents.locked = {recorded.record.session}
    assert home.start_runner().run_all() == 0
    assert home.events == []


def test_a_start_with_the_name_of_another_file_is_reported_and_not_run(home: Home) -> None:
    ticket = home.clock.open_tickets(home.store, "ann").create("Rewrite the parser", IN_REVIEW)
    record = StartRecord(
        id="../../evil",
        condition="review",
        event="review",
        version=ticket.head,
        principal="rita",
        template="rita",
        owner=home.owner,
    )
    version = msgspec.structs.replace(
        ticket.version, action="start", start=record, parent=ticket.head, created=ticket.created
    )
    name, batch = encode_version(version)
    home.store.write(batch)
    home.store.move_head(ticket.id, name, expected=ticket.head)
    runner = home.start_runner()
    assert (runner.run_all(), runner.has_failed) == (0, True)
    assert home.agents.tasks == []
    assert "is not the id of a start" in home.events[0].text


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["note", "close", "reopen", "review", "look", "die", "die late", "move"]),
        st.integers(0, 1),
    ),
    max_size=20,
)


@pytest.mark.req("S2-51")
@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_no_start_is_lost_or_doubled_however_often_processes_die(
    steps: list[tuple[str, int]],
) -> None:
    home = Home(MemoryStore(), Clock())
    findings = [file_finding(home), file_finding(home)]
    asked: list[str] = []
    for step, number in steps:
        home = _step(home, step, findings[number], asked)
    home.clock.seconds += HOUR_S
    home.agents.dies = ""
    home.start_runner().run_all()
    asked += home.agents.asked
    reading = home.start_runner().ledger.read()
    assert (reading.due, reading.running) == ([], [])
    finished = [version.start.id for version in read_records(home, "finish") if version.start]
    assert Counter(finished) == Counter({*finished}), "each start ends once"
    assert {version.start.id for version in read_records(home, "start") if version.start} == {
        *finished
    }
    triggers = len(read_records(home, "note")) + len(read_records(home, "close"))
    assert len(finished) == triggers
    if not any(step == "move" for step, _ in steps):
        assert len(asked) == triggers, "no model is asked twice"


def _step(home: Home, step: str, finding: TicketId, asked: list[str]) -> Home:
    """Change a finding, or look at the starts with a process that may die. Return the home."""
    author = home.clock.open_tickets(home.store, "ann")
    deaths: dict[str, DeathPoint] = {
        "look": "",
        "die": "before the answer",
        "die late": "after the answer",
    }
    if step == "move":
        asked += home.agents.asked
        home.clock.seconds += HOUR_S
        owner = "a" * 32 if home.owner[0] == "b" else "b" * 32
        return Home(home.store, home.clock, owner=owner, agents=FakeAgents())
    if step in deaths:
        home.agents.dies = deaths[step]
        with suppress(Killed):
            home.start_runner().run_all()
        return home
    with suppress(HarkenError):
        if step == "note":
            author.note(finding, "what do you mean?")
        elif step == "review":
            author.update(finding, TicketChange(priority=1), note="a change that starts nothing")
        else:
            getattr(author, step)(finding)
    return home
