"""GitHub issues as `gh issue list --json ...` prints them, and as `gh issue view --json` does.

The members number, title, body, state, labels, assignees, author, createdAt, url and comments are
used; other members are ignored. Only number, title and createdAt are required.

Source: the GitHub CLI, `gh issue list --help`, 2.60.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from harken.core.clock import normalize_rfc3339
from harken.errors import FormatError
from harken.tickets.exchange import UNKNOWN_AUTHOR, Issue, IssueComment

FIELDS = "number,title,body,state,labels,assignees,author,createdAt,url,comments"
"""The value of `--json` for a complete import."""
_ISSUE_URL_PATTERN = re.compile(r"https?://[^/]+/([^/]+/[^/]+)/(?:issues|pull)/\d+")


class _User(msgspec.Struct):
    login: str = ""


class _Label(msgspec.Struct):
    name: str


class _Comment(msgspec.Struct, rename="camel"):
    body: str
    created_at: str
    author: _User | None = None


class _Issue(msgspec.Struct, rename="camel"):
    number: int
    title: str
    created_at: str
    body: str | None = None
    state: str = "OPEN"
    labels: list[_Label] = []
    assignees: list[_User] = []
    author: _User | None = None
    url: str = ""
    comments: list[_Comment] = []


class GitHubIssues:
    """The format of `gh issue list --json`."""

    name = "github"

    def read(self, data: bytes) -> list[Issue]:
        """Return the issues of a JSON array, or the issue of an object. Raises FormatError."""
        try:
            records = msgspec.json.decode(data, type=list[_Issue] | _Issue)
            issues = records if isinstance(records, list) else [records]
            return [_decode(issue) for issue in issues]
        except (ValueError, OverflowError) as error:
            hint = f"write them with gh issue list --json {FIELDS}"
            raise FormatError("GitHub issues", f"{error}; {hint}") from None

    def write(self, issues: Sequence[Issue]) -> bytes:
        """Return the issues as a JSON array."""
        return msgspec.json.format(msgspec.json.encode([_encode(issue) for issue in issues]))

    def find_project(self, issue: Issue) -> str:
        """Return `owner/name` from the address of an issue, or an empty text."""
        match = _ISSUE_URL_PATTERN.match(issue.url)
        return "" if match is None else match[1]


def _decode(issue: _Issue) -> Issue:
    return Issue(
        key=str(issue.number),
        title=" ".join(issue.title.split()),
        body=issue.body or "",
        is_closed=issue.state.upper() == "CLOSED",
        labels=tuple(sorted({label.name for label in issue.labels})),
        assignee=issue.assignees[0].login if issue.assignees else "",
        author=_login(issue.author),
        created_at=normalize_rfc3339(issue.created_at),
        url=issue.url,
        comments=tuple(
            IssueComment(
                _login(comment.author), normalize_rfc3339(comment.created_at), comment.body
            )
            for comment in issue.comments
        ),
    )


def _decode_comment(comment: _Comment) -> IssueComment:
    time = normalize_rfc3339(comment.created_at)
    return IssueComment(_login(comment.author), time, comment.body)


def _encode(issue: Issue) -> _Issue:
    return _Issue(
        number=int(issue.key),
        title=issue.title,
        created_at=issue.created_at,
        body=issue.body,
        state="CLOSED" if issue.is_closed else "OPEN",
        labels=[_Label(name) for name in issue.labels],
        assignees=[_User(issue.assignee)] if issue.assignee else [],
        author=_User(issue.author),
        url=issue.url,
        comments=[
            _Comment(comment.text, comment.time, _User(comment.author))
            for comment in issue.comments
        ],
    )


def _login(user: _User | None) -> str:
    """Return the login of a user. A deleted user has none."""
    return (user.login if user is not None else "") or UNKNOWN_AUTHOR
