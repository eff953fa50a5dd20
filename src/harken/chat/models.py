"""Select the model of a chat: the named one, the configured one or an available one.

It also lists the models that can be used now.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache
from pathlib import Path

from harken.chat.demo_model import MODEL_NAME, demo_model
from harken.chat.system_prompt import ChatPrompt, build_system_prompt
from harken.config.discovery import can_chat, choose_model, discover, list_offers
from harken.config.home import Home
from harken.config.imported_sessions import view_commit, view_imported
from harken.config.name_resolver import (
    CommitName,
    ImportedName,
    NamedLogFile,
    NameResolver,
    SessionLog,
)
from harken.config.settings import Settings, load_settings
from harken.config.trust import Trust
from harken.core.events import TranscriptEntry
from harken.core.messages import text_of
from harken.errors import ConfigError, ScriptError
from harken.llm.base import Model, ModelResolver
from harken.llm.replay import ReplayLog, ReplayModel
from harken.session.log.reader import iter_events

MAX_MODELS_PER_PROVIDER = 9
"""The maximum number of models per provider in the list of `/model`."""


def list_models(settings: Settings) -> list[str]:
    """Return names of models that can be used now, the configured one first."""
    day = datetime.now(UTC).date()
    names = [settings.model] if settings.model is not None else []
    for provider in discover(settings.providers.values()):
        if provider.is_ready:
            offered = [offer.name for offer in list_offers(provider, settings.prices, day)]
            names += [name for name in offered if can_chat(name)][:MAX_MODELS_PER_PROVIDER]
    return list(dict.fromkeys(names))


def choose_default_model(settings: Settings) -> str:
    """Return the model to use where none is configured. Raises ConfigError if there is none."""
    choice = choose_model(
        [provider for provider in discover(settings.providers.values()) if provider.is_ready]
    )
    if choice is None:
        raise ConfigError(
            "no model configured: pass --model NAME; `harken models` lists models, "
            "`harken init` configures one (or try `harken demo`)"
        )
    return choice.model


def build_model_resolver(home: Home, settings: Settings) -> ModelResolver:
    """Return a function that resolves model names, cached. `replay:` accepts session ids, too."""
    resolve = settings.models()

    @cache
    def find(name: str) -> Model:
        kind, _, file = name.partition(":")
        if name == MODEL_NAME:
            return demo_model()
        if kind == "replay" and file:
            return _replay(home, file, name)
        return resolve(name)

    return find


def _replay(home: Home, session: str, name: str) -> ReplayModel:
    """Return a model that repeats the recorded answers of a session, also of an imported one."""
    resolver = NameResolver(home)
    resolved = resolver.resolve(session)
    if isinstance(resolved, ImportedName):
        recording = resolver.find_recording(resolved)
        if recording is not None:
            return ReplayModel.load(recording, name=name)
        return ReplayModel(
            ReplayLog.from_events(view_imported(home, resolved.session).events), name
        )
    if isinstance(resolved, CommitName):
        return ReplayModel(ReplayLog.from_events(view_commit(home, resolved.id).events), name)
    return ReplayModel.load(resolved.path, name=name)


def with_absolute_path(name: str) -> str:
    """Return a scripted model's name with an absolute path: a resume may run in another folder."""
    kind, _, file = name.partition(":")
    if kind == "scripted" and name != MODEL_NAME and Path(file).is_file():
        return f"{kind}:{Path(file).absolute()}"
    return name


def load_named_model(find: ModelResolver, name: str | None) -> Model | None:
    """Return the model of the command line. Raises ConfigError also for a bad script."""
    try:
        return find(with_absolute_path(name)) if name is not None else None
    except ScriptError as error:
        raise ConfigError(str(error)) from None


def load_model_of_home(folder: str, name: str) -> Model:
    """Return a model in a worker, which reads keys from its own environment and configuration.

    folder: the home. So no credential travels with the work. Raises ConfigError.
    """
    home = Home(folder)
    model = load_named_model(build_model_resolver(home, load_settings(home, model=name)), name)
    assert model is not None
    return model


def build_chat_prompt(home: Home, settings: Settings, model: str | None) -> ChatPrompt:
    """Return the system prompt of a new chat; a recorded session is replayed with its own."""
    kind, _, file = (model or "").partition(":")
    if kind == "replay":
        resolver = NameResolver(home)
        resolved = resolver.resolve(file)
        log: Path | None = None
        if isinstance(resolved, SessionLog | NamedLogFile):
            log = resolved.path
        elif isinstance(resolved, ImportedName):
            log = resolver.find_recording(resolved)
        recorded = None if log is None else find_recorded_prompt(log)
        if recorded:
            return ChatPrompt(recorded)
    today = datetime.now().astimezone().date()
    return build_system_prompt(settings.working_folder, today, Trust(home))


def find_recorded_prompt(log: Path) -> str | None:
    """Return the system prompt of the first agent of a session."""
    for event in iter_events(log):
        if isinstance(event, TranscriptEntry):
            return text_of(event.content) if event.role == "system" else None
    return None
