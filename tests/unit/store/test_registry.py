"""One place opens stores, by URL, and no caller asks for the class of a store."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import harken
from harken.errors import ConfigError
from harken.store.base import Store
from harken.store.memory import MemoryStore
from harken.store.postgresql.address import parse_address
from harken.store.registry import (
    StoreOptions,
    describe_url,
    get_scheme,
    list_schemes,
    open_store,
)
from harken.testing.store import batch_of, commit_in

SOURCE = Path(harken.__file__).parent
STORE_CLASSES = {
    "MemoryStore",
    "PostgresStore",
    "RefusingPostgresStore",
    "RefusingRemoteStore",
    "RefusingStore",
    "RemoteStore",
    "SqliteStore",
    "TieredStore",
}


def _iter_checked_classes(path: Path) -> Iterator[str]:
    """Yield the names in the second arguments of `isinstance` and `issubclass`, and in patterns."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in ("isinstance", "issubclass"):
                for name in ast.walk(node.args[1]):
                    if isinstance(name, ast.Name | ast.Attribute):
                        yield name.id if isinstance(name, ast.Name) else name.attr
        elif isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
            yield node.cls.id


def test_no_caller_asks_for_the_class_of_a_store() -> None:
    """A store of another package has the same rights: callers ask for capabilities."""
    paths = [path for path in SOURCE.rglob("*.py") if SOURCE / "store" not in path.parents]
    asked = {
        (str(path.relative_to(SOURCE)), name)
        for path in paths
        for name in _iter_checked_classes(path)
        if name in STORE_CLASSES
    }
    assert len(paths) > 500
    assert asked == set()


def test_a_check_of_a_class_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text(
        "isinstance(a, SqliteStore | m.TieredStore)\nmatch a:\n case RemoteStore(): ...\n"
    )
    assert {*_iter_checked_classes(file)} & STORE_CLASSES == {
        "RemoteStore",
        "SqliteStore",
        "TieredStore",
    }


@pytest.mark.parametrize("form", ["sqlite:{}", "sqlite://{}"])
def test_a_file_is_opened_by_its_url(tmp_path: Path, form: str) -> None:
    path = tmp_path / "a b.db"
    url = form.format(path if form == "sqlite:{}" else str(path).replace(" ", "%20"))
    batch = batch_of("Hi")
    store = open_store(url)
    store.write(batch)
    store.close()
    assert path.exists()
    again = open_store(url, StoreOptions(refuses_credentials=True))
    assert [*again.commits([commit_in(batch)])] == [commit_in(batch)]
    again.close()


def test_a_service_is_opened_with_the_token_that_is_found_for_it() -> None:
    asked: list[str] = []

    def find_token(url: str) -> str:
        asked.append(url)
        return "a-token-for-tests-only-of-some-length"

    store = open_store("http://127.0.0.1:9", StoreOptions(find_token=find_token))
    store.close()
    assert asked == ["http://127.0.0.1:9"]


def test_a_scheme_is_told_from_a_path() -> None:
    assert get_scheme("/home/me/store.db") == ""
    assert get_scheme("store.db") == ""
    assert get_scheme("C:\\store.db") == ""
    assert get_scheme("a:b") == ""
    assert get_scheme("unix:/tmp/s") == "unix"
    assert get_scheme("SQLITE:/tmp/s") == "sqlite"
    assert get_scheme("redis://host") == "redis"


def test_an_unknown_scheme_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match="'redis'; known are http:, .*postgresql:"):
        open_store("redis://host")
    with pytest.raises(ConfigError, match="no path"):
        open_store("sqlite:")


def open_plug_in(url: str, options: StoreOptions) -> Store:
    """Open the store of a package that is installed beside Harken."""
    assert options.patience_s == 2
    return MemoryStore()


def test_a_package_brings_a_store_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "shelf-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shelf\nVersion: 1\n")
    (package / "entry_points.txt").write_text(
        "[harken.stores]\nshelf = shelf_store:open_shelf\nbroken = no_such_module:x\n"
    )
    (tmp_path / "shelf_store.py").write_text(
        f"from {open_plug_in.__module__} import open_plug_in as open_shelf\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert "shelf" in list_schemes()
    store = open_store("shelf:any", StoreOptions(patience_s=2))
    assert isinstance(store, MemoryStore)
    with pytest.raises(ConfigError, match="broken: of no_such_module:x cannot be loaded"):
        open_store("broken:any")
    sys.modules.pop("shelf_store")


def test_no_secret_is_shown() -> None:
    url = (
        "postgresql://ann:s%C3%A9cret%40@db.example:5433/harken"
        "?sslmode=require&sslpassword=key-word&packs=s3://bucket/p&schema=team"
    )
    address = parse_address(url)
    assert describe_url(url) == address.text
    assert address.text == "postgresql://ann@db.example:5433/harken?packs=s3://bucket/p&schema=team"
    assert "sslmode=require" in address.conninfo
    assert "packs" not in address.conninfo
    assert address.hide("no: sécret@, s%C3%A9cret%40, key-word") == "no: ***, ***, ***"
    assert describe_url("https://ann:word@host/x") == "https://host/x"
    assert describe_url("unix:/tmp/s") == "unix:/tmp/s"


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        ("schema=a;b", "not the name of a schema"),
        ("packs=ftp://host/x", "s3://BUCKET"),
        ("packs=s3://", "s3://BUCKET"),
        ("packs=s3://key:secret@bucket/x", "credentials of a bucket are in the environment"),
    ],
)
def test_an_invalid_address_is_refused_in_one_line(query: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as refused:
        parse_address(f"postgresql://host/db?{query}")
    assert "secret" not in str(refused.value)
    assert "\n" not in str(refused.value)
