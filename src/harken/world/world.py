"""The World: the tools that exist, and the folder that agents live in.

Whatever an agent does outside the tree of agents goes through `call_tool`: parsed, permitted, one
change at a time, and whatever fails is a result. An agent's own list says which of the tools it
may use. The only state is what agents know of files, and variables that tools and hooks share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from harken.core.arguments import check_arguments
from harken.core.logged_string import LoggedString
from harken.core.messages import FunctionCall
from harken.world.files.read_state import KnownFiles
from harken.world.files.regular_file import load
from harken.world.files.root import Root
from harken.world.loop_lock import LoopLock, ReentrantHold
from harken.world.mcp.servers import PREFIX, McpServers, granted_to
from harken.world.permissions.permissions import FREE, PermissionRequest, Permissions
from harken.world.result import InvalidArguments, ToolError, ToolResult, run_catching
from harken.world.tool import Function, Tool, ToolContext, parse, tool
from harken.world.triggers.sources import Sources
from harken.world.user import User
from harken.world.web.search import Web


@check_arguments
class World:
    """What agents can act on."""

    def __init__(
        self,
        tools: Iterable[Tool | Function] = (),
        *,
        folder: str | Path | None = None,
        user: User | None = None,
        permissions: Permissions | None = None,
        mcp: McpServers | None = None,
    ) -> None:
        """Make a world of these tools; `folder` is where relative paths start.

        A plain function is made a tool as `tool` does.
        `user` is whom agents can ask; `permissions` says what needs the user's leave (None:
        nothing does); `mcp` are servers whose tools come when they are connected (`ready`).
        Raises ValueError where two tools have one name.
        """
        self.tools: dict[str, Tool] = {}
        self.folder = None if folder is None else Path(folder)
        self.user = user
        self.permissions = permissions
        self.sources: Sources | None = None
        """What can wake agents; None: nothing. Somebody has to listen (`Conversation.listen`)."""
        self.web: Web | None = None
        """Where agents search the web; None: nowhere."""
        self.variables: dict[str, Any] = {}
        """What tools and hooks share; it lasts as long as the process."""
        self.environment: dict[str, str] = {}
        """Variables that hooks set for the programs that agents run."""
        self.known = KnownFiles(self.folder)
        """What each agent knows of files; tools and hooks read it."""
        self.mcp = mcp
        """The connections to MCP servers; tools and hooks read them. None: there can be none."""
        self._changing: defaultdict[str, LoopLock] = defaultdict(LoopLock)
        """By what is changed: see `ToolStats.changes`."""
        for given in tools:
            made = given if isinstance(given, Tool) else tool(given)
            if made.name in self.tools:
                raise ValueError(f"World: two tools are named {made.name}")
            self.tools[made.name] = made
        self._own = dict(self.tools)
        if mcp is not None:
            mcp.on_tools = self._take_tools

    async def wait_ready(self, servers: Collection[str] = ()) -> None:
        """Wait until the tools are there that come from elsewhere; one that cannot come is told of.

        Whoever asks a model waits for it. `servers` are those that the asking agent was given
        by name. Raises nothing, and costs nothing where they are there.
        """
        if self.mcp is not None:
            await self.mcp.ready(servers)

    async def close(self) -> None:
        """End the connections to elsewhere. They would end with the event loop, too."""
        if self.mcp is not None:
            await self.mcp.close()

    def _take_tools(self) -> None:
        """Have the tools that servers have now, behind its own."""
        assert self.mcp is not None
        gone = [name for name in self.tools if name not in self._own]
        for name in gone:
            del self.tools[name]
        for name, offered in self.mcp.tools.items():
            self.tools.setdefault(name, offered)

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Run a tool for an agent; what goes wrong is the result.

        Whether this agent may use the tool was checked by then. Raises what `caught` raises.
        """
        return await run_catching(action.name, self._do(action, caller))

    async def _do(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        tool = self.tools.get(action.name)
        if tool is None:
            raise InvalidArguments(f"there is no tool {action.name!r}")
        arguments = parse(action.name, action.arguments)
        if self.permissions is not None:
            checked = tool.check(arguments)
            await self.permissions.check(tool, checked, caller, self.folder)
            wish = PermissionRequest.of(tool, checked, caller, self.folder)
            caller = replace(caller, denies_path=self.permissions.keeps(wish))
        async with nullcontext() if tool.reads_only else self.exclusive(tool.changed_resource):
            caller.agent.session.sync()  # all that led to what happens now is safe
            content = await tool.run(arguments, caller)
        if isinstance(content, LoggedString):
            return ToolResult(str(content), substance=content.message_id)
        return ToolResult(content)

    def exclusive(self, what: str = "") -> ReentrantHold:
        """Hold what a tool changes: one at a time, whichever subtree it acts for.

        A tool that lets agents act while it runs holds the world for them: their tools wait for
        each other, not for it.
        """
        return ReentrantHold(self._changing[what])

    async def instructions(self, given: str, caller: ToolContext) -> str:
        """Return the instructions that `file:PATH` or `mcp:SERVER/URI` name. Raises ToolError.

        What an agent may not read just so, it may not have as instructions either.
        """
        if not given.startswith(PREFIX):
            return self.read_instructions(given.removeprefix("file:"), caller)
        resource, reader = given.removeprefix(PREFIX), self.tools.get("mcp_read")
        if self.mcp is None:
            raise ToolError("this world has no MCP servers")
        if self.permissions is not None and reader is not None:
            wish = PermissionRequest.of(reader, {"resource": resource}, caller, self.folder)
            if self.permissions.decide(wish) != FREE:
                raise ToolError(f"{resource} may not just be read: `mcp_read` it, and pass it on")
        return await self.mcp.resource_text(resource, granted_to(caller))

    def read_instructions(self, path: str, caller: ToolContext | None = None) -> str:
        """Return the text of an instructions file below the folder, as it is now.

        What an agent may not `read` just so, it may not have as instructions either. Raises
        ToolError.
        """
        if self.folder is None:
            raise ToolError("this world has no folder to read instructions from")
        root = Root(self.folder)
        file = root.resolve(path)
        reader = self.tools.get("read")
        if caller is not None and self.permissions is not None and reader is not None:
            wish = PermissionRequest.of(reader, {"path": path}, caller, self.folder)
            if self.permissions.decide(wish) != FREE:
                raise ToolError(
                    f"{root.shown(file)} may not just be read: `read` it, and pass it on"
                )
        try:
            return load(root, file).data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{root.shown(file)} is not UTF-8") from None
