"""What a user waits for does not follow the number of sessions and messages of a home.

A search listed all sessions for the short names of its hits, and all tool calls for the name of one
tool; a list of twenty sessions read the model calls of all; each name that a command was given, even
that of a commit's label, was compared with all sessions. So the work is counted in a home of 10
sessions, and in one of 200.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from benchmarks.scale.home import ScaledHome
from benchmarks.scale.sessions import SHAPES, TOOLS, generate_session, label_of, list_words
from harken.capture.files.report import ConversationTip, Report
from harken.cli.commands.search import build_query
from harken.cli.commands.sessions.cost import IndexedSessions
from harken.cli.main import run_cli
from harken.config.home import Home
from harken.config.imported_sessions import list_imported
from harken.config.name_resolver import ImportedName, NameResolver
from harken.context.history import END_OF_TIME
from harken.errors import NameNotFound
from harken.index.catalogue import Catalogue, FileFingerprint
from harken.store.sqlite.store import SqliteStore
from tests.call_counts import count_calls, count_steps

SMALL, LARGE = 10, 200
COMMON_WORD = list_words()[0]


def find_rare_word() -> str:
    """Return the rarest word of the first session, which both homes have."""
    texts = b" ".join(generate_session(0, SHAPES["call"]).batch.objects.values()).decode()
    words = list_words()
    candidates: set[str] = set(re.findall(r"[a-z]+", texts)) & set(words)
    return max(candidates, key=words.index)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> list[ScaledHome]:
    """A small home and a large one, with no new content to index."""
    homes = []
    for sessions in (SMALL, LARGE):
        home = ScaledHome(tmp_path_factory.mktemp(f"home-{sessions}"), shape="call")
        home.grow(sessions)
        homes.append(home)
    return homes


def run(home: ScaledHome, *arguments: str) -> None:
    assert run_cli([*arguments, "--home", str(home.folder)]) == 0


def growth(homes: list[ScaledHome], count: Callable[[ScaledHome], int]) -> float:
    """How often the work of the small home the large one needs, once everything is imported."""
    for home in homes:
        count(home)
    small, large = map(count, homes)
    return large / small


@pytest.mark.parametrize("options", [[], ["--tool", TOOLS[0]], ["--agent", "main"]])
def test_a_search_of_a_rare_word_does_not_follow_the_number_of_sessions(
    homes: list[ScaledHome], options: list[str]
) -> None:
    arguments = ["search", find_rare_word(), *options]
    assert growth(homes, lambda home: count_calls(lambda: run(home, *arguments))) < 2


@pytest.mark.parametrize("options", [{"tool": TOOLS[0]}, {"agent": "main"}])
def test_a_filter_of_a_search_does_not_list_all_names(
    homes: list[ScaledHome], options: dict[str, str]
) -> None:
    words = {"words": [COMMON_WORD], "role": None, "kind": None, "tool": None, "agent": None}
    scope = dict.fromkeys(("since", "until", "project", "runtime"))

    def build(home: ScaledHome) -> None:
        with closing(home.open_index()) as index:
            build_query(index.database, 1, {**words, **scope, **options})

    assert growth(homes, lambda home: count_steps(lambda: build(home))) < 2


def test_names_in_a_search_are_those_of_the_list(
    homes: list[ScaledHome], capsys: pytest.CaptureFixture[str]
) -> None:
    run(homes[1], "search", COMMON_WORD, "--limit", "300")
    lines = capsys.readouterr().out.splitlines()
    printed = {line.split()[1] for line in lines if line.startswith("ctx-")}
    assert len(printed) > 100
    assert printed <= {*NameResolver(Home(str(homes[1].folder))).short_names().values()}


def test_the_costs_of_a_list_do_not_follow_the_number_of_sessions(
    homes: list[ScaledHome],
) -> None:
    def find_one(scaled: ScaledHome) -> int:
        home = Home(str(scaled.folder))
        session, *_ = list_imported(home)

        def find() -> None:
            index = IndexedSessions(home, [session.name])
            index.find(session.name, imported=session, logs=())

        return count_steps(find)

    assert growth(homes, find_one) < 2


def test_some_short_names_are_those_of_all(homes: list[ScaledHome]) -> None:
    home = Home(str(homes[1].folder))
    everything = NameResolver(home).short_names()
    some = [*everything][::7]
    resolver = NameResolver(home, imported=list_imported(home))
    assert resolver.short_names(some) == {name: everything[name] for name in some}


@pytest.mark.parametrize("kind", ["label", "session", "beginning", "file"])
def test_a_name_is_resolved_without_reading_the_other_sessions(
    homes: list[ScaledHome], kind: str
) -> None:
    def resolve(scaled: ScaledHome) -> int:
        home = Home(str(scaled.folder))
        session, *_ = list_imported(home)
        names = {
            "label": label_of(0),
            "session": session.name,
            "beginning": session.name[:-4],
            "file": session.sources[0],
        }
        return count_calls(lambda: NameResolver(home).resolve(names[kind]))

    assert growth(homes, resolve) < 1.5


def test_a_session_named_by_a_file_has_all_of_its_files(tmp_path: Path) -> None:
    """Only one of the two files has the name in its record."""
    home = Home(str(tmp_path))
    with closing(Catalogue(home.index_file)) as catalogue:
        for file, agent in (("first.jsonl", "main"), ("second.jsonl", "helper")):
            report = Report(
                source=f"/srv/{file}",
                format="claude-v1",
                runtime="claude",
                session="0f1e2d3c",
                tips=(ConversationTip(agent, f"ctx-{file.encode().hex():0<64}"),),
            )
            fingerprint = FileFingerprint(1, 1, b"")
            catalogue.note(report.source, fingerprint, msgspec.json.encode(report))
        catalogue.commit()
    named = NameResolver(home).resolve("/srv/second.jsonl")
    assert isinstance(named, ImportedName)
    assert named.session.sources == ["/srv/first.jsonl", "/srv/second.jsonl"]
    with pytest.raises(NameNotFound):
        NameResolver(home).resolve("\ud800")


def test_the_last_commit_of_a_principal_is_found_without_reading_the_earlier_ones(
    homes: list[ScaledHome],
) -> None:
    """SQLite searched for its children among all commits of the principal."""

    def count(scaled: ScaledHome) -> int:
        steps = 0

        def progress() -> bool:
            nonlocal steps
            steps += 1
            return False

        with closing(SqliteStore(scaled.folder / "store.db")) as store:
            with store.snapshot() as connection:
                connection.set_progress_handler(progress, 1)
            assert store.latest_commit("team", END_OF_TIME) is not None
        return steps

    assert growth(homes, count) < 1.5
