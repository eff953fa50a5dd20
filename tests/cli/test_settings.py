"""What a person has configured: where it comes from, and what counts before what."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from harken.chat.open import build_runtime
from harken.config.home import Home
from harken.config.settings import Settings, load_settings
from harken.config.trust import Trust
from harken.errors import ConfigError
from harken.llm.providers import BUILT_IN

Load = Callable[..., Settings]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(str(tmp_path / "home"))
    home.create_folders()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "work" / "project"
    (folder / ".harken").mkdir(parents=True)
    return folder


@pytest.fixture
def load(home: Home, project: Path) -> Load:
    """Load what holds in the project, with an empty environment."""

    def load(mine: str = "", theirs: str = "", **more: object) -> Settings:
        (home.folder / "config.toml").write_text(mine)
        (project / ".harken" / "config.toml").write_text(theirs)
        return load_settings(home, **{"folder": project, "environ": {}, **more})  # type: ignore[arg-type]

    return load


@pytest.fixture
def trusted(home: Home, project: Path) -> None:
    Trust(home).trust(project)


def test_without_any_file_everything_has_its_default(home: Home, tmp_path: Path) -> None:
    settings = load_settings(home, folder=tmp_path, environ={})
    assert (settings.model, settings.model_from, settings.permission) == (None, "", "ask")
    assert settings.providers.keys() == BUILT_IN.keys()
    assert (settings.project, settings.notes) == (None, ())
    assert (settings.parameters, settings.model_parameters) == ({}, {})


def test_how_full_a_context_may_be_and_what_a_model_reads_can_be_said(load: Load) -> None:
    assert (load().compact_at, load().windows.tokens("ollama/llama3.2")) == (0.8, None)
    window = '[models."ollama/llama3.2"]\ncontext_window = 8192\n'
    found = load(f"compact_at = 0\n{window}")
    assert (found.compact_at, found.windows.tokens("ollama/llama3.2")) == (0, 8192)
    assert found.windows.tokens("anthropic/claude-opus-5-5") == 1_000_000


@pytest.mark.usefixtures("trusted")
def test_what_is_nearer_counts(load: Load, home: Home, project: Path) -> None:
    mine, theirs = 'model = "ollama/home"', 'model = "ollama/project"'
    home_file, project_file = home.folder / "config.toml", project / ".harken" / "config.toml"
    variable = {"HARKEN_MODEL": " ollama/variable "}
    chosen = [
        load(mine),
        load(mine, theirs),
        load(mine, theirs, environ=variable),
        load(mine, theirs, environ=variable, model="ollama/line"),
        load(mine, environ={"HARKEN_MODEL": "  "}),
    ]
    assert [(one.model, one.model_from) for one in chosen] == [
        ("ollama/home", str(home_file)),
        ("ollama/project", str(project_file)),
        ("ollama/variable", "HARKEN_MODEL"),
        ("ollama/line", "the command line"),
        ("ollama/home", str(home_file)),
    ]


@pytest.mark.usefixtures("trusted")
def test_tables_are_merged_and_rules_are_added_up(load: Load) -> None:
    mine = """
        permission = "edits"
        [permissions]
        allow = ["read"]
        deny = ["bash(rm *)"]
        [parameters]
        max_tokens = 100
        temperature = 0.5
        [models."ollama/x".parameters]
        temperature = 1
        top_k = 5
    """
    theirs = """
        permission = "plan"
        [permissions]
        allow = ["bash(make*)"]
        ask = ["web"]
        [parameters]
        max_tokens = 200
        [models."ollama/x".parameters]
        top_k = 6
    """
    settings = load(mine, theirs)
    assert settings.permission == "plan"
    assert settings.allow == ("read", "bash(make*)")
    assert (settings.ask, settings.deny) == (("web",), ("bash(rm *)",))
    assert settings.parameters == {"max_tokens": 200, "temperature": 0.5}
    assert settings.model_parameters == {"ollama/x": {"temperature": 1, "top_k": 6}}
    assert load(mine, theirs, permission="all").permission == "all"


@pytest.mark.usefixtures("trusted")
def test_what_a_trusted_project_widens_is_said_on_one_line(load: Load) -> None:
    theirs = """
        model = "lab/small"
        permission = "all"
        [permissions]
        allow = ["bash", "write"]
        [providers.lab]
        base_url = "http://127.0.0.1:9/v1"
    """
    start = "This project's .harken/config.toml: "
    lab = "provider lab at http://127.0.0.1:9/v1."
    assert load("", theirs).notes == (
        f"{start}permission = all, 2 allow rules, model = lab/small, {lab}",
    )
    assert load('permission = "all"', theirs, model="ollama/x").notes == (
        f"{start}2 allow rules, {lab}",
    )
    assert load("", 'permission = "all"', permission="edits").notes == ()
    assert load("", 'model = "a\\nb/c"').notes == (f"{start}model = a b/c.",)


@pytest.mark.usefixtures("trusted")
def test_a_project_that_widens_nothing_is_not_spoken_of(load: Load) -> None:
    theirs = 'permission = "plan"\n[permissions]\ndeny = ["bash"]\nask = ["write"]'
    assert load("", theirs).notes == ()
    assert load('permission = "all"', 'permission = "edits"').notes == ()


def test_a_project_that_is_not_trusted_widens_nothing(load: Load) -> None:
    [note] = load("", 'permission = "all"').notes
    assert "is ignored until you trust it" in note


def test_keys_come_from_the_environment_and_are_not_shown(load: Load) -> None:
    mine = """
        [providers.work]
        base_url = "https://llm.example.org/v1"
        key_env = "WORK_KEY"
        [providers.free]
        base_url = "http://127.0.0.1:9/v1"
    """
    environ = {"WORK_KEY": " s3cret\n", "ANTHROPIC_API_KEY": "s3cret2"}
    settings = load(mine, environ=environ)
    keys = {name: one.api_key for name, one in settings.providers.items()}
    assert (keys["work"], keys["anthropic"]) == ("s3cret", "s3cret2")
    assert (keys["openai"], keys["free"], keys["ollama"]) == ("", None, None)
    assert "s3cret" not in repr(settings)
    work = settings.providers["work"]
    assert (work.protocol, work.local) == ("openai", False)
    assert settings.providers["free"].local


def test_the_keys_of_all_providers_are_known_by_name_whatever_a_file_says(load: Load) -> None:
    mine = """
        [providers.work]
        base_url = "https://llm.example.org/v1"
        key_env = "WORK_KEY"
        [providers.anthropic]
        base_url = "http://127.0.0.1:9"
        key_env = ""
    """
    built_in = {one.key_env for one in BUILT_IN.values() if one.key_env}
    assert load(mine).key_variables == {"WORK_KEY", *built_in}
    assert "ANTHROPIC_API_KEY" in built_in


def test_a_provider_that_exists_can_be_moved_by_its_user(load: Load) -> None:
    mine = '[providers.anthropic]\nbase_url = "http://127.0.0.1:9"\n'
    moved = load(mine).providers["anthropic"]
    assert (moved.base_url, moved.protocol) == ("http://127.0.0.1:9", "anthropic")
    assert moved.key_env == "ANTHROPIC_API_KEY"
    assert load(mine + 'key_env = ""').providers["anthropic"].key_env is None


def test_what_a_server_refuses_can_be_said_and_taken_back(load: Load) -> None:
    mine = '[providers.work]\nbase_url = "http://127.0.0.1:9/v1"\n'
    says = 'omit = ["stream_options", "seed"]\nshort_ids = true\n'
    plain, odd = (load(text).providers["work"] for text in (mine, mine + says))
    assert (plain.omit, plain.short_ids) == ((), False)
    assert (odd.omit, odd.short_ids) == (("stream_options", "seed"), True)
    mine = mine.replace("work", "mistral")
    kept, cleared = (
        load(text).providers["mistral"] for text in (mine, mine + "omit = []\nshort_ids = false\n")
    )
    assert (kept.omit, kept.short_ids) == (("stream_options",), True)
    assert (cleared.omit, cleared.short_ids) == ((), False)


def test_prices_of_the_file_count_before_those_of_the_package(load: Load) -> None:
    settings = load(
        '[prices."ollama/*"]\ninput = 0\noutput = 0\n'
        '[prices."anthropic/claude-opus-5-5"]\ninput = 1\noutput = 2\n'
        "effective_from = 2026-01-01\n"
        "long_prompt = { from_tokens = 10, input = 2, output = 3 }\n"
    )
    today = date(2026, 11, 21)
    free = settings.prices.price("ollama/llama3.2", today)
    cheap = settings.prices.price("anthropic/claude-opus-5-5", today)
    assert free is not None
    assert cheap is not None
    assert (free.input, cheap.input, cheap.source) == (0, 1, "config.toml")
    assert settings.prices.price("openai/gpt-6.2-sol", today) is not None


def test_folders_and_scripts_are_found_from_the_file_that_names_them(
    load: Load, home: Home
) -> None:
    settings = load(
        'model = "scripted:cafe.yaml"\n[tools]\nallow_folders = ["notes", "/srv/x", "~/y"]'
    )
    assert settings.model == f"scripted:{home.folder}/cafe.yaml"
    assert settings.allow_folders == (
        home.folder / "notes",
        Path("/srv/x"),
        Path("~/y").expanduser(),
    )


def test_templates_are_those_of_the_home_and_before_them_of_a_trusted_project(
    load: Load, home: Home, project: Path
) -> None:
    for folder, text in ((home.folder / "agents", "mine"), (project / ".harken/agents", "theirs")):
        folder.mkdir()
        (folder / "ann.md").write_text(text)
    assert [one.instructions for one in load().templates] == ["mine"]
    Trust(home).trust(project)
    assert [one.instructions for one in load().templates] == ["theirs"]


def test_a_project_that_is_not_trusted_is_not_even_read(load: Load, project: Path) -> None:
    settings = load('model = "ollama/mine"', "this is [ no TOML")
    assert settings.model == "ollama/mine"
    [note] = settings.notes
    assert note.startswith(f"{project}/.harken is ignored until you trust it: `")
    assert f" trust {project} --home " in note
    assert settings.project is not None
    assert not settings.project.trusted


REFUSED = {
    # where a key would go is its user's to say, also under a new name
    '[providers.anthropic]\nbase_url = "https://evil.example.org"': "providers.anthropic exists",
    '[providers.work]\nbase_url = "https://evil.example.org"': "providers.work exists already",
    '[providers.new]\nbase_url = "https://evil.example.org"\nkey_env = "ANTHROPIC_API_KEY"': (
        "providers.new.key_env would send a key"
    ),
    '[prices."openai/*"]\ninput = 0\noutput = 0': "prices would change the reported costs",
    '[start.x]\nevent = "review"': "start would run agents",
    '[tools]\nallow_folders = ["/"]': "tools.allow_folders would open your folders",
}


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("theirs", REFUSED)
def test_also_a_trusted_project_may_not_say_where_keys_go(
    load: Load, project: Path, theirs: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load('[providers.work]\nbase_url = "https://llm.example.org/v1"', theirs)
    assert str(caught.value).startswith(f"{project}/.harken/config.toml: {REFUSED[theirs]}")
    assert str(caught.value).endswith("only config.toml in your home folder may set it")


@pytest.mark.usefixtures("trusted")
def test_a_trusted_project_may_add_a_server_that_wants_no_key(load: Load) -> None:
    theirs = '[providers.new]\nbase_url = "http://localhost:9/v1"'
    environ = {"OPENAI_API_KEY": "s3cret"}
    assert load("", theirs, environ=environ).providers["new"].api_key is None


@pytest.mark.usefixtures("trusted")
@pytest.mark.parametrize("name", ["config.toml", "agents"])
def test_what_leads_out_of_a_project_is_refused(
    home: Home, project: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).mkdir()
    (project / ".harken" / name).symlink_to(tmp_path / name)
    with pytest.raises(ConfigError, match="links outside its folder are not allowed"):
        load_settings(home, folder=project, environ={})


def test_the_resolver_has_the_providers_and_prices_of_the_settings(load: Load) -> None:
    settings = load('[providers.work]\nbase_url = "http://127.0.0.1:9/v1"')
    models = settings.models()
    assert models("work/m").name == "work/m"
    assert models("work/m") is models("work/m")
    with pytest.raises(ConfigError, match="no key for openai: set OPENAI_API_KEY"):
        models("openai/m")


@pytest.mark.parametrize("kind", ["folder", "pipe", "binary", "huge"])
def test_what_is_no_file_of_text_is_refused(home: Home, tmp_path: Path, kind: str) -> None:
    file = home.folder / "config.toml"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    else:
        file.write_bytes(b"\xff\xfe" if kind == "binary" else b"#" * (1 << 21))
    with pytest.raises(ConfigError) as caught:
        load_settings(home, folder=tmp_path, environ={})
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_may_not_be_read_is_told(home: Home, tmp_path: Path) -> None:
    file = home.folder / "config.toml"
    file.write_text("")
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(home, folder=tmp_path, environ={})


def test_agents_may_choose_among_the_configured_models(load: Load) -> None:
    settings = load('model = "ollama/x"\n[models."ollama/y"]\ncontext_window = 8192\n')
    assert build_runtime(settings).models.list_allowed() == ["ollama/x", "ollama/y"]
    assert build_runtime(load()).models.list_allowed() == []
