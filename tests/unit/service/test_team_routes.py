"""Every route of a service with users: closed by default, open by a right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from harken.core.commits import CommitId
from harken.service.access import AccessCheck
from harken.service.team.access import OWNER_CALLER, READ_ROUTES, RIGHT_BY_ROUTE, TeamGate
from harken.store.remote.errors import RequestRefused
from harken.teams.scopes import RIGHTS
from tests.service_kit import TOKEN
from tests.session_kit import write_log_lines
from tests.team_kit import TeamService, team_service

ALL = tuple(f"{right} *" for right in RIGHTS)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TeamService]:
    with team_service(tmp_path_factory.mktemp("team")) as service:
        service.add("all", *ALL)
        service.add("none")
        service.add("gone", *ALL)
        service.revoke("gone")
        service.add("late", *ALL)
        service.token("late", "short", lifetime_s=-1)
        service.add("left", *ALL)
        service.directory.remove_user("left", "2026-01-01T00:00:00.000000Z")
        service.add("reader", *ALL, only=("read",))
        service.add("writer", "write project:cafe")
        yield service


def routes(service: TeamService) -> list[str]:
    """All routes that the application has, also those that are not described."""
    with service.client("owner") as client:
        described = client.get("/v1/openapi.json").json()["paths"]
    listed = [f"{m.upper()} {path}" for path, ms in described.items() for m in ms]
    return [*listed, "GET /v1/openapi.json"]


def answer(client: httpx.Client, route: str) -> tuple[int, str]:
    """Send a request to a route, without a body. Return the status and the error code."""
    method, template = route.split(" ")
    response = client.request(method, re.sub(r"\{\w+\}", "x", template))
    code = response.json()["error"]["code"] if response.status_code != 200 else ""
    return response.status_code, code


def test_each_route_has_a_right(service: TeamService) -> None:
    assert set(routes(service)) == {*RIGHT_BY_ROUTE, "GET /v1/health"}


@pytest.mark.parametrize("user", ["", "unknown", "gone", "late", "left"])
def test_no_route_is_open_without_a_valid_token(service: TeamService, user: str) -> None:
    service.tokens["unknown"] = "hkt_" + "x" * 43
    with service.client(user) as client:
        for route in RIGHT_BY_ROUTE:
            assert answer(client, route) == (401, "unauthorized"), route


def test_all_invalid_tokens_get_the_same_answer(service: TeamService) -> None:
    """Otherwise an old token would show whether its user is still there."""
    service.tokens["malformed"] = "x" * 47
    service.tokens["unknown"] = "hkt_" + "x" * 43
    texts = set()
    for user in ("malformed", "unknown", "gone", "late", "left"):
        with service.client(user) as client:
            texts.add(client.get("/v1/commits").text)
    assert len(texts) == 1


def test_no_route_is_open_without_a_right(service: TeamService) -> None:
    with service.client("none") as client:
        for route in RIGHT_BY_ROUTE:
            assert answer(client, route) == (403, "forbidden"), route


def test_a_token_for_reading_changes_nothing(service: TeamService) -> None:
    before = service.store.changes().next
    with service.client("reader") as client:
        for route in RIGHT_BY_ROUTE:
            expected = route in READ_ROUTES
            assert (answer(client, route) != (403, "forbidden")) == expected, route
    assert service.store.changes().next == before


def test_a_writer_neither_purges_nor_collects(service: TeamService) -> None:
    with service.client("writer") as client:
        for route, right in RIGHT_BY_ROUTE.items():
            if right in ("purge", "admin"):
                assert answer(client, route) == (403, "forbidden"), route


def test_a_new_route_is_closed_to_users(tmp_path: Path) -> None:
    with team_service(tmp_path) as service:
        service.add("all", *ALL)

        async def leak() -> str:
            return "secret"

        app = service.app.inner
        app.add_api_route("/v1/leak", leak)  # type: ignore[attr-defined]
        with service.client("all") as client:
            assert answer(client, "GET /v1/leak") == (403, "forbidden")
        with service.client("owner") as client:
            assert client.get("/v1/leak").status_code == 200


def test_the_token_of_the_home_may_do_everything(service: TeamService) -> None:
    with service.client("owner") as client:
        for route in RIGHT_BY_ROUTE:
            assert answer(client, route)[0] not in (401, 403), route


@pytest.mark.parametrize("path", ["/V1/commits", "/v1//commits", "/v1/commits/", "/v1/%63ommits"])
def test_another_spelling_of_a_path_is_no_way_around(service: TeamService, path: str) -> None:
    with service.client("none") as client:
        assert client.get(path).status_code in (403, 404)
    with service.client("") as client:
        assert client.get(path).status_code == 401


def test_pages_of_browsers_are_refused_with_a_token_of_a_user(service: TeamService) -> None:
    for header in ({"origin": "https://a.example"}, {"host": "a.example"}):
        with service.client("all", **header) as client:
            assert client.get("/v1/commits").status_code == 403


def test_health_needs_no_token(service: TeamService) -> None:
    with service.client("") as client:
        assert client.get("/v1/health").json().keys() == {"name", "version"}


def test_the_token_of_the_home_is_for_this_machine(service: TeamService) -> None:
    """Tokens of users are accepted from everywhere."""
    gate = TeamGate(AccessCheck(TOKEN, any_host=True), service.team)

    def identify(token: str, client: str) -> str:
        headers = {"host": "harken.example", "authorization": f"Bearer {token}"}
        try:
            caller, _ = gate.identify("/v1/commits", headers, client)
        except RequestRefused as refused:
            return refused.code
        assert caller is not None
        return caller.user or caller.token

    for client in ("127.0.0.1", "::1", ""):
        assert identify(TOKEN, client) == "owner"
    for client in ("10.0.0.5", "2001:db8::1", "localhost.evil.example"):
        assert identify(TOKEN, client) == "unauthorized"
        assert identify(service.tokens["all"], client) == "all"


def test_a_socket_of_the_owner_needs_no_token(service: TeamService) -> None:
    gate = TeamGate(AccessCheck(None), service.team)
    assert gate.identify("/v1/commits", {"host": "localhost"}, "")[0] is OWNER_CALLER
    headers = {"authorization": f"Bearer {service.tokens['all']}"}
    caller, _ = gate.identify("/v1/commits", headers, "")
    assert caller is not None
    assert caller.user == "all"
    with pytest.raises(RequestRefused):
        gate.identify("/v1/commits", {"authorization": "Bearer x"}, "")


@pytest.mark.parametrize("project", ["../x", "a/b", "%ff", "a%00", "cafe%CC%81", "x" * 101])
def test_an_invalid_project_in_the_header_is_refused(service: TeamService, project: str) -> None:
    with service.client("writer", **{"harken-project": project}) as client:
        assert client.get("/v1/commits").status_code == 422


def test_the_header_names_the_project_of_new_commits(tmp_path: Path) -> None:
    """Otherwise the parent's is taken, else the only one; without one, nothing is written."""
    body = {"messages": [{"role": "user", "content": "x"}], "created_at": "2026-01-01T00:00:00Z"}
    with team_service(tmp_path) as service:
        service.add("ann", "write project:a", "write project:café")

        def write(project: str = "", **more: str) -> httpx.Response:
            headers = {"harken-project": project} if project else {}
            with service.client("ann", **headers) as client:
                return client.post("/v1/checkpoint", json={**body, **more})

        def labels(name: str) -> tuple[str, ...]:
            (stored,) = service.store.commits([CommitId(name)]).values()
            return stored.notes.labels

        assert write().status_code == 403
        assert write("b").status_code == 403
        parent = write("caf%C3%A9").json()["id"]
        assert labels(parent) == ("project:café",)
        assert labels(write(parent=parent).json()["id"]) == ("project:café",)
        assert labels(write("a", parent=parent, summary="other", session_id="2").json()["id"]) == (
            "project:a",
        )


def test_logs_with_one_name_are_those_of_their_users(tmp_path: Path) -> None:
    line = write_log_lines(tmp_path / "source")[0]
    with team_service(tmp_path) as service:
        for user in ("ann", "ben"):
            service.add(user, "write *", "read *")
            with service.remote(user) as store:
                assert [log.name for log in store.iter_logs()] == []
                assert store.append_log("tea", 0, line).size_bytes == len(line)
                assert [log.name for log in store.iter_logs()] == ["tea"]
                assert store.read_log("tea", 0, len(line)) == line
        with service.remote("owner") as store:
            assert store.log_end("tea").size_bytes == 0
            assert [log.name for log in store.iter_logs()] == []
        names = sorted(file.name for file in (tmp_path / "sessions").iterdir())
        assert [name for name in names if name.endswith(".jsonl")] == [
            "ann~tea.jsonl",
            "ben~tea.jsonl",
        ]
