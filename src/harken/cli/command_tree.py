"""The tree of commands: the name, module, one-line help and heading of each.

The table is data, so that `harken --help`, shell completion and the suggestion for a misspelled
command need no import of the commands themselves. A command's own subcommands are in its module,
except those of `sessions` and `store`, which are loaded one by one as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """The module of a command, and its one-line help."""

    target: str
    """`module:attribute`; empty for a group that consists of its subcommands only."""
    summary: str
    subcommands: Mapping[str, CommandEntry] = field(default_factory=dict)
    """The subcommands that are loaded lazily."""


def _module(name: str, summary: str) -> CommandEntry:
    return CommandEntry(f"harken.cli.commands.{name}:command", summary)


def _team(target: str, summary: str) -> CommandEntry:
    return CommandEntry(f"harken.cli.commands.team.{target}", summary)


SESSION_COMMANDS: Mapping[str, CommandEntry] = {
    "check": CommandEntry(
        "harken.cli.commands.session:check_command", "Check every line of a log."
    ),
    "repair": CommandEntry(
        "harken.cli.commands.session:repair_command",
        "Write the intact events of a log to a new file.",
    ),
    "compress": CommandEntry(
        "harken.cli.commands.session:compress_command", "Compress session logs."
    ),
    "decompress": CommandEntry(
        "harken.cli.commands.session:decompress_command", "Decompress session logs."
    ),
    "rename": CommandEntry("harken.cli.commands.session:rename_command", "Rename a session."),
}
"""The subcommands of `harken sessions`."""

STORE_COMMANDS: Mapping[str, CommandEntry] = {
    "info": _module("store", "Show the number and size of the objects in the store."),
    "retain": _module("retain", "Set the retention of commits and artifacts."),
    "gc": _module("gc", "Remove unreferenced objects from the store."),
    "fsck": _module("fsck", "Check the integrity of the store and all logs."),
    "purge": _module("purge.command", "Remove a text, such as a secret, from all stored data."),
    "bundle": _module("bundle", "Export and import sessions and commits as one file."),
}  # fmt: skip
"""The subcommands of `harken store`."""

USER_COMMANDS: Mapping[str, CommandEntry] = {
    "add": _team("user:add_command", "Add a user with rights and a quota."),
    "list": _team("user:list_command", "List the users and their rights."),
    "rights": _team("user:rights_command", "Show or replace the rights of a user."),
    "remove": _team("user:remove_command", "Remove a user and revoke all tokens."),
    "audit": _team("user:audit_command", "Show the audit log."),
}
"""The subcommands of `harken user`."""

TOKEN_COMMANDS: Mapping[str, CommandEntry] = {
    "create": _team("token:create_command", "Create a token and print it once."),
    "list": _team("token:list_command", "List the tokens of users."),
    "revoke": _team("token:revoke_command", "Revoke a token."),
}
"""The subcommands of `harken token`."""

RETENTION_COMMANDS: Mapping[str, CommandEntry] = {
    "add": _team("retention:add_command", "Add a rule: remove commits of an age, or hold them."),
    "list": _team("retention:list_command", "List the rules and holds."),
    "remove": _team("retention:remove_command", "Remove a rule or a hold."),
    "apply": _team("retention:apply_command", "Remove the commits that have expired."),
}
"""The subcommands of `harken retention`."""

SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Run": {
        "demo": _module("demo", "Run a demo of two agents, offline."),
        "chat": _module("chat.command", "Chat with an agent; the session is recorded."),
        "agent": _module("agent", "Run an agent without a chat, also on triggers."),
        "agents": _module("review.watch", "Run the agents that changes of tickets start."),
        "review": _module("review.command", "Let reviewers read a change and file findings."),
        "discuss": _module("review.discuss", "Ask the reviewer of a finding."),
    },
    "Inspect": {
        "sessions": CommandEntry(
            "harken.cli.commands.sessions.command:command",
            "List, check, repair, compress and rename sessions.",
            SESSION_COMMANDS,
        ),
        "ui": _module("ui.command", "Show the sessions in the browser."),
        "view": _module("view.command", "Show a session: agent tree, dialog, context, and more."),
        "search": _module("search", "Search the messages of all sessions."),
        "why": _module("why.command", "Show why an agent wrote a line of a file."),
        "blame": _module("blame", "Show the agent and model of each line of a file."),
        "who": _module(
            "line_share", "Show the share of agents and persons in the lines of folders."
        ),
        "stats": _module("stats.command", "Show usage, cost and activity of all sessions."),
        "ctx": _module("ctx.command", "List, show, fork and label context commits."),
        "replay": _module("replay", "Step through the model requests of a session, or check it."),
        "compare": _module("compare", "Compare sessions: where they diverge, and their outcomes."),
        "cat": _module("cat", "Print an artifact."),
        "ticket": _module("ticket.command", "Create, change, claim and list tickets."),
    },
    "Record": {
        "import": _module("import_.command", "Import sessions of other runtimes."),
        "watch": _module("watch", "Import sessions of other runtimes while they are written."),
        "run": _module("run", "Run a client, such as claude or codex, and record it."),
        "proxy": _module("proxy.command", "Record the model requests of any client with a proxy."),
        "git": _module("git", "Record the agent of each git commit, with hooks."),
        "otlp": _module("otlp", "Record model calls from OpenTelemetry spans."),
    },
    "Resume": {
        "resume": _module("resume", "Resume a conversation in any client."),
        "verify": _module("verify", "Check that a client sends the context written for it."),
        "fork": _module("fork", "Fork a session at any message, with all of its agents."),
        "rerun": _module("rerun", "Rerun a session from any model call, with changes."),
    },
    "Store": {
        "store": CommandEntry(
            "", "Manage the store: retention, cleanup, checks, bundles.", STORE_COMMANDS
        ),
        "export": _module("export", "Export a conversation in another format, or as spans."),
        "export-tables": _module(
            "export_tables", "Export sessions, messages and calls as Parquet."
        ),
        "clone": _module("remotes.clone", "Clone the home that a service serves."),
        "pull": _module("remotes.pull", "Pull new content from a remote."),
        "push": _module("push", "Push sessions, or everything, to a remote."),
        "remote": _module("remotes.remote", "List, add and remove named remotes."),
        "serve": _module("serve", "Serve the store over HTTP."),
        "user": CommandEntry("", "Manage the users of a served store, and audit.", USER_COMMANDS),
        "token": CommandEntry("", "Create, list and revoke access tokens.", TOKEN_COMMANDS),
        "retention": CommandEntry(
            "", "Manage how long commits are kept, and legal holds.", RETENTION_COMMANDS
        ),
        "mcp-server": _module(
            "mcp_server.command", "Serve tickets, search and history to MCP clients."
        ),
    },
    "Configure": {
        "init": _module("init", "Write an initial config.toml for this machine."),
        "models": _module("models", "List models, and the keys that are missing."),
        "hooks": _module("hooks", "List and show hooks."),
        "mcp": _module("mcp.list", "List, add, test and remove MCP servers."),
        "trust": _module("trust", "Trust the configuration of a project."),
        "completion": _module("completion", "Print a shell completion script."),
    },
}
"""The commands of the first page of help, by heading."""

HIDDEN: Mapping[str, CommandEntry] = {
    "interactions": _module("interactions", "Show and export the context of each request."),
    "context": _module("context", "Print the current commit of the calling agent."),
}
"""Commands that are documented but not on the first page: programs use them more than people."""

COMMANDS: Mapping[str, CommandEntry] = {
    name: entry for section in (*SECTIONS.values(), HIDDEN) for name, entry in section.items()
}
