"""`LocalWorld`: a world in this process, with its tools and the folder that they work in.

Every action outside the tree of agents goes through `call_tool`, which parses the arguments, checks
permissions, serializes changes and turns each failure into a result. The spec of an agent lists
which of the tools it may use. The only state is the file content that each agent has read, and
variables that tools and hooks share.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from contextlib import nullcontext
from pathlib import Path

from harken.core import structs
from harken.core.arguments import check_arguments
from harken.core.logged_string import LoggedString
from harken.core.messages import FunctionCall
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
from harken.world.world import World


@check_arguments
class LocalWorld(World):
    """A world whose tools run in this process: permissions, connections and shared state."""

    logs_starts = True

    def __init__(
        self,
        tools: Iterable[Tool | Function] = (),
        *,
        folder: str | Path | None = None,
        user: User | None = None,
        permissions: Permissions | None = None,
        mcp: McpServers | None = None,
    ) -> None:
        """Create a world with these tools; relative paths start at `folder`.

        A plain function is converted with `tool`.
        """
        self.tools: dict[str, Tool] = {}
        self.folder = None if folder is None else Path(folder)
        self.user = user
        self.permissions = permissions
        self.sources: Sources | None = None
        """The sources of triggers that can wake agents, or None.

        They run only while `Conversation.listen` is active.
        """
        self.web: Web | None = None
        """The web search for agents, or None if there is none."""
        self.mcp = mcp
        """The connections to MCP servers, which tools and hooks read. None if MCP is not supported.
        """
        self._changing: defaultdict[str, LoopLock] = defaultdict(LoopLock)
        """Locks by changed resource: see `Tool.changed_resource`."""
        for function in tools:
            new_tool = function if isinstance(function, Tool) else tool(function)
            if new_tool.name in self.tools:
                raise ValueError(f"LocalWorld: two tools are named {new_tool.name}")
            self.tools[new_tool.name] = new_tool
        self._local_tools = dict(self.tools)
        if mcp is not None:
            mcp.on_tools = self._refresh_mcp_tools

    async def wait_ready(self, servers: Collection[str] = ()) -> None:
        """Wait for the tools of the MCP servers; report servers that cannot connect.

        Call it before each model request. `servers` are the servers that the requesting agent was
        given by name. Raises nothing, and returns at once if all tools are available.
        """
        if self.mcp is not None:
            await self.mcp.wait_ready(servers)

    async def close(self) -> None:
        """Close the connections to MCP servers. They would also end with the event loop."""
        if self.mcp is not None:
            await self.mcp.close()

    def _refresh_mcp_tools(self) -> None:
        """Replace the tools of MCP servers by their current ones, after the local tools."""
        assert self.mcp is not None
        mcp_names = [name for name in self.tools if name not in self._local_tools]
        for name in mcp_names:
            del self.tools[name]
        for name, mcp_tool in self.mcp.tools.items():
            self.tools.setdefault(name, mcp_tool)

    async def call_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        """Run a tool for an agent; a failure becomes the result.

        The caller has already checked that the agent may use the tool. Raises what `run_catching`
        raises.
        """
        return await run_catching(action.name, self._run_tool(action, caller))

    async def _run_tool(self, action: FunctionCall, caller: ToolContext) -> ToolResult:
        tool = self.tools.get(action.name)
        if tool is None:
            raise InvalidArguments(f"tool {action.name!r} not found")
        arguments = parse(action.name, action.arguments)
        if self.permissions is not None:
            checked_arguments = tool.check(arguments)
            await self.permissions.check(tool, checked_arguments, caller, self.folder)
            request = PermissionRequest.of(tool, checked_arguments, caller, self.folder)
            caller = structs.replace(caller, denies_path=self.permissions.find_path_filter(request))
        async with nullcontext() if tool.reads_only else self.exclusive(tool.changed_resource):
            # The log up to this action must be durable before the action has an effect.
            if not tool.idempotent:
                caller.log_start()
            caller.agent.session.sync()
            content = await tool.run(arguments, caller)
        if isinstance(content, LoggedString):
            return ToolResult(str(content), substance=content.message_id)
        return ToolResult(content)

    def exclusive(self, resource: str = "") -> ReentrantHold:
        """Hold the lock of a resource that a tool changes, across all agents.

        A tool that lets agents act while it runs holds the resource for them: their tools wait for
        each other, not for it.
        """
        return ReentrantHold(self._changing[resource])

    async def instructions(self, reference: str, caller: ToolContext) -> str:
        """Return the instructions that `file:PATH` or `mcp:SERVER/URI` names. Raises ToolError.

        An agent that may not read a resource without a question may not have it as instructions.
        """
        if not reference.startswith(PREFIX):
            return self.read_instructions(reference.removeprefix("file:"), caller)
        resource, reader = reference.removeprefix(PREFIX), self.tools.get("mcp_read")
        if self.mcp is None:
            raise ToolError("this world has no MCP servers")
        if self.permissions is not None and reader is not None:
            request = PermissionRequest.of(reader, {"resource": resource}, caller, self.folder)
            if self.permissions.decide(request) != FREE:
                raise ToolError(
                    f"{resource} needs approval to be read: read it with `mcp_read`, "
                    "and pass on the text"
                )
        return await self.mcp.resource_text(resource, granted_to(caller))

    def read_instructions(self, path: str, caller: ToolContext | None = None) -> str:
        """Return the current text of an instructions file below the folder.

        An agent that may not `read` the file without a question may not have it as instructions.
        Raises ToolError.
        """
        if self.folder is None:
            raise ToolError("this world has no folder to read instructions from")
        root = Root(self.folder)
        file = root.resolve(path)
        reader = self.tools.get("read")
        if caller is not None and self.permissions is not None and reader is not None:
            request = PermissionRequest.of(reader, {"path": path}, caller, self.folder)
            if self.permissions.decide(request) != FREE:
                raise ToolError(
                    f"{root.format_name(file)} needs approval to be read: read it with `read`, "
                    "and pass on the text"
                )
        try:
            return load(root, file).data.decode()
        except UnicodeDecodeError:
            raise ToolError(f"{root.format_name(file)} is not UTF-8") from None
