"""The schema of exported tables: names, types and descriptions of columns.

The schema is data, from which the files and their documentation are generated. Each table is a
query over the session index with the same ids, so tables are joined in the same way.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SCHEMA_VERSION = 1
"""Incremented when a column changes its name, type or meaning, but not for new columns."""

Kind: TypeAlias = Literal["int64", "double", "string", "bool", "timestamp", "ctx", "hash"]
"""`timestamp`: microseconds, UTC. `ctx`: `ctx-` and 64 hex digits. `hash`: 64 hex digits. The last
two are strings."""


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of an exported table."""

    name: str
    kind: Kind
    description: str
    value: str = ""
    """An SQL expression; if empty, the column of the same name."""

    @property
    def sql(self) -> str:
        """The SQL expression of the column."""
        return self.value or f"{{table}}.{self.name}"


@dataclass(frozen=True, slots=True)
class TableSchema:
    """A table, exported to a file of the same name."""

    name: str
    description: str
    columns: tuple[TableColumn, ...]
    joins: str = ""
    session: str = "{table}.session_id"
    """An SQL expression for the session of a row."""

    @property
    def query(self) -> str:
        """The SQL query, in the order of row ids. `{scope}` is a condition on `sessions`."""
        values = ", ".join(column.sql for column in self.columns)
        text = f"SELECT {values} FROM {{table}} {self.joins} WHERE {self.session} IN "  # noqa: S608
        text += "(SELECT id FROM sessions WHERE {scope}) ORDER BY {table}.rowid"
        return text.replace("{table}", self.name)


def _ctx(name: str, alias: str, says: str) -> TableColumn:
    return TableColumn(name, "ctx", says, f"{alias}.name")


_SESSION = TableColumn("session_id", "int64", "sessions.id")
_AGENT = TableColumn("agent_id", "int64", "agents.id")
_COMMIT_OF_MESSAGE = "LEFT JOIN commits AS held ON held.id = messages.commit_id"

TABLES: tuple[TableSchema, ...] = (
    TableSchema(
        "sessions",
        "A session of any runtime.",
        (
            TableColumn("id", "int64", "Joins the others"),
            TableColumn(
                "name", "string", "`claude:0f1e...`; of Harken itself: the id of its session"
            ),
            TableColumn("runtime", "string", "`claude`, `codex`, `pi`, ..., `harken`"),
            TableColumn("native", "string", "What the runtime calls it"),
            TableColumn("title", "string", "Empty: it has none"),
            TableColumn("project", "string", "The folder in which it worked; empty: not known"),
            TableColumn("version", "string", "Of the runtime, the last one"),
            TableColumn("source", "string", "The file that was read last; empty: there is none"),
            TableColumn("began", "timestamp", "Its first message"),
            TableColumn("ended", "timestamp", "Its last message"),
            TableColumn("outcome", "string", "`success`, `error_max_turns`, ... where it is known"),
        ),
        session="{table}.id",
    ),
    TableSchema(
        "agents",
        "An agent of a session: the main conversation, or a subagent.",
        (
            TableColumn("id", "int64", "Joins the others"),
            _SESSION,
            TableColumn("name", "string", "Empty: the main conversation"),
            TableColumn("principal", "string", "As its commits say"),
            TableColumn("template", "string", "What kind of agent; empty: not known"),
            TableColumn("parent_id", "int64", "agents.id of the agent that spawned it"),
            _ctx("tip", "tip", "Its newest commit: `harken resume` goes on from here"),
        ),
        "LEFT JOIN commits AS tip ON tip.id = agents.tip_id",
    ),
    TableSchema(
        "commits",
        "What an agent understood at one moment.",
        (
            TableColumn("id", "int64", "Joins the others; parents are smaller"),
            TableColumn("ctx", "ctx", "Its name", "commits.name"),
            TableColumn("parent_id", "int64", "commits.id"),
            _SESSION,
            _AGENT,
            TableColumn("type", "string", "`delta`, `compaction`, `snapshot`"),
            TableColumn("checkpoint", "string", "What triggered it"),
            TableColumn("time", "timestamp", "When it was understood"),
            TableColumn("messages", "int64", "How many it holds"),
            TableColumn("tokens", "int64", "Of them, estimated"),
        ),
    ),
    TableSchema(
        "messages",
        "Something said, once, however many commits and files repeat it.",
        (
            TableColumn("id", "int64", "Joins the others"),
            TableColumn("commit_id", "int64", "commits.id: where it was said; null: in a log only"),
            _ctx("ctx", "held", "The name of that commit"),
            TableColumn("position", "int64", "In its commit or log, from 0"),
            _SESSION,
            _AGENT,
            TableColumn("role", "string", "`system`, `user`, `assistant`, `tool`"),
            TableColumn(
                "kind",
                "string",
                "`prompt` (a person), `system` (the runtime, or another agent), `response`, "
                "`tool_result`, `summary`, `error` (of the API)",
            ),
            TableColumn("time", "timestamp", "When it was said"),
            TableColumn(
                "hash", "hash", "Of the message: equal ones are equal, wherever they stand"
            ),
            TableColumn("characters", "int64", "Of its texts"),
            TableColumn("thinking", "int64", "Characters of its thoughts"),
            TableColumn("images", "int64", "How many"),
            TableColumn("call_id", "string", "Of a result: which call it answers"),
            TableColumn(
                "is_error", "bool", "Of a result: whether the call failed; null: nothing says it"
            ),
            TableColumn(
                "is_repeat",
                "bool",
                "It says another row again: a compaction, a copy",
            ),
        ),
        _COMMIT_OF_MESSAGE,
    ),
    TableSchema(
        "tool_calls",
        "A call of a tool, and how it went.",
        (
            TableColumn("id", "int64", "Joins the others"),
            TableColumn("message_id", "int64", "messages.id of the answer that asked for it"),
            _SESSION,
            _AGENT,
            TableColumn("name", "string", "Of the tool"),
            TableColumn("call_id", "string", "As the provider calls it"),
            TableColumn("time", "timestamp", "When it was asked for"),
            TableColumn("arguments", "int64", "Characters"),
            TableColumn("result_id", "int64", "messages.id of the result; null: there is none"),
            TableColumn(
                "is_error", "bool", "Whether it failed; null: no result, or nothing says it"
            ),
            TableColumn("duration_us", "int64", "Until the result", "tool_calls.duration"),
        ),
    ),
    TableSchema(
        "requests",
        "A response of a model, once, however many files it stands in.",
        (
            TableColumn("id", "int64", "Joins the others"),
            TableColumn(
                "message_id", "int64", "messages.id of the answer; null: only usage is known"
            ),
            _SESSION,
            _AGENT,
            TableColumn("response", "string", "Its id, from the provider"),
            TableColumn("model", "string", "As the provider calls it"),
            TableColumn("time", "timestamp", "When it came"),
            TableColumn("stop_reason", "string", "As the provider calls it"),
            TableColumn("input_tokens", "int64", "Read anew: neither from a cache nor into one"),
            TableColumn("cache_read_tokens", "int64", "Read from a cache"),
            TableColumn("cache_write_tokens", "int64", "Written into a cache"),
            TableColumn("output_tokens", "int64", "With those of thoughts"),
            TableColumn("reasoning_tokens", "int64", "Of `output_tokens`"),
            TableColumn("cost_usd", "double", "Null: no price is known"),
            TableColumn(
                "is_cost_told", "bool", "The runtime said it; else it is by the price list"
            ),
        ),
    ),
    TableSchema(
        "edges",
        "Which commit comes after which.",
        (
            TableColumn("parent_id", "int64", "commits.id"),
            TableColumn("child_id", "int64", "commits.id"),
            TableColumn(
                "kind", "string", "`next`, `compaction`, `spawn`, `fork` (a second `next`)"
            ),
        ),
        "JOIN commits AS child ON child.id = edges.child_id",
        session="child.session_id",
    ),
)
"""All tables, in the order of their documentation."""

TEXT = TableColumn("text", "string", "Its words: texts, thoughts, arguments; null: a log has it")
"""The last column of `messages`, if texts are exported."""
