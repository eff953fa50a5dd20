"""The tables of the session index: sessions, agents, messages, tool calls and requests.

Each message has one row that counts, however many files and commits repeat it. All rows are derived
from commits, logs and the catalogue, and can be rebuilt. Search, statistics and exported tables are
queries over these tables.

Times are whole microseconds since 1970, UTC. A column that ends in `_id` is the `id` of a row of
another table. Unknown values are NULL.

Source: docs/formats/facts.md.
"""

from __future__ import annotations

APPLICATION_ID = 0x48726B66  # "Hrkf"
SCHEMA_VERSION = 9
HARKEN_RUNTIME = "harken"
"""Name of Harken itself among the runtimes."""

TABLES_SQL = """
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,      -- 'claude:0f1e...', also of a recording that knows this id;
                                    -- of Harken itself: the id of its session
    runtime TEXT NOT NULL,          -- 'claude', 'codex', 'pi', ..., 'harken'
    native TEXT NOT NULL,           -- what the runtime calls it
    title TEXT NOT NULL,            -- '' where it has none
    project TEXT NOT NULL,          -- the folder in which it worked; '' where that is not known
    version TEXT NOT NULL,          -- of the runtime, the last one
    source TEXT NOT NULL,           -- the file that was read last; '' where there is none
    began INTEGER, ended INTEGER,   -- first and last message of any of its agents, or its outcome
    outcome TEXT,                   -- 'success', 'error_max_turns', ...: where the runtime says so
    log TEXT NOT NULL               -- the session id in the log that has it; '' where there is none
) STRICT;
CREATE TABLE agents (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    name TEXT NOT NULL,             -- '' is the main conversation
    principal TEXT NOT NULL,        -- as its commits say
    template TEXT NOT NULL,         -- what kind of agent; '' where that is not known
    parent_id INTEGER,              -- the agent that spawned it
    tip_id INTEGER,                 -- its newest commit: to go on from here
    relation TEXT,                  -- 'primary', 'subagent', 'hook': as it was created; NULL: not
                                    -- from a log of Harken
    place TEXT,                     -- its place now: one of these, or 'gone'
    UNIQUE (session_id, principal)
) STRICT;
CREATE TABLE commits (
    id INTEGER PRIMARY KEY,         -- in the order in which they were read: parents first
    name BLOB NOT NULL UNIQUE,      -- the 32 bytes of ctx-...
    parent_id INTEGER,
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    type TEXT NOT NULL,             -- 'delta', 'compaction', 'snapshot'
    checkpoint TEXT NOT NULL,       -- what triggered it: 'import', 'turn_boundary', ...
    time INTEGER NOT NULL,
    messages INTEGER NOT NULL,      -- how many it holds
    tokens INTEGER NOT NULL,        -- estimated
    is_repeat INTEGER NOT NULL      -- a compaction of which a recording has a commit, too
) STRICT;
CREATE TABLE messages (
    id INTEGER PRIMARY KEY,         -- in the order of time; also the row of its words in the search
                                    -- index
    commit_id INTEGER,              -- NULL: it is in no commit, only a log has it
    position INTEGER NOT NULL,      -- in the delta of its commit, or among the messages of its log
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    role TEXT NOT NULL,             -- 'system', 'user', 'assistant', 'tool'
    kind TEXT NOT NULL,             -- 'prompt' (a person), 'system' (put in by the runtime, or
                                    -- by another agent), 'response', 'tool_result', 'summary',
                                    -- 'error' (of the API)
    time INTEGER,
    hash BLOB NOT NULL,             -- the 32 bytes of the message's name in the store
    characters INTEGER NOT NULL,    -- of its texts, arguments and thoughts aside
    thinking INTEGER NOT NULL,      -- characters of its thoughts
    images INTEGER NOT NULL,
    call_id TEXT,                   -- of a result: what it answers, as the provider calls it
    is_error INTEGER,               -- of a result: whether the call failed; NULL: nothing says it
    is_repeat INTEGER NOT NULL,     -- it says again what stands in another row: a compaction, a
                                    -- copy, or who was told what somebody else had said
    event TEXT,                     -- its id in the log of Harken: 'msg_035'; NULL: it is in none
    substance TEXT,                 -- the event that it represents; NULL: it is an original
    cause TEXT,                     -- the events or calls that caused it, with commas between
    purpose TEXT,                   -- why Harken wrote it: 'question', 'comment', 'returned', ...
    closed TEXT,                    -- of a result: why its call has none of its own: 'denied', ...
    part_of INTEGER                 -- of an answer that a log has as several messages: the last of
                                    -- them, which counts; NULL: it is whole, or the last
) STRICT;
CREATE TABLE tool_calls (
    id INTEGER PRIMARY KEY,
    message_id INTEGER NOT NULL,    -- the answer that asked for it
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    name TEXT NOT NULL,             -- of the tool
    call_id TEXT NOT NULL,
    time INTEGER,
    arguments INTEGER NOT NULL,     -- characters
    result_id INTEGER,              -- the message with its result
    is_error INTEGER,               -- whether it failed; NULL: no result, or nothing says it
    duration INTEGER                -- microseconds until the result; NULL: no result, or one that
                                    -- was logged before its call
) STRICT;
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,      -- the agent that was judged
    hook_id INTEGER NOT NULL,       -- an agent, too
    event TEXT NOT NULL,            -- the id of the verdict in the log
    subject TEXT NOT NULL,          -- the event or call that was judged
    message_id INTEGER,             -- the message that was judged, or that made the call
    point TEXT NOT NULL,            -- 'input', 'action', 'result', 'response'
    verdict TEXT NOT NULL,          -- 'ok', 'comment', 'deny', 'rewrite', 'stop'
    is_failure INTEGER NOT NULL,    -- whether the hook failed, so that code decided
    time INTEGER
) STRICT;
CREATE TABLE interlocutors (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,      -- the agent that discusses
    interlocutor_id INTEGER NOT NULL,  -- an agent that takes part
    role TEXT NOT NULL,             -- 'speaker', 'listener'
    event TEXT NOT NULL,            -- the id of the event in the log that set them; all rows of
                                    -- an event replace those of the agent's earlier ones
    cause TEXT,                     -- the events or calls that caused it, with commas between
    time INTEGER
) STRICT;
CREATE TABLE requests (
    id INTEGER PRIMARY KEY,
    message_id INTEGER,             -- the answer; NULL: only usage is known
    session_id INTEGER NOT NULL,
    agent_id INTEGER NOT NULL,
    response TEXT,                  -- its id, from the provider: each response is one row
    model TEXT NOT NULL,
    time INTEGER,
    stop_reason TEXT,
    input_tokens INTEGER,           -- read anew: neither read from a cache nor written into one
    cache_read_tokens INTEGER,
    cache_write_tokens INTEGER,
    output_tokens INTEGER,          -- with those of thoughts
    reasoning_tokens INTEGER,       -- of `output_tokens`
    cost_usd REAL,                  -- as the runtime says, else by the price list; NULL: no price
    is_cost_told INTEGER NOT NULL,  -- whether the runtime said it
    is_recorded INTEGER NOT NULL    -- whether a log has it, not only a file or a commit
) STRICT;
CREATE TABLE edges (
    parent_id INTEGER NOT NULL,     -- a commit
    child_id INTEGER NOT NULL,      -- a commit
    kind TEXT NOT NULL              -- 'next', 'compaction', 'spawn', 'fork' (a second 'next')
) STRICT;
CREATE TABLE scores (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    sample TEXT NOT NULL,           -- the sample, task or question; '' where the file names none
    scorer TEXT NOT NULL,
    value TEXT NOT NULL,            -- JSON: a number, a text, or an object
    number REAL,                    -- the value as a number; NULL: it has none
    answer TEXT NOT NULL,           -- what was scored; '' where the file does not say it
    explanation TEXT NOT NULL,
    metadata TEXT NOT NULL          -- JSON: an object
) STRICT;
CREATE TABLE labels (
    id INTEGER PRIMARY KEY,
    session_id INTEGER NOT NULL,
    agent_id INTEGER,               -- the agent that it names; NULL: none, or none of the session
    message_id INTEGER,             -- the message that it names; NULL: none
    name TEXT NOT NULL,             -- what it reports: 'mistake'
    value TEXT NOT NULL,
    agent TEXT NOT NULL,            -- the name of the agent, as the file has it
    explanation TEXT NOT NULL,
    metadata TEXT NOT NULL          -- JSON: an object
) STRICT;
CREATE INDEX scores_by_session ON scores (session_id);
CREATE INDEX labels_by_session ON labels (session_id);
CREATE INDEX commits_by_agent ON commits (agent_id);
CREATE INDEX messages_by_commit ON messages (commit_id);
CREATE INDEX messages_by_session ON messages (session_id);
CREATE INDEX calls_by_session ON tool_calls (session_id);
CREATE INDEX interlocutors_by_session ON interlocutors (session_id);
CREATE INDEX verdicts_by_session ON verdicts (session_id);
CREATE INDEX requests_by_session ON requests (session_id);
CREATE UNIQUE INDEX requests_by_response ON requests (response) WHERE response IS NOT NULL;
CREATE INDEX edges_by_child ON edges (child_id);
"""
"""The SQL that creates the tables.

The tables for search and for incremental updates are defined in `harken.index.session_index`.
"""
