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


SESSION_COMMANDS: Mapping[str, CommandEntry] = {
    "check": CommandEntry(
        "harken.cli.commands.session:check_command", "Check every line of a log."
    ),
    "repair": CommandEntry(
        "harken.cli.commands.session:repair_command",
        "Write the undamaged events of a log to a new file.",
    ),
    "compress": CommandEntry("harken.cli.commands.session:compress_command", "Compress logs."),
    "decompress": CommandEntry(
        "harken.cli.commands.session:decompress_command", "Decompress logs."
    ),
    "rename": CommandEntry(
        "harken.cli.commands.session:rename_command", "Give a session another name."
    ),
}
"""The subcommands of `harken sessions`."""

STORE_COMMANDS: Mapping[str, CommandEntry] = {
    "info": _module("store", "Count the objects of the store, and their size."),
    "retain": _module("retain", "Set how long commits and artifacts are kept."),
    "gc": _module("gc", "Remove unreferenced objects from the store."),
    "fsck": _module("fsck", "Check the store and all logs; change nothing."),
    "purge": _module("purge.command", "Remove a leaked secret from everything that is kept."),
    "bundle": _module("bundle", "Write sessions and commits to one file, or read one."),
}  # fmt: skip
"""The subcommands of `harken store`."""

SECTIONS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Talk": {
        "demo": _module("demo", "Watch two agents meet in a cafe: offline, in seconds."),
        "chat": _module("chat.command", "Talk with an agent; everything is recorded."),
        "agent": _module("agent", "Run an agent that files, times and programs can wake."),
    },
    "Look": {
        "sessions": CommandEntry(
            "harken.cli.commands.sessions.command:command",
            "List sessions; check, repair, compress and rename their logs.",
            SESSION_COMMANDS,
        ),
        "view": _module("view.command", "Look at a session: tree, dialog, context, and more."),
        "search": _module("search", "Search the messages of all sessions."),
        "stats": _module("stats.command", "Show what all sessions did, and what it took."),
        "ctx": _module("ctx.command", "List and show commits: what agents understood, and when."),
        "replay": _module("replay", "Step through a session, request by request, or check it."),
        "compare": _module("compare", "Show where sessions diverge, and with what outcome."),
        "cat": _module("cat", "Print the bytes of an artifact."),
    },
    "Bring in": {
        "import": _module("import_.command", "Import the conversations of other runtimes."),
        "watch": _module("watch", "Import what other runtimes write, as they write it."),
        "run": _module("run", "Run a client such as claude or codex, and record it."),
        "proxy": _module("proxy.command", "Record the requests of any client to its model."),
        "otlp": _module("otlp", "Record the model calls that programs emit as spans."),
    },
    "Go on": {
        "resume": _module("resume", "Continue a conversation in any client."),
        "verify": _module("verify", "Verify that a client sends the context written for it."),
        "rerun": _module("rerun", "Continue from any model call, with something changed."),
    },
    "Keep": {
        "store": CommandEntry(
            "", "Look after the store: retention, cleanup, checks, bundles.", STORE_COMMANDS
        ),
        "export": _module("export", "Write a conversation in another format, or as spans."),
        "export-tables": _module("export_tables", "Write sessions, messages and calls as Parquet."),
        "push": _module("push", "Send sessions and their commits to another service."),
        "serve": _module("serve", "Serve the store over HTTP to other programs."),
    },
    "Set up": {
        "init": _module("init", "Write a first config.toml from what this machine has."),
        "models": _module("models", "List the models that can be used, and what others need."),
        "hooks": _module("hooks", "List the hooks that can watch agents, and show one."),
        "mcp": _module("mcp.list", "List, add and test MCP servers."),
        "trust": _module("trust", "Trust the .harken/ folder of a project."),
        "completion": _module("completion", "Print the completion script for a shell."),
    },
}
"""The commands of the first page of help, by heading."""

HIDDEN: Mapping[str, CommandEntry] = {
    "interactions": _module("interactions", "Show and export what each request saw."),
    "context": _module("context", "Print the commit of the agent that runs a program."),
}
"""Commands that are documented but not on the first page: programs use them more than people."""

COMMANDS: Mapping[str, CommandEntry] = {
    name: entry for section in (*SECTIONS.values(), HIDDEN) for name, entry in section.items()
}
