"""The schema of exported tables: names, types and descriptions of columns.

The schema is data, from which the files and their documentation are generated. Each table is a
query over the session index with the same ids, so tables are joined in the same way.

Source: docs/formats/tables.md.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

SCHEMA_VERSION = 1
"""Incremented when a column changes its name, type or meaning, but not for new columns."""

Kind: TypeAlias = Literal["int64", "double", "string", "bool", "timestamp", "ctx", "hash"]
"""`timestamp`: microseconds, UTC. `ctx`: `ctx-` and 64 hex digits. `hash`: 64 hex digits. The last
two are strings."""


class TableColumn(msgspec.Struct, frozen=True):
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


class TableSchema(msgspec.Struct, frozen=True):
    """A table, exported to a file of the same name."""

    name: str
    description: str
    columns: tuple[TableColumn, ...]
    joins: str = ""
    session: str = "{table}.session_id"
    """An SQL expression for the session of a row."""
    time: str = "{table}.time"
    """An SQL expression for the time by which rows are partitioned, in microseconds."""

    @property
    def query(self) -> str:
        """The SQL query, in the order of row ids. `{scope}` is a condition on `sessions`."""
        return self._select("TRUE")

    @property
    def month_query(self) -> str:
        """The SQL query for the rows from `:month_start` to before `:month_end`."""
        return self._select(f"{self.time} >= :month_start AND {self.time} < :month_end")

    @property
    def timeless_query(self) -> str:
        """The SQL query for the rows without a time."""
        return self._select(f"{self.time} IS NULL")

    @property
    def timed_query(self) -> str:
        """The SQL query for all rows, with their times in a first column."""
        return self._select("TRUE", f"{self.time}, ")

    def _select(self, condition: str, first: str = "") -> str:
        values = first + ", ".join(column.sql for column in self.columns)
        text = f"SELECT {values} FROM {{table}} {self.joins} WHERE {self.session} IN "  # noqa: S608
        text += "(SELECT id FROM sessions WHERE {scope})"
        text += f" AND {condition} ORDER BY {{table}}.rowid"
        return text.replace("{table}", self.name)


def _ctx(name: str, alias: str, says: str) -> TableColumn:
    return TableColumn(name, "ctx", says, f"{alias}.name")


_SESSION = TableColumn("session_id", "int64", "sessions.id")
_AGENT = TableColumn("agent_id", "int64", "agents.id")
_SESSION_TIME = "(SELECT began FROM sessions WHERE sessions.id = {table}.session_id)"
_COMMIT_OF_MESSAGE = "LEFT JOIN commits AS held ON held.id = messages.commit_id"

TABLES: tuple[TableSchema, ...] = (
    TableSchema(
        "sessions",
        "A session of any runtime.",
        (
            TableColumn("id", "int64", "Key"),
            TableColumn("name", "string", "`claude:0f1e...`; for Harken, the session id"),
            TableColumn("runtime", "string", "`claude`, `codex`, `pi`, ..., `harken`"),
            TableColumn("native", "string", "The runtime's id of the session"),
            TableColumn("title", "string", "The title; empty: none"),
            TableColumn("project", "string", "The working folder; empty: unknown"),
            TableColumn("version", "string", "The last version of the runtime"),
            TableColumn("source", "string", "The last file that was read; empty: none"),
            TableColumn("began", "timestamp", "Time of the first message"),
            TableColumn("ended", "timestamp", "Time of the last message"),
            TableColumn("outcome", "string", "`success`, `error_max_turns`, ... if known"),
            TableColumn("log", "string", "The session id in its log; empty: no log has it"),
        ),
        session="{table}.id",
        time="{table}.began",
    ),
    TableSchema(
        "agents",
        "An agent of a session: the main conversation, or a subagent.",
        (
            TableColumn("id", "int64", "Key"),
            _SESSION,
            TableColumn("name", "string", "The name; empty: the main conversation"),
            TableColumn("principal", "string", "The principal of its commits"),
            TableColumn("template", "string", "The agent's template; empty: unknown"),
            TableColumn("parent_id", "int64", "agents.id of the agent that spawned it"),
            _ctx("tip", "tip", "The newest commit; `harken resume` continues from it"),
            TableColumn(
                "relation",
                "string",
                "`primary`, `subagent`, `hook`: as created; null: no log of Harken has it",
            ),
            TableColumn("place", "string", "Its last place: one of these, or `gone`"),
        ),
        "LEFT JOIN commits AS tip ON tip.id = agents.tip_id",
        time=_SESSION_TIME,
    ),
    TableSchema(
        "commits",
        "A commit of an agent's context.",
        (
            TableColumn("id", "int64", "Key; greater than the id of the parent"),
            TableColumn("ctx", "ctx", "The commit id", "commits.name"),
            TableColumn("parent_id", "int64", "commits.id"),
            _SESSION,
            _AGENT,
            TableColumn("type", "string", "`delta`, `compaction`, `snapshot`"),
            TableColumn("checkpoint", "string", "The trigger of the commit"),
            TableColumn("time", "timestamp", "Creation time"),
            TableColumn("messages", "int64", "Number of messages"),
            TableColumn("tokens", "int64", "Estimated tokens of the messages"),
            TableColumn(
                "is_repeat", "bool", "Whether it is a compaction that a recording has, too"
            ),
        ),
    ),
    TableSchema(
        "messages",
        "A message, once, however many commits and files repeat it.",
        (
            TableColumn("id", "int64", "Key"),
            TableColumn(
                "commit_id", "int64", "commits.id of its first commit; null: in a log only"
            ),
            _ctx("ctx", "held", "The id of that commit"),
            TableColumn("position", "int64", "Position in its commit or log, from 0"),
            _SESSION,
            _AGENT,
            TableColumn("role", "string", "`system`, `user`, `assistant`, `tool`"),
            TableColumn(
                "kind",
                "string",
                "`prompt` (a person), `system` (the runtime, or another agent), `response`, "
                "`tool_result`, `summary`, `error` (of the API)",
            ),
            TableColumn("time", "timestamp", "Time of the message"),
            TableColumn("hash", "hash", "Hash of the message: equal content has an equal hash"),
            TableColumn("characters", "int64", "Characters of its texts"),
            TableColumn("thinking", "int64", "Characters of its thinking"),
            TableColumn("images", "int64", "Number of images"),
            TableColumn("call_id", "string", "For a result: the call that it answers"),
            TableColumn("is_error", "bool", "For a result: whether the call failed; null: unknown"),
            TableColumn(
                "is_repeat",
                "bool",
                "Whether it repeats another row: a compaction, a copy",
            ),
            TableColumn("event", "string", "Its id in the log of Harken: `msg_035`; null: in none"),
            TableColumn(
                "substance", "string", "The event that it represents; null: it is an original"
            ),
            TableColumn(
                "cause", "string", "The events or calls that caused it, separated by commas"
            ),
            TableColumn(
                "purpose",
                "string",
                "Why Harken wrote it: `question`, `comment`, `returned`, ...; null: somebody said "
                "it",
            ),
            TableColumn(
                "closed",
                "string",
                "For a result: why the call has none of its own: `denied`, `refused`, ...",
            ),
            TableColumn(
                "part_of",
                "int64",
                "For an answer that a log has as several messages: messages.id of the last; null: "
                "the last one, or whole",
            ),
        ),
        _COMMIT_OF_MESSAGE,
    ),
    TableSchema(
        "tool_calls",
        "A tool call and its outcome.",
        (
            TableColumn("id", "int64", "Key"),
            TableColumn("message_id", "int64", "messages.id of the answer with the call"),
            _SESSION,
            _AGENT,
            TableColumn("name", "string", "The tool"),
            TableColumn("call_id", "string", "The provider's id of the call"),
            TableColumn("time", "timestamp", "Time of the call"),
            TableColumn("arguments", "int64", "Characters of the arguments"),
            TableColumn("result_id", "int64", "messages.id of the result; null: none"),
            TableColumn("is_error", "bool", "Whether it failed; null: no result, or unknown"),
            TableColumn(
                "duration_us", "int64", "Microseconds until the result", "tool_calls.duration"
            ),
        ),
    ),
    TableSchema(
        "verdicts",
        "A verdict of a hook on a message or call, in a session of Harken.",
        (
            TableColumn("id", "int64", "Key"),
            _SESSION,
            TableColumn("agent_id", "int64", "agents.id of the agent that was judged"),
            TableColumn("hook_id", "int64", "agents.id of the hook"),
            TableColumn("event", "string", "The id of the verdict in the log"),
            TableColumn(
                "subject", "string", "The message or call that was judged: `msg_003.call_abc`"
            ),
            TableColumn(
                "message_id", "int64", "messages.id of that message, or of the call's message"
            ),
            TableColumn("point", "string", "`input`, `action`, `result`, `response`"),
            TableColumn("verdict", "string", "`ok`, `comment`, `deny`, `rewrite`, `stop`"),
            TableColumn("is_failure", "bool", "Whether the hook failed, so that code decided"),
            TableColumn("time", "timestamp", "Time of the verdict"),
        ),
    ),
    TableSchema(
        "interlocutors",
        "An agent that takes part in the discussions of another, in a session of Harken.",
        (
            TableColumn("id", "int64", "Key"),
            _SESSION,
            TableColumn("agent_id", "int64", "agents.id of the agent that discusses"),
            TableColumn("interlocutor_id", "int64", "agents.id of the agent that takes part"),
            TableColumn("role", "string", "`speaker`, `listener`"),
            TableColumn(
                "event",
                "string",
                "The id of the event that set them; it replaces those of the agent's earlier ones",
            ),
            TableColumn(
                "cause", "string", "The events or calls that caused it, with commas between"
            ),
            TableColumn("time", "timestamp", "Time of the event"),
        ),
    ),
    TableSchema(
        "requests",
        "A response of a model, once, however many files contain it.",
        (
            TableColumn("id", "int64", "Key"),
            TableColumn(
                "message_id", "int64", "messages.id of the answer; null: only the usage is known"
            ),
            _SESSION,
            _AGENT,
            TableColumn("response", "string", "The provider's id of the response"),
            TableColumn("model", "string", "The provider's name of the model"),
            TableColumn("time", "timestamp", "Time of the response"),
            TableColumn("stop_reason", "string", "The provider's stop reason"),
            TableColumn(
                "input_tokens", "int64", "Input neither read from a cache nor written to one"
            ),
            TableColumn("cache_read_tokens", "int64", "Input read from a cache"),
            TableColumn("cache_write_tokens", "int64", "Input written to a cache"),
            TableColumn("output_tokens", "int64", "Output, including thinking"),
            TableColumn("reasoning_tokens", "int64", "Thinking, part of `output_tokens`"),
            TableColumn("cost_usd", "double", "Cost; null: no price is known"),
            TableColumn(
                "is_cost_told",
                "bool",
                "Whether the runtime reported the cost; else computed from the price list",
            ),
            TableColumn("is_recorded", "bool", "Whether a log has it"),
        ),
    ),
    TableSchema(
        "scores",
        "A score of a session, as an evaluation reports it.",
        (
            TableColumn("id", "int64", "Key"),
            _SESSION,
            TableColumn("sample", "string", "The sample, task or question; empty: none"),
            TableColumn("scorer", "string", "The scorer"),
            TableColumn("value", "string", "JSON: a number, a text, or an object"),
            TableColumn("number", "double", "The value as a number; null: it has none"),
            TableColumn("answer", "string", "What was scored; empty: unknown"),
            TableColumn("explanation", "string", "The scorer's explanation; empty: none"),
            TableColumn("metadata", "string", "JSON: an object"),
        ),
        time=_SESSION_TIME,
    ),
    TableSchema(
        "labels",
        "An annotator's label of a session, an agent or a message.",
        (
            TableColumn("id", "int64", "Key"),
            _SESSION,
            TableColumn("agent_id", "int64", "agents.id of the agent that it names; null: none"),
            TableColumn(
                "message_id", "int64", "messages.id of the message that it names; null: none"
            ),
            TableColumn("name", "string", "What it reports: `mistake`"),
            TableColumn("value", "string", "The value, as the file has it"),
            TableColumn("agent", "string", "The name of the agent, as the file has it"),
            TableColumn("explanation", "string", "The annotator's explanation; empty: none"),
            TableColumn("metadata", "string", "JSON: an object"),
        ),
        time=_SESSION_TIME,
    ),
    TableSchema(
        "edges",
        "Edges of the commit graph.",
        (
            TableColumn("parent_id", "int64", "commits.id"),
            TableColumn("child_id", "int64", "commits.id"),
            TableColumn(
                "kind", "string", "`next`, `compaction`, `spawn`, `fork` (a second `next`)"
            ),
        ),
        "JOIN commits AS child ON child.id = edges.child_id",
        session="child.session_id",
        time="child.time",
    ),
)
"""All tables, in the order of their documentation."""

TEXT = TableColumn(
    "text", "string", "Texts, thinking and arguments; null: in a log only, or deleted"
)
"""The last column of `messages`, if texts are exported."""
