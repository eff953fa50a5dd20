/** Which lanes of a timeline are shown: few enough to have names. */

import type { TimelineEvent, TimelineLane, TreeRow } from "../api";

export const MAX_LANES = 12;

/** Return the indexes of the lanes to show, in order: those chosen, else those with the most events in view. */
export function pickLanes(
  lanes: readonly TimelineLane[],
  inView: readonly TimelineEvent[],
  chosen: ReadonlySet<string> | null,
): number[] {
  const all = lanes.map((_, index) => index);
  if (chosen) return all.filter((index) => chosen.has(lanes[index]?.agent_id ?? ""));
  if (lanes.length <= MAX_LANES) return all;
  const numbers = new Map(lanes.map((lane, index) => [lane.agent_id, index]));
  const counts = new Map<number, number>();
  for (const event of inView) {
    for (const lane of [event.lane ?? null, numbers.get(event.source_agent ?? "") ?? null]) {
      if (lane !== null) counts.set(lane, (counts.get(lane) ?? 0) + 1);
    }
  }
  const busiest = [...counts].sort((left, right) => right[1] - left[1] || left[0] - right[0]).slice(0, MAX_LANES);
  return busiest.map(([lane]) => lane).sort((left, right) => left - right);
}

/** Return the agent in whose lane each agent is shown: its own, or of a subtree the uppermost one below the root. */
export function groupAgents(rows: readonly TreeRow[]): Map<string, string> {
  const groups = new Map<string, string>();
  let top = "";
  for (const row of rows) {
    if (row.depth <= 1) top = row.agent_id;
    groups.set(row.agent_id, top || row.agent_id);
  }
  return groups;
}

/** Return for each lane the lane that it is shown in. Without groups, each is its own. */
export function mergeLanes(lanes: readonly TimelineLane[], groups: ReadonlyMap<string, string> | null): number[] {
  const numbers = new Map(lanes.map((lane, index) => [lane.agent_id, index]));
  return lanes.map((lane, index) => numbers.get(groups?.get(lane.agent_id) ?? lane.agent_id) ?? index);
}
