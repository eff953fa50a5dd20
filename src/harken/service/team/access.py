"""Access for teams: the sender of a request, and the right that its route needs.

The table of routes is complete: a route without an entry is refused for users. So a new route is
closed until its right is written here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from harken.core.loopback import browser_refusal, is_loopback
from harken.service.access import HEALTH_PATH, AccessCheck, parse_bearer_token
from harken.store.remote.errors import RequestRefused
from harken.teams.caller import OWNER, Caller
from harken.teams.scopes import RIGHTS, Grant, Right, Rights

if TYPE_CHECKING:
    from harken.teams.team import Team

PROJECT_HEADER = "harken-project"
READ_ROUTES = frozenset(
    {
        "GET /v1/materialize",
        "GET /v1/render",
        "GET /v1/resolve",
        "GET /v1/commits",
        "GET /v1/commits/{ctx}",
        "GET /v1/commits/{ctx}/history",
        "GET /v1/commits/{ctx}/children",
        "GET /v1/diff",
        "GET /v1/labels",
        "GET /v1/labels/{label}",
        "GET /v1/names",
        "GET /v1/changes",
        "GET /v1/logs",
        "GET /v1/logs/{name}/lines",
        "GET /v1/openapi.json",
        "GET /v1/store/raw/{name}",
        "GET /v1/store/chunks/{name}",
        "GET /v1/store/things",
        "GET /v1/store/notes-digests",
        "GET /v1/store/stats",
        "GET /v1/store/kept",
        "GET /v1/store/tombstones",
        "POST /v1/store/objects",
        "POST /v1/store/raws",
        "POST /v1/store/deltas",
        "POST /v1/store/sequences",
        "POST /v1/store/commits",
        "POST /v1/store/chain",
        "POST /v1/store/children",
        "POST /v1/store/latest",
        "POST /v1/store/newest",
        "POST /v1/store/named",
        "POST /v1/store/branches",
        "POST /v1/store/heads",
        "POST /v1/store/labelled",
        "POST /v1/store/derived",
    }
)
WRITE_ROUTES = frozenset(
    {
        "POST /v1/checkpoint",
        "PATCH /v1/commits/{ctx}",
        "POST /v1/commits/{ctx}/fork",
        "POST /v1/commits/{ctx}/compact",
        "POST /v1/commits/{ctx}/snapshot",
        "POST /v1/store/write",
        "POST /v1/store/annotate",
        "POST /v1/store/move-branch",
        "POST /v1/store/move-head",
        "POST /v1/store/set-heads",
        "GET /v1/logs/{name}",
        "POST /v1/logs/{name}",
    }
)
RIGHT_BY_ROUTE: Mapping[str, Right] = {
    **dict.fromkeys(READ_ROUTES, "read"),
    **dict.fromkeys(WRITE_ROUTES, "write"),
    "POST /v1/store/keep": "purge",
    "POST /v1/store/purge": "purge",
    "POST /v1/store/collect": "admin",
    "GET /v1/audit": "admin",
}
"""The right that a user needs for a route, in any scope. The scope is enforced by the store."""
_INSTEAD_OF: Mapping[Right, tuple[Right, ...]] = {"write": ("copy",)}
OWNER_CALLER = Caller("", OWNER, Rights(tuple(Grant(right) for right in RIGHTS)), is_owner=True)


class TeamGate:
    """Finds the sender of each request, for a service with users."""

    def __init__(self, owner: AccessCheck, team: Team) -> None:
        self._owner, self._team = owner, team

    def identify(
        self, path: str, headers: Mapping[str, str], client: str
    ) -> tuple[Caller | None, bool]:
        """Return the sender, and whether the path needs one.

        client: the address of the sender, or "" for a Unix socket. The token of the home is
        accepted from this machine only. Raises RequestRefused.
        """
        origin, host = headers.get("origin"), headers.get("host")
        site = headers.get("sec-fetch-site")
        if refusal := browser_refusal(origin, host, site, any_host=self._owner.any_host):
            raise RequestRefused("forbidden", refusal)
        if path == HEALTH_PATH:
            return None, False
        token = parse_bearer_token(headers)
        if self._owner.token is None and token is None:
            return OWNER_CALLER, True
        if token is None:
            raise RequestRefused("unauthorized", "send a token: Authorization: Bearer")
        is_local = not client or is_loopback(client)
        if self._owner.is_token(token) and is_local:
            return OWNER_CALLER, True
        return self._team.identify(token, headers.get(PROJECT_HEADER, "")), True


def find_right(method: str, template: str) -> Right | None:
    """Return the right that a route needs, or None if the route is closed to users."""
    return RIGHT_BY_ROUTE.get(f"{method} {template}")


def check_route(caller: Caller, right: Right | None) -> None:
    """Raise RequestRefused unless the caller has the right that a route needs."""
    if right is None:
        raise RequestRefused("forbidden", "this request is not open to users")
    if not any(caller.rights.has(r) for r in (right, *_INSTEAD_OF.get(right, ()))):
        raise RequestRefused("forbidden", f"{caller.user} has no right '{right}'")
