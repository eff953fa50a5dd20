"""`websearch`: a dumb agent that lets smart agents read the results of a web search.

It searches, creates a reader for each page, asks all readers concurrently, and combines their
answers with the sources. A reader has no tools, so a page can make it do nothing but answer. Page,
question and answers are logged, as with any agent; all readers are ended after the answer.

Its state is its saved state and its readers. So it continues where it was interrupted, and no page
is read twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from harken.agents import texts
from harken.agents.agent import Agent, get_agent, log_birth
from harken.agents.agent_classes import register_agent_class
from harken.agents.budget import check_birth
from harken.agents.checkpoints import checkpoint_if_due
from harken.agents.dumb_agent import DumbAgent
from harken.agents.open_calls import answer_or_stop, has_open_calls
from harken.agents.smart_agent import SmartAgent
from harken.agents.tool_agent import ToolAgent
from harken.agents.tree.actions import create_hook_copies, end_subtree, install_hooks
from harken.core import structs
from harken.core.event_types.spec import AgentSpec, MadeFor
from harken.core.events import Reference
from harken.core.logged_string import LoggedString
from harken.core.messages import text_of
from harken.errors import BudgetExceeded
from harken.world.permissions.permissions import PermissionRequest
from harken.world.result import InvalidArguments, ToolError
from harken.world.tool import Tool, ToolContext, tool
from harken.world.web.fetch import OUTSIDE_NOTE, read_page
from harken.world.web.search import Web, WebResult

KIND = "websearch"
MAX_PAGES = 10
MAX_CONCURRENT_READERS = 4
"""The number of readers that read concurrently."""
MAX_PAGE_CHARS = 60_000
"""The maximum characters of a page that a reader gets."""
_DESCRIPTION = """\
Search the web and have what was found read: several pages at once, each by an agent of its own.
The result is what they found out about your question, with quotes and addresses.

`question` is what you want to know, in a whole sentence; `query` the words to search for, where
they are others; `pages` how many are read, at most {most}."""


@register_agent_class(KIND)
class WebSearch(DumbAgent):
    """Answers a single question from the web."""

    _can_restore: ClassVar[bool] = False  # a restored file could start a search unasked

    def begin(self) -> None:
        """Set up what is not in the log."""
        super().begin()
        self._call: Reference | None = None
        self._model: str | None = None
        self._state: dict[str, Any] = {}

    def _spec(self) -> AgentSpec:
        """Return the spec with the call that it works for, and the model of its readers."""
        made_for = None if self._call is None else MadeFor(self._call, self._model)
        return super()._spec().merge(AgentSpec(made_for=made_for))

    def dump_state(self) -> Any:
        """Return the question and the search results."""
        return self._state or None

    def load_saved_state(self, saved: Any) -> None:
        """Restore the question and the search results."""
        self._state = dict(saved)

    @classmethod
    def get_or_create(cls, agent: ToolAgent, call: Reference, saved: dict[str, Any]) -> WebSearch:
        """Return the agent for a call of `websearch`, new or existing.

        Raises BudgetExceeded.
        """
        specs = {state.id: state.spec for state in agent.session.agents.values()}
        existing = [
            get_agent(agent, id_)
            for id_, spec in specs.items()
            if spec.kind == KIND and spec.made_for is not None and spec.made_for.call == call
        ]

        # A terminated agent has given its answer or its error.
        usable = (
            candidate
            for candidate in existing
            if not (_is_gone(candidate) and has_open_calls(candidate))
        )
        searcher = next(usable, None) or cls.create(agent, call)
        assert isinstance(searcher, WebSearch)
        if _is_gone(searcher):
            return searcher
        if searcher.state.saved_state is None:
            searcher.load_saved_state(saved)
            searcher.save_state()
        if not _has_input(searcher):
            question = agent.session.log_piece_of_text(agent.agent_id, saved["question"], call)
            agent.inform(searcher, LoggedString(saved["question"], question))
        return searcher

    @classmethod
    def create(cls, agent: ToolAgent, call: Reference) -> WebSearch:
        """Create a subagent of the calling agent, with its birth. Raises BudgetExceeded."""
        check_birth(agent.session.state, agent.agent_id)
        searcher = cls(agent.session, runtime=agent.runtime)
        searcher._call, searcher._model = call, agent._language_model
        hooks = create_hook_copies(searcher, agent)
        with agent.session.group():
            log_birth(searcher, call, _free_name(agent), "subagent")
            install_hooks(hooks, searcher)
        return searcher

    async def response(self, input: str | None = None) -> LoggedString:
        """Answer the question of its call. Later questions get no pages of their own."""
        if input is not None:
            self.harken(input)
        if has_open_calls(self):
            utterance = await self._search_and_answer()
        else:  # it answered before a resume
            utterance = _last_answer(self)
        for id_ in list(self.state.subagents):
            end_subtree(self.session, id_, self._question_id())
        return utterance

    async def _search_and_answer(self) -> LoggedString:
        """Search if that was not done, let all pages be read, and combine the answers."""
        if "hits" not in self._state:
            results = await self._search()
            self._state = {**self._state, "hits": [[hit.title, hit.url] for hit in results]}
            self.save_state()
        limiter = asyncio.Semaphore(MAX_CONCURRENT_READERS)
        hits = [WebResult(*item) for item in self._state["hits"]]
        reading = (self._read(number, hit, limiter) for number, hit in enumerate(hits, 1))
        answers = await asyncio.gather(*reading, return_exceptions=True)
        replies: list[LoggedString] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer  # an error of a model or of the log: a resume continues
            replies.append(answer)
        ids = [str(item.message_id) for item in replies if item.message_id is not None]
        utterance = self.say(
            _format_answers(self._state, hits, replies), ids or self._question_id()
        )
        checkpoint_if_due(self, "turn_boundary")
        self.session.sync()
        return utterance

    async def _search(self) -> Sequence[WebResult]:
        """Search. Return the first pages that no rule forbids to fetch."""
        web = self._web
        count = self._state["pages"]
        hits = await web.search.search(self._state["query"], 2 * count)
        return [hit for hit in hits if self._may_fetch(hit.url)][:count]

    def _may_fetch(self, url: str) -> bool:
        world = self.runtime.world
        fetch = world.tools.get("fetch")
        if world.permissions is None or fetch is None:
            return True
        request = PermissionRequest.of(
            fetch, {"url": url}, ToolContext(self, self._question_id()), world.folder
        )
        if world.permissions.decide(request).kind == "denied":
            return False

        # In doubt the user would be asked, but not for a single page of a search.
        return all(request.match_rule(rule) == "no" for rule in world.permissions.rules.deny)

    async def _read(self, number: int, hit: WebResult, limiter: asyncio.Semaphore) -> LoggedString:
        """Return a reader's answer about a page, or the error that prevented reading."""
        name = f"page {number}"
        async with limiter:
            reader = self.subagents.get(name)
            try:
                if reader is None or not _has_input(reader):
                    page = await read_page(self._web.downloads, hit.url, most=MAX_PAGE_CHARS)
                    reader = reader or self._create_reader(name)
                    self._ask(reader, page)
            except (ToolError, BudgetExceeded) as error:
                return LoggedString(texts.PAGE_UNREAD.format(error))
            return await answer_or_stop(reader)  # an earlier answer may still need its hooks

    def _create_reader(self, name: str) -> Agent:
        """Create a reader. Raises BudgetExceeded."""
        check_birth(self.session.state, self.agent_id)
        runtime, made_for = self.runtime, self.state.spec.made_for
        if made_for is None:
            raise ToolError("this web search belongs to no call")
        if made_for.reader is not None:
            runtime = replace(runtime, model=self.runtime.get_model(made_for.reader))
        reader = SmartAgent(self.session, texts.PAGE_READER, runtime=runtime, tools=[])
        hooks = create_hook_copies(reader, self)

        # No call of this agent caused the birth, so its own birth comes first in the cause.
        with self.session.group():
            log_birth(reader, [self.state.birth, made_for.call], name, "subagent")
            install_hooks(hooks, reader)
        return reader

    def _ask(self, reader: Agent, page: str) -> None:
        text = texts.PAGE_QUESTION.format(self._state["question"], page)
        message_id = self.session.log_piece_of_text(self.agent_id, text, self._question_id())
        self.inform(reader, LoggedString(text, message_id))

    @property
    def _web(self) -> Web:
        web = self.runtime.world.web
        if web is None:
            raise ToolError("web search is not configured: set `search` in [web] of config.toml")
        return web

    def _question_id(self) -> Reference:
        """Return the id of the entry with the question."""
        return next(entry.message_id for entry in self._own_entries() if entry.role == "user")


def websearch_tool() -> Tool:
    """Return the tool `websearch`, for a world that has a `web`."""

    async def websearch(
        caller: ToolContext, question: str, query: str | None = None, pages: int = 5
    ) -> LoggedString:
        if not question.strip() or not 1 <= pages <= MAX_PAGES:
            raise InvalidArguments(f"websearch: a question, and 1 to {MAX_PAGES} pages")
        saved = {"question": question, "query": query or question, "pages": pages}
        agent = WebSearch.get_or_create(caller.agent, caller.call, saved)
        try:
            answer = await answer_or_stop(agent)
        except ToolError:
            end_subtree(agent.session, agent.agent_id, caller.call)
            raise
        if not _is_gone(agent):
            end_subtree(agent.session, agent.agent_id, caller.call)
        return answer

    websearch.__doc__ = _DESCRIPTION.format(most=MAX_PAGES)

    # Run again after a crash, it continues with its existing agent and readers.
    search_tool = structs.replace(tool(reads_only=True)(websearch), sends_data=True)
    return search_tool.with_subject(by="question", kind="text")


def _free_name(agent: Agent) -> str:
    used_names = agent.subagents
    names = (KIND if n == 1 else f"{KIND} {n}" for n in range(1, len(used_names) + 2))
    return next(name for name in names if name not in used_names)


def _is_gone(agent: Agent) -> bool:
    return agent.state.place == "gone"


def _has_input(agent: Agent) -> bool:
    return any(entry.role == "user" for entry in agent.state.transcript or ())


def _last_answer(agent: Agent) -> LoggedString:
    """Return the last answer of an agent."""
    for entry in reversed(agent.state.transcript or ()):
        if entry.role == "assistant":
            return LoggedString(text_of(entry.content), entry.message_id)
    return LoggedString(texts.SEARCH_UNANSWERED)


def _format_answers(
    state: dict[str, Any], hits: Sequence[WebResult], answers: Sequence[LoggedString]
) -> str:
    """Format the answers, each with its source."""
    if not hits:
        return texts.SEARCH_EMPTY.format(state["query"])
    parts = [
        f"[{number}] {hit.title or hit.url}\n{hit.url}\n{answer}"
        for number, (hit, answer) in enumerate(zip(hits, answers, strict=True), 1)
    ]
    return "\n\n".join([texts.SEARCH_HEAD.format(OUTSIDE_NOTE[:-1]), *parts])
