import { expect, it } from "vitest";
import type { TimelineEvent, TimelineLane } from "../src/api";
import { MAX_LANES, pickLanes } from "../src/lib/lanes";

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
