"""The tool `why`: the message of the agent that wrote a line of code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, ClassVar

from msgspec import Meta

from harken.cli.commands.mcp_server.home_call import HomeCall
from harken.cli.commands.mcp_server.server_home import ServerHome
from harken.config.home import current_folder
from harken.terminal.text import escape_control_characters
from harken.world.page import TextOffset, format_text_page
from harken.world.result import ToolError

_STDIN = "-"
"""The name of standard input for the command; here it is the connection."""


class ExplainLines(HomeCall, frozen=True, kw_only=True):
    """Explain why code is as it is: the agent that wrote it, its reason and the user's request.

    The answer is derived from git blame and the recorded sessions of all coding agents. An
    uncertain answer says so, and a line of a person is named as theirs. It names the commit
    (ctx-...) of the agent, which `conversation` shows and `ask` asks.
    """

    name: ClassVar[str] = "why"

    target: Annotated[
        str, Meta(description="FILE:LINE, FILE:FROM-TO, FILE:FUNCTION, or a git commit.")
    ]
    revision: Annotated[str, Meta(description="The git commit of the file.")] = ""
    folder: Annotated[
        str, Meta(description="A folder of the repository, if it is not the working folder.")
    ] = ""
    full: Annotated[
        bool, Meta(description="Show the conversation from the request to the edit.")
    ] = False
    offset: TextOffset = 0

    def run(self, home: ServerHome) -> str:
        from harken.cli.commands.why.command import read_output

        for text in (self.target, self.revision, self.folder):
            _check_name(text)
        if self.target == _STDIN:
            raise ToolError("why: a diff cannot be passed; name a FILE:LINE or a commit")
        try:
            folder = current_folder() / Path(self.folder).expanduser()
        except RuntimeError:
            raise ToolError(f"{self.folder}: there is no such user") from None
        output = read_output(home.home, folder, self.target, self.revision, full=self.full)
        lines = ("".join(text for _, text in line) for line in output.lines)
        plain = (f"{escape_control_characters(line)}\n" for line in lines)
        return format_text_page(plain, offset=self.offset)


def _check_name(text: str) -> None:
    """Raise ToolError for a text that no file or commit can have as its name."""
    try:
        is_name = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        is_name = False
    if not is_name:
        raise ToolError(f"why: {text!a} is not a name of a file or a commit")
