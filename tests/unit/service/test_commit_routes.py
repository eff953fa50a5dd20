"""The operations of the agent service, called with plain JSON as any runtime would."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import httpx
import msgspec
import pytest

from harken.core.commits import Commit, CommitNotes
from harken.service.schemas import CommitInfo
from tests.service_kit import TOKEN, serve_store

TIME = "2026-01-31T12:00:00Z"


class Caller:
    """A client that expects success."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    def get(self, path: str, **parameters: Any) -> Any:
        return self._check_ok(self.client.get(f"/v1/{path}", params=parameters))

    def post(self, path: str, **body: Any) -> Any:
        return self._check_ok(self.client.post(f"/v1/{path}", json=body))

    def patch(self, path: str, **body: Any) -> Any:
        return self._check_ok(self.client.patch(f"/v1/{path}", json=body))

    def refused(self, method: str, path: str, body: Any = None) -> tuple[int, str]:
        answer = self.client.request(method, f"/v1/{path}", json=body)
        return answer.status_code, answer.json()["error"]["code"]

    def commit(self, *texts: str, parent: str | None = None, **members: Any) -> str:
        messages = [{"role": "user", "content": text, "time": TIME} for text in texts]
        name: str = self.post("checkpoint", messages=messages, parent=parent, **members)["id"]
        return name

    def _check_ok(self, answer: httpx.Response) -> Any:
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture
def ask() -> Iterator[Caller]:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with serve_store() as url, httpx.Client(base_url=url, headers=headers) as client:
        yield Caller(client)


def test_row_has_all_fields_of_a_commit() -> None:
    assert set(CommitInfo.__struct_fields__) == {
        "id",
        *Commit.__struct_fields__,
        *CommitNotes.__struct_fields__,
    }


@pytest.mark.req("S2-10", "S2-19")
def test_checkpoint_is_queryable_at_once_with_all_fields(ask: Caller) -> None:
    members: dict[str, Any] = {
        "template": "coder",
        "principal": "iree",
        "machine": "m",
        "session_id": "s",
        "ticket_id": "tkt-1",
        "thread_id": "$t",
        "summary": "it knows",
        "labels": ["good"],
        "trigger": "turn_boundary",
        "type": "snapshot",
        "format": "events-v1",
        "message_count": 7,
        "token_count": 8,
        "created_at": "2026-01-31T13:00:00+01:00",
    }
    name = ask.commit("Hi", "Ho", **members)
    row = ask.get(f"commits/{name[:12]}")
    expected = {**members, "checkpoint": members.pop("trigger"), "id": name, "parent": None}
    del expected["trigger"]
    expected |= {"created_at": "2026-01-31T12:00:00.000000Z", "derived": False, "summarized_by": ""}
    assert row.pop("artifact").startswith("art-")
    assert row == expected
    assert ask.commit("Hi", "Ho", **members, trigger="turn_boundary") == name


@pytest.mark.req("S2-11")
def test_only_stored_artifacts_can_be_committed(ask: Caller) -> None:
    artifact = ask.get(f"commits/{ask.commit('Hi')}")["artifact"]
    name = ask.post("checkpoint", artifact=artifact, created_at=TIME, principal="other")["id"]
    assert ask.get(f"commits/{name}")["message_count"] == 1
    missing_draft = {"artifact": "art-" + "0" * 64, "created_at": TIME}
    assert ask.refused("POST", "checkpoint", missing_draft) == (404, "object_missing")
    orphan = {"messages": [], "created_at": TIME, "parent": "ctx-00"}
    assert ask.refused("POST", "checkpoint", orphan) == (404, "unknown_name")


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"messages": []},
        {"messages": [{"role": "robot"}], "created_at": TIME},
        {"messages": [], "created_at": "yesterday"},
        {"messages": [], "created_at": "0001-01-01T00:00:00+23:59"},
        {"messages": [], "created_at": TIME, "type": "merge"},
        {"messages": [], "created_at": TIME, "trigger": "midnight"},
        {"messages": [], "created_at": TIME, "message_count": -1},
        {"messages": [], "created_at": TIME, "token_count": 10**30},
        {"messages": [], "created_at": TIME, "tiket_id": "x"},
        {"messages": [], "created_at": TIME, "artifact": 5},
        {"messages": [{"role": "user", "content": "x"}], "artifact": "art-x", "created_at": TIME},
    ],
)
def test_invalid_draft_is_refused(ask: Caller, body: Any) -> None:
    assert ask.refused("POST", "checkpoint", body) == (422, "invalid")
    assert ask.get("names")["names"] == []


@pytest.mark.req("S2-12", "S2-13", "S2-14", "S2-15", "S2-16")
def test_conversations_are_materialized_at_every_stop(ask: Caller) -> None:
    assert ask.get("materialize", messages=True)["messages"] == []
    first = ask.commit("one")
    second = ask.commit("two", parent=first)
    tip = ask.post(f"commits/{second}/compact", context="so far: one, two")["id"]
    texts = {
        stop: [
            m["content"]
            for m in ask.get("materialize", ctx=tip, stop=stop, messages=True)["messages"]
        ]
        for stop in ("compaction", "root", second[:10])
    }
    assert texts == {
        "compaction": ["so far: one, two"],
        "root": ["one", "two"],
        second[:10]: ["two"],
    }
    conversation = ask.get("materialize", ctx=tip)
    assert (conversation["message_count"], conversation["messages"]) == (1, None)
    assert conversation["ref"] == ask.get("materialize", ctx=tip)["ref"]
    other_commit = ask.commit("elsewhere")
    assert ask.refused("GET", f"materialize?ctx={tip}&stop={other_commit}") == (404, "unknown_name")


@pytest.mark.req("S2-18")
def test_last_commit_of_a_principal_at_a_time(ask: Caller) -> None:
    name = ask.commit("Hi", principal="iree")
    assert ask.get("resolve", principal="iree", time="2026-02-01T00:00:00Z") == {"id": name}
    assert ask.get("resolve", principal="iree", time="2026-01-01T00:00:00Z") == {"id": None}
    assert ask.refused("GET", "resolve?principal=iree&time=now") == (422, "invalid")
    assert ask.refused("GET", "resolve?principal=iree") == (422, "invalid")


@pytest.mark.req("S2-20")
def test_history_goes_back_to_the_root(ask: Caller) -> None:
    names = [ask.commit("0")]
    for n in range(1, 4):
        names.append(ask.commit(str(n), parent=names[-1]))
    tip = names[-1]
    assert [row["id"] for row in ask.get(f"commits/{tip}/history")["commits"]] == names[::-1]
    assert [row["id"] for row in ask.get(f"commits/{tip}/history", depth=2)["commits"]] == [
        tip,
        names[2],
    ]
    assert [row["id"] for row in ask.get("commits", limit=2)["commits"]] == [tip, names[2]]
    assert ask.get(f"commits/{names[0]}/children") == {"commits": [names[1]]}
    assert ask.refused("GET", f"commits/{tip}/history?depth=0") == (422, "invalid")


@pytest.mark.req("S2-06", "S2-21")
def test_only_summary_and_labels_can_change(ask: Caller) -> None:
    name = ask.commit("Hi")
    before = ask.get(f"commits/{name}")
    assert ask.patch(f"commits/{name}", summary="better", labels=["x"])["summary"] == "better"
    assert ask.get(f"commits/{name}") == before | {
        "summary": "better", "labels": ["x"], "derived": False
    }  # fmt: skip
    assert ask.get("labels") == {"labels": {"x": [name]}}
    assert ask.get("labels/y") == {"labels": {}}
    assert ask.get("labels/x") == {"labels": {"x": [name]}}
    for invalid_patch in ({"principal": "me"}, {"summary": " "}, {"labels": "x"}):
        assert ask.refused("PATCH", f"commits/{name}", invalid_patch) == (422, "invalid")


@pytest.mark.req("S2-08")
def test_branches_are_forked_and_compared(ask: Caller) -> None:
    trunk = ask.commit("trunk")
    fork = ask.post(f"commits/{trunk}/fork", thread_id="other", labels=["try"])["id"]
    our_commit, their_commit = ask.commit("ours", parent=fork), ask.commit("theirs", parent=trunk)
    difference = ask.get("diff", ours=our_commit, theirs=their_commit)
    assert difference["ancestor"] == trunk
    sides = [[m["content"] for m in difference[side]] for side in ("ours", "theirs")]
    assert sides == [["ours"], ["theirs"]]
    row = ask.get(f"commits/{fork}")
    assert (row["parent"], row["message_count"], row["labels"]) == (trunk, 0, ["try"])


@pytest.mark.req("S2-27")
def test_snapshot_replaces_earlier_messages(ask: Caller) -> None:
    tip = ask.commit("two", parent=ask.commit("one"))
    name = ask.post(f"commits/{tip}/snapshot")["id"]
    messages = ask.get("materialize", ctx=name, messages=True)["messages"]
    assert [message["content"] for message in messages] == ["one", "two"]
    assert ask.get(f"commits/{name}")["type"] == "snapshot"


@pytest.mark.req("S2-05")
def test_ambiguous_prefix_lists_the_candidates(ask: Caller) -> None:
    names = sorted(ask.commit(str(n)) for n in range(40))
    first = next(a for a, b in pairwise(names) if a[4] == b[4])[:5]
    answer = ask.client.get(f"/v1/commits/{first}")
    assert answer.status_code == 409
    assert len(answer.json()["error"]["known"]) > 1
    assert ask.get("names", beginning=first)["names"] == [n for n in names if n.startswith(first)]


def test_lone_surrogate_round_trips(ask: Caller) -> None:
    message = '{"role":"user","content":"\\ud800!"}'
    body = f'{{"messages":[{message}],"created_at":"{TIME}"}}'
    name = ask.client.post("/v1/checkpoint", content=body).json()["id"]
    response = ask.client.get("/v1/materialize", params={"ctx": name, "messages": "true"}).text
    assert '"content":"\\ud800!"' in response


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_batch_is_accepted_in_both_encodings(ask: Caller, form: str) -> None:
    from harken.store.remote.wire import encode_batch
    from harken.testing.store import batch_of, commit_in

    batch = batch_of("Hi")
    if form == "msgpack":
        body, kind = encode_batch(batch), "application/msgpack"
    else:
        kind = "application/json"
        plain = {
            "objects": {name: msgspec.json.decode(data) for name, data in batch.objects.items()},
            "deltas": batch.deltas,
            "commits": [{"commit": commit, "notes": notes} for commit, notes in batch.commits],
        }
        body = msgspec.json.encode(plain)
    answer = ask.client.post("/v1/store/write", content=body, headers={"content-type": kind})
    assert answer.json() == {"done": True}
    objects_found = ask.post("store/objects", names=[*batch.objects, "0" * 64])
    assert objects_found == {
        "found": {name: msgspec.json.decode(data) for name, data in batch.objects.items()},
        "asked": 3,
    }
    [row] = ask.post("store/chain", name=commit_in(batch))["commits"]
    assert row["commit"]["artifact"] == next(iter(batch.deltas))


def test_read_only_service_changes_nothing() -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    with serve_store(read_only=True) as url, httpx.Client(base_url=url, headers=headers) as client:
        ask = Caller(client)
        described = client.get("/v1/openapi.json").json()["paths"]
        for path in ("checkpoint", "store/write", "store/annotate"):
            assert ask.refused("POST", path, {}) == (403, "read_only")
        assert ask.refused("PATCH", "commits/ctx-00", {}) == (403, "read_only")
        for path in ("fork", "compact", "snapshot"):
            assert ask.refused("POST", f"commits/ctx-00/{path}", {}) == (403, "read_only")
        assert ask.get("materialize")["message_count"] == 0
        assert "/v1/store/write" in described


@pytest.mark.req("S2-12", "S2-61")
def test_conversation_is_converted_with_a_loss_report(ask: Caller) -> None:
    name = ask.commit("Hi", "Ho")
    rendered = ask.get("render", ctx=name, format="messages-v1")
    assert (rendered["tier"], rendered["format"], rendered["message_count"]) == (
        3,
        "messages-v1",
        2,
    )
    assert rendered == ask.get("render", ctx=name[:14], format="messages-v1")
    assert ask.get("render", ctx=name, format="events-v1")["tier"] == 1
