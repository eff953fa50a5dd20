import { describe, expect, it } from "vitest";
import { address, Api, type Params } from "../src/api";
import { colorClass, COLORS, initials } from "../src/lib/colors";
import { describeRole, inputTokens, readBlocks } from "../src/lib/context";
import { sourceOf } from "../src/lib/conversation.svelte";
import { NO_FILTERS } from "../src/lib/route";
import { SessionList } from "../src/lib/sessions.svelte";
import { settings } from "../src/lib/settings.svelte";
import { formatAge, formatBytes, formatCost, formatDuration, plural } from "../src/lib/format";

describe("colors", () => {
  it("differ for the first agents, and depend on the id only", () => {
    const first = Array.from({ length: COLORS }, (_, index) => colorClass(`agent_00${index + 1}`));
    expect(new Set(first).size).toBe(COLORS);
    expect(colorClass("agent_001")).toBe("agent-0");
    expect(colorClass("worker-x")).toBe(colorClass("worker-x"));
    expect(colorClass("user")).toBe("agent-user");
    expect(colorClass(null)).toBe("agent-user");
  });
  it("come with initials", () => {
    expect(initials("Test writer")).toBe("Tw");
    expect(initials("👋 émile")).toBe("ém");
    expect(initials("")).toBe("?");
    expect(["worker 1", "worker 12", "worker-299", "agent_003", "7", "main2", "build 2024"].map(initials)).toEqual(["w1", "w12", "299", "003", "7", "m2", "b2"]);
  });
});

it("numbers and times are short", () => {
  const now = Date.parse("2026-03-02T12:00:00Z");
  expect(formatAge("2026-03-02T11:59:50Z", now)).toBe("now");
  expect(formatAge("2026-03-02T09:00:00Z", now)).toBe("3 h");
  expect(formatAge("nonsense", now)).toBe("");
  expect(formatDuration("2026-03-02T09:00:00Z", "2026-03-02T10:05:00Z")).toBe("1 h 05");
  expect(formatDuration(null, "2026-03-02T10:05:00Z")).toBe("");
  expect([formatCost(null), formatCost(0), formatCost(0.001), formatCost(1.5)]).toEqual(["", "$0", "<$0.01", "$1.50"]);
  expect(formatBytes(10_000_000)).toBe("10.0 MB");
  expect([plural(1, "agent"), plural(12_345, "agent"), plural(2, "repository"), plural(2, "day")]).toEqual(["1 agent", "12k agents", "2 repositories", "2 days"]);
});

describe("messages of a context", () => {
  it("have their parts and calls in the order in which the model reads them", () => {
    const calls = [
      { id: "a", function: { name: "ls", arguments: "{}" } },
      { id: "b", function: { name: "cat", arguments: '{"x":1}' } },
    ];
    const content = [{ type: "thinking", text: "hm" }, { type: "call", id: "b" }, { type: "text", text: "then" }];
    expect(readBlocks({ role: "assistant", content, tool_calls: calls }).map(({ kind, text }) => [kind, text])).toEqual([
      ["thinking", "hm"], ["call", '{"x":1}'], ["text", "then"], ["call", "{}"],
    ]);
    expect(readBlocks({ role: "assistant", content: [null, ...content], tool_calls: calls }).map(({ part }) => part)).toEqual([1, 2, 3, null]);
  });
  it("may be any JSON", () => {
    for (const content of [null, 3, "x", [null, 1, {}, { type: "image", url: "u" }], { a: 1 }]) {
      expect(readBlocks({ content, tool_calls: [null, { function: 3 }] }).length).toBeGreaterThan(0);
    }
    expect(describeRole({ role: "tool", name: "ls", is_error: true })).toBe("tool ls, error");
    expect(inputTokens({ usage: { input_tokens: "x" } } as never)).toEqual({ all: 0, cached: 0 });
  });
});

describe("whole texts", () => {
  const item = { message_id: "msg_5", time: "", label: "Said" as const, parts: [] };
  const part = { kind: "text" as const, text: "a", length: 9 };
  it("of a dialog are those of the version that is shown", () => {
    const panel = ["agent_001", "agent_002"];
    expect(sourceOf(item, { ...part, version: "msg_7" }, panel)).toEqual({ message: "msg_5", version: "msg_7", agents: panel });
  });
  it("of a conversation are those of the part", () => {
    expect(sourceOf(item, { ...part, position: 2 }, ["agent_001"])).toEqual({ message: "msg_5", part: 2 });
  });
  it("are requested by part, version and agents", async () => {
    const urls: string[] = [];
    const send = async ({ path, params }: { path: string; params?: Params | undefined }) => {
      urls.push(address(path, params));
      return new Response('{"text":"whole"}');
    };
    const api = new Api({ send });
    expect(await api.text("s", { message: "msg_5", version: "shown", agents: ["a", "b"] })).toBe("whole");
    await api.text("s", { message: "msg_5", part: 0, version: "diff" });
    expect(urls).toEqual(["api/sessions/s/text?message=msg_5&version=shown&agents=a%2Cb", "api/sessions/s/text?message=msg_5&part=0&version=diff"]);
  });
});

describe("the API", () => {
  it("is asked relative to the page, without empty parameters", () => {
    expect(address("sessions", { text: "a b", runtime: "", since: null, limit: 5 })).toBe("api/sessions?text=a+b&limit=5");
  });
});

it("the choice of texts as written is kept", () => {
  expect(settings.isAsWritten).toBe(false);
  settings.toggleAsWritten();
  expect([settings.isAsWritten, localStorage.getItem("harken.text")]).toEqual([true, "written"]);
  settings.toggleAsWritten();
  expect([settings.isAsWritten, localStorage.getItem("harken.text")]).toEqual([false, "rendered"]);
});

it("a failed search is not an empty one", async () => {
  const list = new SessionList({ sessions: async () => ({ sessions: [] }), search: () => Promise.reject(new Error("the index is locked")), get: () => Promise.reject(new Error("there are no choices")) });
  await list.load({ ...NO_FILTERS, text: "cafe" });
  expect([list.searchError?.message, list.error, list.hits]).toEqual(["the index is locked", null, []]);
  await list.load(NO_FILTERS);
  expect(list.searchError).toBeNull();
});
