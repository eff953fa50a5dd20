import { describe, expect, it } from "vitest";
import type { TimelineEvent, TimelineLane, TreeRow } from "../src/api";
import { groupAgents, MAX_LANES, mergeLanes, pickLanes } from "../src/lib/lanes";

const lanes = (count: number): TimelineLane[] => Array.from({ length: count }, (_, index) => ({ agent_id: `a${index}`, first: "", last: "", events: 1 }));
const event = (lane: number | null, source_agent: string | null = null): TimelineEvent => ({ message_id: "m", time: "", turn: 1, lane, event_type: "transcript_entry", text: "", source_agent });

it("lanes of few agents are all shown", () => {
  expect(pickLanes(lanes(3), [], null)).toEqual([0, 1, 2]);
});
it("of many agents, those with the most events in view have a lane", () => {
  const view = [...Array.from({ length: 40 }, (_, at) => event(100 + at)), event(250), event(250), event(null), event(7, "a299"), event(7, "a299")];
  const picked = pickLanes(lanes(300), view, null);
  expect(picked.length).toBe(MAX_LANES);
  expect(picked).toEqual([...picked].sort((a, b) => a - b));
  for (const lane of [7, 250, 299]) expect(picked).toContain(lane);
  expect(pickLanes(lanes(300), [], null)).toEqual([]);
});
it("a choice decides", () => {
  expect(pickLanes(lanes(300), [event(1)], new Set(["a5", "a2", "gone"]))).toEqual([2, 5]);
});

describe("lanes of subtrees", () => {
  const rows = [["main", 0], ["lead 1", 1], ["worker 1", 2], ["hook of 1", 3], ["lead 2", 1], ["worker 2", 2]].map(
    ([name, depth]) => ({ agent_id: name, name, depth }) as unknown as TreeRow,
  );
  const lanes = ["main", "worker 1", "lead 1", "worker 2", "x"].map((agent_id) => ({ agent_id, first: "", last: "", events: 1 }));
  it("are those of the agents below the root", () => {
    const groups = groupAgents(rows);
    expect(groups.get("hook of 1")).toBe("lead 1");
    expect(mergeLanes(lanes, groups)).toEqual([0, 2, 2, 3, 4]);
    expect(mergeLanes(lanes, null)).toEqual([0, 1, 2, 3, 4]);
  });
});
