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
from tests.unit.world.permissions.user_kit import YES, ScriptedUser
from tests.unit.world.shell.sandbox_kit import SandboxFolders, sandbox_folders

__all__ = ["sandbox_folders"]


def test_a_result_says_that_it_ran_in_the_sandbox(sandbox_folders: SandboxFolders) -> None:
    assert sandbox_folders.run("echo hi") == "exit code 0 (in the sandbox)\nhi\n"
    assert sandbox_folders.run("kill -9 $$").startswith(
        "exit code 137 (128 + SIGKILL) (in the sandbox)"
    )
    bare = Shell(sandbox_folders.work, sandbox_folders.around / "outputs")
    assert asyncio.run(bare.run("echo hi")) == "exit code 0\nhi\n"


def test_a_result_lists_what_is_not_kept(sandbox_folders: SandboxFolders) -> None:
    result = sandbox_folders.run(
        "echo x > $TMPDIR/report.html; echo y > /var/tmp/notes; echo z > kept"
    )
    assert "[not kept: notes, report.html in /tmp" in result
    assert "not kept" not in sandbox_folders.run("echo x > $TMPDIR/report.html; echo z > kept"), (
        "not new"
    )
    many = sandbox_folders.run("touch $TMPDIR/{1..9}; mkdir $TMPDIR/.cache")
    assert "[not kept: 1, 2, 3, 4, 5 and 4 more in /tmp" in many


def test_a_working_folder_in_tmp_is_not_called_lost(sandbox_folders: SandboxFolders) -> None:
    """bubblewrap creates its mount point in the sandbox's own `/tmp`."""
    sandbox_folders.wanted["temporary"] = sandbox_folders.around
    assert sandbox_folders.run("echo z > kept") == "exit code 0 (in the sandbox)\n(no output)"


def test_a_question_says_where_the_command_will_run(
    sandbox_folders: SandboxFolders, tmp_path: Path
) -> None:
    notes = {}
    for name, shell in (
        ("sandbox", sandbox_folders.shell()),
        ("bare", Shell(sandbox_folders.work, sandbox_folders.around / "outputs")),
    ):
        person = ScriptedUser([YES])
        world = LocalWorld(
            [shell.tool], folder=sandbox_folders.work, permissions=Permissions("ask")
        )
        world.user = person
        model = script_model(main=[call_message(call("bash", command="true")), "Done."])
        (tmp_path / name).mkdir()
        one = open_stage(tmp_path / name, model, runtime=AgentRuntime(model=model, world=world))
        one.ask("Go.")
        notes[name] = person.approvals[0].note
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
