"""Questions and results of a sandboxed command say that it ran in the sandbox, and what is lost.

A user allowed a command that wrote `/tmp/report.html`, was told `exit code 0`, and found no such
file: the sandbox has a `/tmp` of its own, and neither the question nor the result mentioned it. Now
both name the sandbox, and the result lists what the command left in that `/tmp`.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from harken import AgentRuntime, LocalWorld
from harken.chat.plain_chat import PlainUser
from harken.world.permissions.permissions import Permissions
from harken.world.shell.shell import Shell
from tests.agent_kit import call, call_message, open_stage, script_model
from tests.unit.world.permissions.people import YES, Person
from tests.unit.world.shell.boxing import Box, box

__all__ = ["box"]


def test_a_result_says_that_it_ran_in_the_sandbox(box: Box) -> None:
    assert box.run("echo hi") == "exit code 0 (in the sandbox)\nhi\n"
    assert box.run("kill -9 $$").startswith("exit code 137 (128 + SIGKILL) (in the sandbox)")
    bare = Shell(box.work, box.around / "outputs")
    assert asyncio.run(bare.run("echo hi")) == "exit code 0\nhi\n"


def test_a_result_lists_what_is_not_kept(box: Box) -> None:
    result = box.run("echo x > $TMPDIR/report.html; echo y > /var/tmp/notes; echo z > kept")
    assert "[not kept: notes, report.html in /tmp" in result
    assert "not kept" not in box.run("echo x > $TMPDIR/report.html; echo z > kept"), "not new"
    many = box.run("touch $TMPDIR/{1..9}; mkdir $TMPDIR/.cache")
    assert "[not kept: 1, 2, 3, 4, 5 and 4 more in /tmp" in many


def test_a_working_folder_in_tmp_is_not_called_lost(box: Box) -> None:
    """bubblewrap creates its mount point in the sandbox's own `/tmp`."""
    box.wanted["temporary"] = box.around
    assert box.run("echo z > kept") == "exit code 0 (in the sandbox)\n(no output)"


def test_a_question_says_where_the_command_will_run(box: Box, tmp_path: Path) -> None:
    notes = {}
    for name, shell in (
        ("sandbox", box.shell()),
        ("bare", Shell(box.work, box.around / "outputs")),
    ):
        person = Person([YES])
        world = LocalWorld([shell.tool], folder=box.work, permissions=Permissions("ask"))
        world.user = person
        model = script_model(main=[call_message(call("bash", command="true")), "Done."])
        (tmp_path / name).mkdir()
        one = open_stage(tmp_path / name, model, runtime=AgentRuntime(model=model, world=world))
        one.ask("Go.")
        notes[name] = person.wanted[0].note
        assert notes[name] in one.log.read_text(), "the question in the log says so, too"
    assert notes["sandbox"] == (
        "It runs in the sandbox: no network, it can write in the working folder."
    )
    assert notes["bare"] == "It runs without a sandbox, with all your rights."


def test_a_user_at_a_plain_terminal_reads_it() -> None:
    from harken.world.user import ApprovalRequest

    told: list[str] = []
    user = PlainUser(lambda _: "yes", told.append)
    wanted = ApprovalRequest(
        agent="main", tool="bash", subject="ls", preview="ls", note="In the sandbox."
    )
    assert asyncio.run(user.approve(wanted)).allowed
    assert told == ["main requests bash:\nls", "In the sandbox."]
