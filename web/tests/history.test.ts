import { describe, expect, it, vi } from "vitest";
import { Api, type Transport } from "../src/api";
import { CommitApi, type HistoryRow } from "../src/api/commits";
import { CompareApi } from "../src/api/compare";
import { countLanes, drawRow, graphWidth, kindOf, laneX, MAX_DRAWN, ROW_HEIGHT, shortenNames } from "../src/lib/graph";
import { compareHref, runChoice } from "../src/lib/run_choice.svelte";

function row(members: Partial<HistoryRow>): HistoryRow {
  return {
    id: "ctx-1", parent: "ctx-0", type: "delta", is_spawn: false, created_at: "", principal: "ann", agent: "ann", agent_name: "ann",
    template: "", machine: "", runtime: "harken", session_id: "", checkpoint: "", ticket_id: "", thread_id: "", message_count: 0,
    token_count: 0, summary: "", is_summary_derived: false, labels: [], branches: [], lane: 0, is_tip: false, parent_lane: 0,
    passing: [], hidden_lanes: 0, ...members,
  };
}

describe("the lines of a row", () => {
  it("lead from above to the commit, and from it to its parent", () => {
    expect(drawRow(row({})).map(({ path }) => path)).toEqual(["M10 0V16", "M10 16V32"]);
  });
  it("begin at a tip and end at a root", () => {
    expect(drawRow(row({ is_tip: true, parent: null, parent_lane: null }))).toEqual([]);
  });
  it("are cut where the parent is not shown", () => {
    expect(drawRow(row({ is_tip: true, parent_lane: null })).map(({ isCut }) => isCut)).toEqual([true]);
  });
  it("pass beside the commit in the color of the agent that they come from", () => {
    const [line] = drawRow(row({ lane: 1, passing: [{ lane: 0, source: "ctx-2", agent: "agent_002" }] }));
    expect(line).toEqual({ agent: "agent_002", path: `M10 0V${ROW_HEIGHT}`, isCut: false });
  });
  it("lead to the lane of the parent", () => {
    const path = drawRow(row({ lane: 1, is_tip: true })).at(-1)?.path ?? "";
    expect(path.startsWith("M24 16C")).toBe(true);
    expect(path.endsWith("10 32")).toBe(true);
  });
  it("are drawn in as many lanes as there is room for", () => {
    expect(laneX(500)).toBe(laneX(MAX_DRAWN - 1));
    expect(graphWidth(500)).toBe(graphWidth(MAX_DRAWN));
    expect(countLanes(row({ lane: 2, passing: [{ lane: 6, source: "ctx-2", agent: null }] }))).toBe(7);
  });
});

it("the kind of a commit is named unless it is a usual one", () => {
  expect([row({}), row({ is_spawn: true, type: "snapshot" }), row({ type: "compaction" })].map(kindOf)).toEqual(["", "spawn", "compaction"]);
});

it("names of commits in a text are abbreviated", () => {
  expect(shortenNames(`at ctx-${"0123456789ab".padEnd(64, "c")}, not at ctx-12`)).toBe("at ctx-0123456789ab, not at ctx-12");
});

describe("requests", () => {
  const send = vi.fn<Transport["send"]>(async () => new Response("{}"));
  const api = new Api({ send });

  it("name compared sessions and their agents by letters", async () => {
    await new CompareApi(api).rows(["one", "two"], ["Ann", "Bob"], 5, 10);
    expect(send).toHaveBeenLastCalledWith(
      { path: "compare/rows", params: { a: "one", b: "two", agent_a: "Ann", agent_b: "Bob", from: 5, limit: 10 } },
      undefined,
    );
  });
  it("tell what the page has seen when they change a name", async () => {
    await new CommitApi(api).setLabels("ctx-1", ["good"], []);
    expect(send).toHaveBeenLastCalledWith({ path: "commits/ctx-1/labels", body: { labels: ["good"], expected: [] } }, undefined);
    await new CommitApi(api).setBranch("main", null, "ctx-1");
    expect(send).toHaveBeenLastCalledWith({ path: "branches", body: { name: "main", to: null, expected: "ctx-1" } }, undefined);
  });
});

it("at most four sessions are chosen, each once", () => {
  for (const name of ["a", "b", "c", "d", "e"]) runChoice.toggle(name);
  expect(runChoice.names).toEqual(["a", "b", "c", "d"]);
  runChoice.toggle("b");
  expect(runChoice.names).toEqual(["a", "c", "d"]);
  runChoice.clear();
  expect(runChoice.names).toEqual([]);
  expect(compareHref(["a b", "c&d"], ["Ann"])).toBe("#/compare?session=a+b&session=c%26d&agent=Ann");
});
