"""The columns of the tables that other programs read: their names, types and meaning.

One idea: the schema is data, from which the files and their documentation are made. A table here is
a query over the facts; ids are those of `harken.index.schema`, so tables join as they do there.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

SCHEMA_VERSION = 1
"""Counts up when a column changes its name, type or meaning; new columns do not count."""

Kind: TypeAlias = Literal["int64", "double", "string", "bool", "timestamp", "ctx", "hash"]
"""`timestamp`: microseconds, UTC. `ctx`: `ctx-` and 64 hex digits. `hash`: 64 hex digits. The last
two are strings."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column."""

    name: str
    kind: Kind
    says: str
    value: str = ""
    """An SQL expression; empty: the column of the same name."""

    @property
    def sql(self) -> str:
        """What a query asks for."""
        return self.value or f"{{table}}.{self.name}"


@dataclass(frozen=True, slots=True)
class Table:
    """A table, and the file of its name."""

    name: str
    says: str
    columns: tuple[Column, ...]
    joins: str = ""
    session: str = "{table}.session_id"
    """An SQL expression: which session a row belongs to."""

    @property
    def query(self) -> str:
        """The rows in the order of their ids; `{scope}`: a condition on `sessions`."""
        values = ", ".join(column.sql for column in self.columns)
        text = f"SELECT {values} FROM {{table}} {self.joins} WHERE {self.session} IN "  # noqa: S608
        text += "(SELECT id FROM sessions WHERE {scope}) ORDER BY {table}.rowid"
        return text.replace("{table}", self.name)


def _ctx(name: str, alias: str, says: str) -> Column:
    return Column(name, "ctx", says, f"{alias}.name")


_SESSION = Column("session_id", "int64", "sessions.id")
_AGENT = Column("agent_id", "int64", "agents.id")
_COMMIT_OF_MESSAGE = "LEFT JOIN commits AS held ON held.id = messages.commit_id"

TABLES: tuple[Table, ...] = (
    Table(
        "sessions",
        "A session of any runtime.",
        (
            Column("id", "int64", "Joins the others"),
            Column("name", "string", "`claude:0f1e...`; of Harken itself: the id of its session"),
            Column("runtime", "string", "`claude`, `codex`, `pi`, ..., `harken`"),
            Column("native", "string", "What the runtime calls it"),
            Column("title", "string", "Empty: it has none"),
            Column("project", "string", "The folder in which it worked; empty: not known"),
            Column("version", "string", "Of the runtime, the last one"),
            Column("source", "string", "The file that was read last; empty: there is none"),
            Column("began", "timestamp", "Its first message"),
            Column("ended", "timestamp", "Its last message"),
            Column("outcome", "string", "`success`, `error_max_turns`, ... where it is known"),
        ),
        session="{table}.id",
    ),
    Table(
        "agents",
        "An agent of a session: the main conversation, or a subagent.",
        (
            Column("id", "int64", "Joins the others"),
            _SESSION,
            Column("name", "string", "Empty: the main conversation"),
            Column("principal", "string", "As its commits say"),
            Column("template", "string", "What kind of agent; empty: not known"),
            Column("parent_id", "int64", "agents.id of the agent that spawned it"),
            _ctx("tip", "tip", "Its newest commit: `harken resume` goes on from here"),
        ),
        "LEFT JOIN commits AS tip ON tip.id = agents.tip_id",
    ),
    Table(
        "commits",
        "What an agent understood at one moment.",
        (
            Column("id", "int64", "Joins the others; parents are smaller"),
            Column("ctx", "ctx", "Its name", "commits.name"),
            Column("parent_id", "int64", "commits.id"),
            _SESSION,
            _AGENT,
            Column("type", "string", "`delta`, `compaction`, `snapshot`"),
            Column("checkpoint", "string", "What triggered it"),
            Column("time", "timestamp", "When it was understood"),
            Column("messages", "int64", "How many it holds"),
            Column("tokens", "int64", "Of them, estimated"),
        ),
    ),
    Table(
        "messages",
        "Something said, once, however many commits and files repeat it.",
        (
            Column("id", "int64", "Joins the others"),
            Column("commit_id", "int64", "commits.id: where it was said; null: in a log only"),
            _ctx("ctx", "held", "The name of that commit"),
            Column("position", "int64", "In its commit or log, from 0"),
            _SESSION,
            _AGENT,
            Column("role", "string", "`system`, `user`, `assistant`, `tool`"),
            Column(
                "kind",
                "string",
                "`prompt` (a person), `system` (the runtime, or another agent), `response`, "
                "`tool_result`, `summary`, `error` (of the API)",
            ),
            Column("time", "timestamp", "When it was said"),
            Column("hash", "hash", "Of the message: equal ones are equal, wherever they stand"),
            Column("characters", "int64", "Of its texts"),
            Column("thinking", "int64", "Characters of its thoughts"),
            Column("images", "int64", "How many"),
            Column("call_id", "string", "Of a result: which call it answers"),
            Column(
                "is_error", "bool", "Of a result: whether the call failed; null: nothing says it"
            ),
            Column(
                "is_repeat",
                "bool",
                "It says another row again: a compaction, a copy",
            ),
        ),
        _COMMIT_OF_MESSAGE,
    ),
    Table(
        "tool_calls",
        "A call of a tool, and how it went.",
        (
            Column("id", "int64", "Joins the others"),
            Column("message_id", "int64", "messages.id of the answer that asked for it"),
            _SESSION,
            _AGENT,
            Column("name", "string", "Of the tool"),
            Column("call_id", "string", "As the provider calls it"),
            Column("time", "timestamp", "When it was asked for"),
            Column("arguments", "int64", "Characters"),
            Column("result_id", "int64", "messages.id of the result; null: there is none"),
            Column("is_error", "bool", "Whether it failed; null: no result, or nothing says it"),
            Column("duration_us", "int64", "Until the result", "tool_calls.duration"),
        ),
    ),
    Table(
        "requests",
        "A response of a model, once, however many files it stands in.",
        (
            Column("id", "int64", "Joins the others"),
            Column("message_id", "int64", "messages.id of the answer; null: only usage is known"),
            _SESSION,
            _AGENT,
            Column("response", "string", "Its id, from the provider"),
            Column("model", "string", "As the provider calls it"),
            Column("time", "timestamp", "When it came"),
            Column("stop_reason", "string", "As the provider calls it"),
            Column("input_tokens", "int64", "Read anew: neither from a cache nor into one"),
            Column("cache_read_tokens", "int64", "Read from a cache"),
            Column("cache_write_tokens", "int64", "Written into a cache"),
            Column("output_tokens", "int64", "With those of thoughts"),
            Column("reasoning_tokens", "int64", "Of `output_tokens`"),
            Column("cost_usd", "double", "Null: no price is known"),
            Column("is_cost_told", "bool", "The runtime said it; else it is by the price list"),
        ),
    ),
    Table(
        "edges",
        "Which commit comes after which.",
        (
            Column("parent_id", "int64", "commits.id"),
            Column("child_id", "int64", "commits.id"),
            Column("kind", "string", "`next`, `compaction`, `spawn`, `fork` (a second `next`)"),
        ),
        "JOIN commits AS child ON child.id = edges.child_id",
        session="child.session_id",
    ),
)
"""All tables, in the order of their documentation."""

TEXT = Column("text", "string", "Its words: texts, thoughts, arguments; null: a log has it")
"""The last column of `messages`, where it was asked for."""
