"""`harken review`, `discuss` and the verification of findings: one reviewer, with its memory."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harken.chat.options import ChatOptions
from harken.chat.started_agent import StartedAgents
from harken.config.home import Home
from harken.core.commits import TicketId
from harken.errors import ModelError
from harken.review.task import AgentTask
from harken.review.tools import reading_tool
from harken.tickets.ticket import TicketVersion
from tests.cli.kit import Cli
from tests.cli.review_kit import (
    FIRST,
    SECOND,
    count_actions,
    find_ticket,
    open_home_tickets,
    read_chain,
    read_history,
    read_messages,
    write_reviewer,
    write_script,
)

REVIEWED = "Review of change.diff"
QUESTION = "what do you mean?"


@pytest.fixture
def model(cli: Cli, tmp_path: Path) -> list[str]:
    """The options of a command with a scripted reviewer."""
    write_reviewer(cli.home)
    return ["--model", write_script(tmp_path / "here"), "--as", "ann"]


@pytest.fixture
def reviewed(cli: Cli, model: list[str]) -> list[str]:
    """The same, after a review."""
    cli.ok("review", "change.diff", "--reviewers", "rita", *model)
    return model


def read_answer(cli: Cli, title: str) -> TicketVersion:
    """Return the last version of a ticket that ends a start."""
    history = read_history(cli.home, find_ticket(cli.home, title))
    return [version for version in history if version.action == "finish"][-1]


@pytest.mark.req("S2-46")
def test_a_reviewer_files_findings_as_children_with_its_context(cli: Cli, model: list[str]) -> None:
    ran = cli.ok("review", "change.diff", "--reviewers", "rita", *model)
    assert [line.split("  ")[-1] for line in ran.out.splitlines()] == [
        REVIEWED,
        "rita: changes_requested",
        f"{FIRST} (rita)",
        f"{SECOND} (rita)",
    ]
    parent = find_ticket(cli.home, REVIEWED)
    state = read_history(cli.home, parent)[-1].ticket
    assert (state.status, state.reviewers) == ("review", {"rita": "changes_requested"})
    created = [read_history(cli.home, find_ticket(cli.home, t))[0] for t in (FIRST, SECOND)]
    assert {version.ticket.parent for version in created} == {parent}
    assert {version.author for version in created} == {"rita"}
    assert {version.ticket.type for version in created} == {"review_finding"}
    [context] = {version.context_id for version in created}
    commit = read_chain(cli.home, context)[0].commit
    assert (commit.template, commit.principal, commit.ticket_id) == ("rita", "rita", parent)
    assert cli.ok("review", parent, *model).out == ran.out, "it is not reviewed twice"
    assert count_actions(cli.home, parent)["start"] == 1


@pytest.mark.req("S2-47")
def test_each_message_of_a_discussion_is_a_commit_of_its_thread(
    cli: Cli, reviewed: list[str]
) -> None:
    finding = find_ticket(cli.home, FIRST)
    context = read_history(cli.home, finding)[0].context_id
    assert cli.ok("discuss", finding, QUESTION, *reviewed).out == (
        "A text without a final line end loses its last line.\n"
    )
    assert cli.ok("discuss", finding[:14], "and which?", *reviewed).out == "All but the first.\n"
    chain = read_chain(cli.home, read_answer(cli, FIRST).context_id)
    thread = [stored for stored in chain if stored.commit.thread_id == finding][::-1]
    assert [read_messages(cli.home, stored)[-1][0] for stored in thread] == [
        *("user", "assistant"),
        *("user", "assistant"),
    ]
    texts = [read_messages(cli.home, stored)[-1][1] for stored in thread]
    assert texts[0].endswith(QUESTION)
    assert texts[3] == "All but the first."
    assert thread[0].commit.parent == context, "it begins where the finding was filed"
    assert {stored.commit.template for stored in thread} == {"rita"}
    assert {stored.commit.ticket_id for stored in thread} == {finding}


@pytest.mark.req("S2-48")
def test_two_findings_with_one_context_have_two_independent_discussions(
    cli: Cli, reviewed: list[str]
) -> None:
    chains = {}
    for title, question in ((FIRST, QUESTION), (SECOND, "and which?")):
        cli.ok("discuss", find_ticket(cli.home, title), question, *reviewed)
        chains[title] = read_chain(cli.home, read_answer(cli, title).context_id)
    contexts = {read_history(cli.home, find_ticket(cli.home, t))[0].context_id for t in chains}
    assert len(contexts) == 1
    assert {chain[2].id for chain in chains.values()} == contexts
    texts = [text for stored in chains[SECOND][:2] for _, text in read_messages(cli.home, stored)]
    assert not any(QUESTION in text for text in texts)
    threads = {chain[0].commit.thread_id for chain in chains.values()}
    assert threads == {find_ticket(cli.home, t) for t in chains}


@pytest.mark.req("S2-49")
def test_the_reviewer_verifies_a_closed_finding_from_the_tip_of_the_discussion(
    cli: Cli, reviewed: list[str]
) -> None:
    first, second = find_ticket(cli.home, FIRST), find_ticket(cli.home, SECOND)
    cli.ok("discuss", first, QUESTION, *reviewed)
    tip = read_answer(cli, FIRST).context_id
    watch = ("agents", "watch", "--once", *reviewed)
    cli.ok("ticket", "close", first, "--reason", "not really", "--as", "ann")
    cli.ok(*watch)
    state = read_history(cli.home, first)[-1].ticket
    assert (state.status, state.reviewers) == ("open", {"rita": "changes_requested"})
    chain = read_chain(cli.home, read_answer(cli, FIRST).context_id)
    assert tip in [stored.id for stored in chain]
    assert chain[0].commit.thread_id == first
    cli.ok("ticket", "close", first, "--reason", "now it is kept", "--as", "ann")
    cli.ok(*watch)
    state = read_history(cli.home, first)[-1].ticket
    assert (state.status, state.reviewers) == ("closed", {"rita": "approved"})
    parent = find_ticket(cli.home, REVIEWED)
    assert read_history(cli.home, parent)[-1].ticket.reviewers == {"rita": "changes_requested"}
    cli.ok("ticket", "close", second, "--as", "ann")
    cli.ok(*watch)
    assert read_history(cli.home, parent)[-1].ticket.reviewers == {"rita": "approved"}
    before = cli.sessions()
    assert cli.ok(*watch).err == ""
    assert cli.sessions() == before, "nothing runs while nothing is due"


def test_a_commit_of_git_is_reviewed(cli: Cli, model: list[str]) -> None:
    def git(*words: str) -> None:
        options = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
        subprocess.run(["git", *options, *words], check=True, capture_output=True)

    git("init", "-q", ".")
    Path("parse.py").write_text("def parse(text):\n    return text.splitlines()\n")
    git("add", "parse.py")
    git("commit", "-qm", "Split lines")
    ran = cli.ok("review", "HEAD", "--reviewers", "rita", *model)
    assert "Split lines" in ran.out.splitlines()[0]
    assert FIRST in ran.out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            ["review", "missing.diff", "--reviewers", "rita"],
            "not a file, a ticket (tkt-...), a commit",
        ),
        (["review", "--reviewers", "rita", "--", "-x"], "not a file, a ticket (tkt-...), a commit"),
        (["review", "change.diff"], "name the reviewers with --reviewers"),
        (["review", "change.diff", "--reviewers", "rob"], "template 'rob' not found"),
        (
            ["review", "tkt-121212121212", "--reviewers", "rita"],
            "ticket 'tkt-121212121212' not found",
        ),
        (["review", "empty.diff", "--reviewers", "rita"], "there is no change to review"),
        (["discuss", "tkt-121212121212", "hm?"], "ticket 'tkt-121212121212' not found"),
        (["review", "tkt-12", "--title", "x"], "--title is for a new ticket"),
        (["agents", "watch", "--interval", "soon"], "'soon' is not a duration"),
    ],
)
def test_bad_input_gets_one_line(cli: Cli, model: list[str], words: list[str], text: str) -> None:
    Path("empty.diff").write_text("\n")
    separator = words.index("--") if "--" in words else len(words)
    options = model if words[0] != "agents" else model[:2]
    why = cli.refused(*words[:separator], *options, *words[separator:])
    assert text in why
    assert cli.sessions() == []


def test_only_findings_of_an_agent_are_discussed_by_another_principal(
    cli: Cli, reviewed: list[str]
) -> None:
    parent, finding = find_ticket(cli.home, REVIEWED), find_ticket(cli.home, FIRST)
    assert "is a task: only a review_finding is discussed" in cli.refused(
        "discuss", parent, "hm?", *reviewed
    )
    assert "rita created it: ask as another principal" in cli.refused(
        "discuss", finding, "hm?", *reviewed[:2], "--as", "rita"
    )
    own = ("--type", "review_finding", "--parent", parent, "--as", "bob")
    filed = cli.ok("ticket", "create", "By hand", *own).out.strip()
    assert "there is no agent to ask" in cli.refused("discuss", filed, "hm?", *reviewed)
    assert "note" not in count_actions(cli.home, find_ticket(cli.home, "By hand"))


def test_a_question_that_fails_for_good_blocks_nothing_and_is_asked_again_by_a_command(
    cli: Cli, reviewed: list[str], tmp_path: Path
) -> None:
    finding = find_ticket(cli.home, FIRST)
    ran = cli("discuss", finding, "something without a rule", *reviewed)
    assert (ran.code, ran.out) == (1, "")
    assert "no rule for answer" in ran.err
    assert f"`harken agents retry {finding[:16]}`" in ran.err
    assert count_actions(cli.home, finding)["fail"] == 1
    answered = cli.ok("discuss", finding, "and which?", *reviewed)
    assert answered.out == "All but the first.\n"
    script = tmp_path / "other.yaml"
    script.write_text("rules: [{answer: Now I can.}]")
    cli.ok("agents", "retry", finding, "--model", f"scripted:{script}")
    assert read_answer(cli, FIRST).note == "Now I can."
    why = cli.refused("agents", "retry", finding, "--model", f"scripted:{script}")
    assert "no agent of it has failed" in why


def test_a_reviewer_that_does_not_conclude_fails_the_review_and_is_asked_again(
    cli: Cli, model: list[str], tmp_path: Path
) -> None:
    idle = tmp_path / "idle.yaml"
    idle.write_text("rules: [{answer: I see nothing.}]")
    options = ["--reviewers", "rita", "--as", "ann"]
    ran = cli("review", "change.diff", *options, "--model", f"scripted:{idle}")
    assert ran.code == 1
    assert "rita: pending" in ran.out
    parent = find_ticket(cli.home, REVIEWED)
    assert "rita: changes_requested" in cli.ok("review", parent, *options, *model[:2]).out


def test_a_review_of_which_no_reviewer_can_run_here_ends_with_1(cli: Cli, model: list[str]) -> None:
    words = ("--status", "review", "--reviewer", "ghost", "--as", "ann")
    ticket = cli.ok("ticket", "create", "Rewrite the parser", *words).out.strip()
    ran = cli("review", ticket, *model)
    assert ran.code == 1
    assert "ghost: pending" in ran.out
    assert "ghost unavailable: template 'ghost' not found" in ran.err


def test_an_answer_that_is_cut_off_is_none(cli: Cli, reviewed: list[str], tmp_path: Path) -> None:
    script = tmp_path / "cut.yaml"
    script.write_text("rules: [{answer: It drops the, stop_reason: max_tokens}]")
    finding = find_ticket(cli.home, FIRST)
    ran = cli("discuss", finding, "hm?", "--model", f"scripted:{script}", "--as", "ann")
    assert (ran.code, ran.out) == (1, "")
    assert "cut off at the limit of its length: It drops the" in ran.err


def test_the_calls_of_an_agent_are_counted_over_all_processes(cli: Cli, tmp_path: Path) -> None:
    write_reviewer(cli.home)
    script = tmp_path / "loop.yaml"
    task = AgentTask(
        session="start_1",
        template="rita",
        principal="rita",
        context_id="",
        prompt="hm?",
        ticket=TicketId("tkt-12"),
        thread_id="",
        tools=lambda store: [reading_tool(store, TicketId("tkt-12"))],
        tool_names=["read_change"],
        on_locked=lambda: None,
    )
    agents = StartedAgents(
        Home(str(cli.home)), ChatOptions(model=f"scripted:{script}", permission="all", max_calls=3)
    )
    loop = "{calls: [{read_change: {}}]}"
    script.write_text("rules: [{pattern: hm, calls: [{read_change: {}}]}, {error: broken}]")
    with pytest.raises(ModelError, match="broken"):
        agents.run(task)
    script.write_text(f"rules: [{loop}]")
    for _ in range(2):
        with pytest.raises(ModelError, match="3 model calls in one turn"):
            agents.run(task)
    [log] = cli.sessions()
    assert log.read_text().count('"event_type":"llm_request"') == 3


@pytest.mark.parametrize("words", [["discuss", "FINDING", "hm?"], ["review", "change.diff"]])
def test_nothing_is_written_for_an_agent_that_cannot_run(
    cli: Cli, reviewed: list[str], words: list[str]
) -> None:
    finding = find_ticket(cli.home, FIRST)
    words = [finding if word == "FINDING" else word for word in words]
    words += ["--reviewers", "rita"] if words[0] == "review" else []
    before = read_history(cli.home, finding)
    cli.refused(*words, "--model", "scripted:missing.yaml", "--as", "ann")
    (cli.home / "agents" / "rita.md").unlink()
    assert "template 'rita' not found" in cli.refused(*words, *reviewed)
    assert read_history(cli.home, finding) == before
    with open_home_tickets(cli.home) as tickets:
        assert len(tickets.list_tickets()) == 3
