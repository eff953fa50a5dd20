"""Whatever happens to an agent, what is committed is what it reads, and in full what it heard."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from harken.agents.checkpointer import Checkpointer
from harken.context.materialize import materialize
from harken.core.commits import CommitId
from harken.core.ids import AgentId
from harken.core.messages import text_of
from harken.session.session import Session
from harken.store.memory import MemoryStore
from tests.session_kit import (
    create_agent,
    entry_segment,
    log_answer,
    log_edit,
    log_tool_calls,
    log_tool_result,
    log_user_message,
    new_session,
    range_segment,
    reload_session,
    session_options,
)


class Working(RuleBasedStateMachine):
    """A root and its subagent hear, speak, act, are edited, committed, cut off and resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store = MemoryStore()
        self.checkpoints = Checkpointer(store=self.store)
        self.session = new_session(Path(self.folder.name))
        self.counted = 0
        root = create_agent(self.session)
        call = log_tool_calls(self.session, root, "c0")
        child = create_agent(self.session, cause=call)
        log_tool_result(self.session, root, "c0")
        self.agents = [root, child]
        self.full: dict[AgentId, list[str]] = {root: ["", "done"], child: []}
        self.summary: dict[AgentId, tuple[int, str]] = {}
        """The last summary of each that is not committed, and where it stands."""

    def text(self) -> str:
        self.counted += 1
        return f"text {self.counted}"

    @rule(which=st.integers(0, 1), times=st.integers(1, 3))
    def hear(self, which: int, times: int) -> None:
        for _ in range(times):
            self.full[self.agents[which]].append(text := self.text())
            log_user_message(self.session, self.agents[which], text)

    @rule(which=st.integers(0, 1))
    def say(self, which: int) -> None:
        self.full[self.agents[which]].append(text := self.text())
        log_answer(self.session, self.agents[which], text)

    @rule(which=st.integers(0, 1), commits=st.booleans())
    def act(self, which: int, commits: bool) -> None:
        agent = self.agents[which]
        log_tool_calls(self.session, agent, f"call{self.counted}")
        self.full[agent].append("")
        if commits:
            self.commit(which)
        text = self.text()
        log_tool_result(self.session, agent, f"call{self.counted - 1}", text)
        self.full[agent].append(text)

    @rule(which=st.integers(0, 1), first=st.integers(0, 3), last=st.integers(0, 9))
    def compact(self, which: int, first: int, last: int) -> None:
        agent = self.agents[which]
        size = len(self.session.context(agent))
        if not self.full[agent]:
            return  # a summary of nothing stands for nothing else: it is kept
        summary = self.text()
        id_ = log_user_message(self.session, agent, summary)
        low, high = min(first, size), max(size - last, min(first, size))
        log_edit(
            self.session,
            agent,
            range_segment(0, low),
            entry_segment(id_),
            range_segment(high, size),
            summary=id_,
        )
        self._no_more_a_summary(agent)
        self.summary[agent] = (len(self.full[agent]), summary)

    @rule(which=st.integers(0, 1), last=st.integers(0, 5))
    def drop(self, which: int, last: int) -> None:
        agent = self.agents[which]
        size = len(self.session.context(agent))
        log_edit(self.session, agent, range_segment(0, max(size - last, 0)))
        self._no_more_a_summary(agent)

    def _no_more_a_summary(self, agent: AgentId) -> None:
        """Only of the last edit is the summary no part of what was said."""
        if agent in self.summary:
            index, before = self.summary.pop(agent)
            self.full[agent].insert(index, before)

    @rule(which=st.integers(0, 1))
    def commit(self, which: int) -> None:
        agent = self.agents[which]
        ctx = self.checkpoints.commit_pending(self.session, agent, "explicit")
        context = self.session.context(agent)
        assert self.checkpoints.commit_pending(self.session, agent, "explicit") == ctx
        assert texts(self.store, ctx) == [text_of(message.content) for message in context]
        if ctx is not None:
            self.summary.pop(agent, None)
            assert self.session.agent(agent).uncommitted_edit is None
        assert texts(self.store, ctx, "root") == self.full[agent]

    @rule()
    def resume(self) -> None:
        self.session = reload_session(self.session)

    @precondition(lambda self: b"context_committed" in self.session.path.read_bytes()[-300:])
    @rule()
    def lose_the_last_commit(self) -> None:
        """Cut the log where the store had the commit already, and the log not yet."""
        self.session.close()
        log = self.session.path.read_bytes().splitlines(keepends=True)
        if b'"context_committed"' in log[-1]:
            self.session.path.write_bytes(b"".join(log[:-1]))
        self.session = Session.load(self.session.path, options=session_options())

    def teardown(self) -> None:
        try:
            for which in (0, 1):
                self.commit(which)
        finally:
            self.session.close()
            self.folder.cleanup()


def texts(store: MemoryStore, ctx: CommitId | None, stop: str = "compaction") -> list[str]:
    return [text_of(message.content) for message in materialize(store, ctx, stop).messages]


Working.TestCase.settings = settings(
    max_examples=settings().max_examples // 3, stateful_step_count=25
)
TestWorking = pytest.mark.req("S2-15", "S2-24", "S2-25", "S2-28", "D-03")(Working.TestCase)
