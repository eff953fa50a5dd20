"""Commits over HTTP: the operations of the agent service, for people and for other runtimes.

A commit is identified by its full id or by any unique prefix of it.

Source: docs/formats/service.md.
"""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter

from harken.context import checkpoint as checkpoints
from harken.context import compaction, history
from harken.context import fork as forks
from harken.context.materialize import materialize
from harken.context.refs import find_commit
from harken.context.render import render
from harken.core.commits import CommitNotes
from harken.service.body import Json, RequestBody
from harken.service.dependencies import WRITE_DEPENDENCIES, OpenStore, PageLimit, Sender, sign
from harken.service.openapi import operation
from harken.service.schemas import (
    CommitCreated,
    CommitDiffBody,
    CommitInfo,
    CommitInfoList,
    CommitRequest,
    CompactionRequest,
    ConversationBody,
    ForkRequest,
    NotesUpdate,
    RenderedBody,
    row_of,
)
from harken.store.remote.paging import cut_labels, cut_sequence, list_names, list_newest
from harken.store.remote.wire import MAX_NAMES, CommitList, LabelList, NameList, OptionalCommit

routes = APIRouter(prefix="/v1", tags=["commits"])


@routes.post(
    "/checkpoint",
    **operation(CommitCreated, CommitRequest, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def checkpoint(store: OpenStore, sender: Sender, body: RequestBody) -> Json:
    """Create a commit, which is durable when the response arrives.

    The same request returns the same commit.
    """
    fields = body.json(CommitRequest)
    parent = None if fields.parent is None else find_commit(store, fields.parent)
    draft = replace(
        fields.draft(parent),
        origin=sign(sender, fields.origin),
        messages=fields.messages,
        artifact=fields.artifact,
        branch=fields.branch,
        type=fields.type,
        trigger=fields.trigger,
        format=fields.format,
        message_count=fields.message_count,
        token_count=fields.token_count,
    )
    return Json(CommitCreated(checkpoints.checkpoint(store, draft)))


@routes.get("/materialize", **operation(ConversationBody, names=True))
def materialized(
    store: OpenStore,
    ctx: str | None = None,
    stop: str = "compaction",
    *,
    messages: bool = False,
) -> Json:
    """Return the conversation of a commit, or the empty conversation if no commit is given.

    `stop`: `compaction`, `root`, or an ancestor of the commit.
    """
    name = None if ctx is None else find_commit(store, ctx)
    until = stop if stop in ("compaction", "root") else find_commit(store, stop)
    conversation = materialize(store, name, until)
    included = conversation.messages if messages else None
    return Json(
        ConversationBody(
            conversation.ref, conversation.message_count, conversation.token_count, included
        )
    )


@routes.get("/render", **operation(RenderedBody, names=True))
def rendered(
    store: OpenStore, format: str, ctx: str | None = None, stop: str = "compaction"
) -> Json:
    """Render the conversation of a commit in a format. The bytes are stored as a raw artifact.

    `stop`: as for `/v1/materialize`.
    """
    name = None if ctx is None else find_commit(store, ctx)
    until = stop if stop in ("compaction", "root") else find_commit(store, stop)
    conversation = render(store, name, format, until)
    counts = conversation.message_count, conversation.token_count
    return Json(RenderedBody(conversation.ref, conversation.tier, conversation.format, *counts))


@routes.get("/resolve", **operation(OptionalCommit))
def resolve(store: OpenStore, principal: str, time: str) -> Json:
    """Return the last commit of a principal at or before a time (RFC 3339), or null."""
    return Json(OptionalCommit(history.resolve(store, principal, time)))


@routes.get("/commits", **operation(CommitInfoList))
def newest(store: OpenStore, after: str = "", limit: PageLimit = 20) -> Json:
    """List the most recently written commits, newest first."""
    page = list_newest(store, after, limit)
    commits = store.commits(page.rows)
    rows = [row_of(commits[name]) for name in page.rows if name in commits]
    return Json(CommitInfoList(rows, page.next))


@routes.get("/commits/{ctx}", **operation(CommitInfo, names=True))
def show(store: OpenStore, ctx: str) -> Json:
    """Return all fields of a commit."""
    return Json(row_of(history.get_commit(store, find_commit(store, ctx))))


@routes.patch(
    "/commits/{ctx}",
    **operation(CommitNotes, NotesUpdate, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def annotate(store: OpenStore, ctx: str, body: RequestBody) -> Json:
    """Replace the summary or the labels of a commit. Its other fields are immutable."""
    fields = body.json(NotesUpdate)
    name = find_commit(store, ctx)
    notes = history.update_metadata(
        store, name, summary=fields.summary, labels=fields.labels, by=fields.by
    )
    return Json(notes)


@routes.get("/commits/{ctx}/history", **operation(CommitInfoList, names=True))
def past(store: OpenStore, ctx: str, depth: PageLimit = MAX_NAMES) -> Json:
    """List a commit and its ancestors, newest first. `next` is the parent of the last one."""
    commits = history.commit_history(store, find_commit(store, ctx), depth)
    return Json(CommitInfoList([row_of(stored) for stored in commits], commits[-1].commit.parent))


@routes.get("/commits/{ctx}/children", **operation(CommitList, names=True))
def children(store: OpenStore, ctx: str, after: str = "", limit: PageLimit = MAX_NAMES) -> Json:
    """List the children of a commit, oldest first."""
    page = cut_sequence(store.children(find_commit(store, ctx)), after, limit)
    return Json(CommitList(page.rows, page.next))


@routes.post(
    "/commits/{ctx}/fork",
    **operation(CommitCreated, ForkRequest, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def fork(store: OpenStore, sender: Sender, ctx: str, body: RequestBody) -> Json:
    """Create a branch: an empty commit whose parent is this commit."""
    fields = body.json(ForkRequest)
    name = find_commit(store, ctx)
    time = fields.created_at or history.get_commit(store, name).commit.created_at
    origin = sign(sender, fields.origin)
    fork_id = forks.fork(store, name, origin, time, summary=fields.summary, labels=fields.labels)
    return Json(CommitCreated(fork_id))


@routes.post(
    "/commits/{ctx}/compact",
    **operation(CommitCreated, CompactionRequest, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def compact(store: OpenStore, sender: Sender, ctx: str, body: RequestBody) -> Json:
    """Commit the pending messages, then a compaction that replaces the context before it."""
    fields = body.json(CompactionRequest)
    pending = replace(
        fields.draft(find_commit(store, ctx)),
        messages=fields.pending,
        origin=sign(sender, fields.origin),
    )
    return Json(CommitCreated(compaction.compact(store, pending, fields.context)))


@routes.post(
    "/commits/{ctx}/snapshot",
    **operation(CommitCreated, names=True),
    dependencies=WRITE_DEPENDENCIES,
)
def snapshot(store: OpenStore, sender: Sender, ctx: str) -> Json:
    """Create a child commit that stores the complete conversation as one object."""
    principal = None if sender.is_owner else sender.user
    name = find_commit(store, ctx)
    return Json(CommitCreated(compaction.snapshot(store, name, principal=principal)))


@routes.get("/diff", **operation(CommitDiffBody, names=True))
def diff(store: OpenStore, ours: str, theirs: str) -> Json:
    """Return the common ancestor of two commits, and the messages of each after it."""
    result = history.diff(store, find_commit(store, ours), find_commit(store, theirs))
    return Json(CommitDiffBody(result.ancestor, result.ours, result.theirs))


@routes.get("/labels", **operation(LabelList))
def labels(store: OpenStore, after: str = "", limit: PageLimit = MAX_NAMES) -> Json:
    """List all labels with their commits, oldest first."""
    page = cut_labels(store.commits_by_label(), after, limit)
    return Json(LabelList(page.rows, page.next))


@routes.get("/labels/{label}", **operation(LabelList))
def labelled(store: OpenStore, label: str, after: str = "", limit: PageLimit = MAX_NAMES) -> Json:
    """List the commits with a label, oldest first."""
    page = cut_labels(store.commits_by_label(label), after, limit)
    return Json(LabelList(page.rows, page.next))


@routes.get("/names", **operation(NameList))
def names(store: OpenStore, beginning: str = "", after: str = "", limit: PageLimit = 20) -> Json:
    """List the names of commits and artifacts with this prefix, sorted."""
    page = list_names(store, beginning, after, limit)
    return Json(NameList([*page.rows], page.next))
