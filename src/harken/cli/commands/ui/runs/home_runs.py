"""`HomeRuns`: the sessions of a home that this process runs, for the routes of the viewer."""

from __future__ import annotations

import os
import threading
from collections.abc import Collection
from pathlib import Path

import click

from harken.chat.models import list_models
from harken.chat.options import ChatOptions
from harken.chat.running.resumption import find_resumed
from harken.cli.command_context import command_context
from harken.cli.commands.sessions.picker import check_new_name
from harken.cli.commands.ui.home_library import HomeLibrary
from harken.cli.commands.ui.runs.session_run import SessionRun
from harken.config.home import Home, current_folder
from harken.config.settings import load_settings
from harken.core import structs
from harken.errors import ConfigError, LogLocked, NameNotFound
from harken.service.viewer.session_runner import (
    DecisionRequest,
    InterruptRequest,
    MessageRequest,
    RunChoices,
    RunRow,
    StartRequest,
    TemplateChoice,
)
from harken.store.remote.errors import RequestRefused
from harken.terminal.text import one_line
from harken.world.permissions.mode import MODES_BY_RESTRICTIVENESS

MAX_RUNS = 8
_END_TIMEOUT_S = 30.0
_MAX_TEMPLATES = 200
_MAX_MODELS = 200


class HomeRuns:
    """Runs sessions of a home, as `harken chat` does. Implements `SessionRunner`."""

    def __init__(
        self,
        home: Home,
        library: HomeLibrary,
        context: click.Context | None = None,
        *,
        max_runs: int = MAX_RUNS,
    ) -> None:
        """Nothing runs yet. `context` is the command that serves the page."""
        self._home, self._library, self._context = home, library, context
        self._max_runs = max_runs
        self._lock = threading.Lock()
        self._starting: set[str] = set()
        """The names of sessions that are being opened. New ones have no name yet."""
        self._new_count = 0
        """The number of new sessions that are being opened."""
        self._runs: dict[str, SessionRun] = {}
        self._is_closed = False

    def choices(self, folder: str | None, session: str | None) -> RunChoices:
        """Return the choices of a run. Raises NameNotFound, ConfigError."""
        with command_context(self._context):
            path = self._find_folder(folder, session)
            settings = load_settings(self._home, folder=path)
            templates = [
                TemplateChoice(
                    name=template.name,
                    description=one_line(template.description, 200),
                    model=template.model,
                )
                for template, _ in zip(settings.templates, range(_MAX_TEMPLATES), strict=False)
            ]
            return RunChoices(
                folder=str(path),
                model=settings.model,
                models=list_models(settings)[:_MAX_MODELS],
                templates=templates,
                permission=settings.permission,
                permissions=list(MODES_BY_RESTRICTIVENESS),
                obstacle=self._find_obstacle(),
            )

    def list_runs(self) -> list[RunRow]:
        """Return the runs, oldest first."""
        with self._lock:
            runs = list(self._runs.items())
        return [run.row(name) for name, run in runs if run.is_alive or run.error is not None]

    def start(self, request: StartRequest) -> RunRow:
        """Run a session. Return the run that it has already.

        Raises NameNotFound, RequestRefused, ConfigError, LogError.
        """
        obstacle = self._find_obstacle()
        if obstacle is not None:
            raise RequestRefused("read_only", obstacle)
        name = request.session
        with self._lock:
            run = self._find_alive(name)
            if run is None:
                self._reserve(name)
        if run is not None and name is not None:
            return run.row(name)
        try:
            with command_context(self._context):
                run = SessionRun(self._home, self._chat_options(request), self._context)
                log = run.start()
            name = self._library.resolve(log.stem)
            with self._lock:
                self._runs[name] = run
                is_closed = self._is_closed
        except LogLocked:
            raise RequestRefused(
                "log_locked",
                "another program writes this session: it can be continued when it ends",
            ) from None
        finally:
            with self._lock:
                self._starting.discard(request.session or "")
                self._new_count -= request.session is None
        if is_closed:
            run.request_end(by_user=False)
        return run.row(name)

    def find_version(self, name: str) -> object:
        """Return a value that changes with the row of a run. Return None if there is no run."""
        run = self._runs.get(name)
        if run is None or not (run.is_alive or run.error is not None):
            return None
        return id(run), run.version, run.is_alive

    def find(self, name: str, *, agents: Collection[str] = (), upto: int = 0) -> RunRow | None:
        """Return the run of a session. Return None if there is none."""
        run = self._runs.get(name)
        if run is None or not (run.is_alive or run.error is not None):
            return None
        return run.row(name, agents=agents, upto=upto)

    def send(self, name: str, request: MessageRequest) -> RunRow:
        """Send a message to an agent. Raises NameNotFound, ConfigError, RequestRefused."""
        run = self._get(name)
        run.send(request.id, request.agent, request.text)
        return run.row(name)

    def interrupt(self, name: str, request: InterruptRequest) -> RunRow:
        """Stop turns. Raises NameNotFound."""
        run = self._get(name)
        run.interrupt(request.agent)
        return run.row(name)

    def decide(self, name: str, question: str, request: DecisionRequest) -> RunRow:
        """Answer a question. Raises NameNotFound, RequestRefused, ValueError."""
        run = self._get(name)
        run.user.decide(question, request)
        return run.row(name)

    def end(self, name: str) -> RunRow:
        """End a run and its session. Raises NameNotFound."""
        run = self._get(name)
        run.request_end(by_user=True)
        run.join(_END_TIMEOUT_S)
        row = run.row(name)
        if not run.is_alive:
            with self._lock:
                self._runs.pop(name, None)
        return row

    def close(self) -> None:
        """End all runs: their turns are cancelled, and can be continued later."""
        with self._lock:
            self._is_closed = True
            runs = list(self._runs.values())
        for run in runs:
            run.request_end(by_user=False)
        for run in runs:
            run.join(_END_TIMEOUT_S)

    def _get(self, name: str) -> SessionRun:
        run = self._runs.get(name)
        if run is None or not run.is_alive:
            raise NameNotFound("run", name, list(self._runs))
        return run

    def _find_alive(self, name: str | None) -> SessionRun | None:
        run = None if name is None else self._runs.get(name)
        return run if run is not None and run.is_alive else None

    def _reserve(self, name: str | None) -> None:
        """Count a run that is being opened. Raises RequestRefused if there are too many."""
        if name is not None and name in self._starting:
            raise RequestRefused("busy", "this session is being started already")
        alive = sum(run.is_alive for run in self._runs.values())
        if alive + len(self._starting) + self._new_count >= self._max_runs:
            text = f"{self._max_runs} sessions run here already: end one of them first"
            raise RequestRefused("busy", text)
        if name is None:
            self._new_count += 1
        else:
            self._starting.add(name)

    def _find_obstacle(self) -> str | None:
        """Return why no session can be run here. Return None if one can."""
        folder = self._home.sessions_folder
        if folder.is_dir() and not os.access(folder, os.W_OK):
            return f"{folder} is read-only: sessions can be read here, and not be run"
        return None

    def _find_folder(self, folder: str | None, session: str | None) -> Path:
        """Return the working folder of a run: the given one, that of the session, or this one.

        Raises NameNotFound, and ConfigError for a path that is no folder.
        """
        if folder is not None:
            path = Path(folder).expanduser()
            if not path.is_absolute() or not path.is_dir():
                raise ConfigError(f"{folder}: no such folder on this machine; give its full path")
            return path
        project = None if session is None else self._library.describe(session).project
        if project and Path(project).is_absolute() and Path(project).is_dir():
            return Path(project)
        return current_folder()

    def _chat_options(self, request: StartRequest) -> ChatOptions:
        options = ChatOptions(
            model=request.model or None,
            folder=self._find_folder(request.folder or None, request.session),
            permission=request.permission,
            wakes=True,
        )
        if request.session is None:
            return self._new_chat(options, request)
        if request.template or request.name:
            raise ConfigError("a session that is continued has its own name and template")
        log, ctx = self._library.find_log(request.session), None
        if log is None:
            _, ctx = find_resumed(self._home, request.session)
        return structs.replace(options, old=log, ctx=ctx)

    def _new_chat(self, options: ChatOptions, request: StartRequest) -> ChatOptions:
        if request.name:
            options = structs.replace(options, name=check_new_name(self._home, request.name))
        if not request.template:
            return options
        settings = load_settings(self._home, folder=options.folder)
        template = settings.templates.find(request.template)
        return structs.replace(
            options,
            template=template,
            model=options.model or template.model,
            system_prompt=template.instructions,
        )
