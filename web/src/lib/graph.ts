/** The lines of a row of a graph of commits. */

import type { HistoryRow } from "../api/commits";

export const ROW_HEIGHT = 32;
const STEP = 14;
const MARGIN = 10;
/** The most lanes that are drawn; those beyond lie on the last one. */
export const MAX_DRAWN = 10;

export interface Line {
  agent: string | null;
  path: string;
  isCut: boolean;
}

/** Return the name of the agent of a commit as its session has it: a main conversation is named by its principal. */
export function agentName(row: { agent_name: string; principal: string }): string {
  return row.agent_name === row.principal ? "main" : row.agent_name;
}

export function laneX(lane: number, drawn = MAX_DRAWN): number {
  return MARGIN + Math.min(lane, drawn - 1) * STEP;
}

/** Return the width of a graph with this number of lanes. */
export function graphWidth(lanes: number, drawn = MAX_DRAWN): number {
  return laneX(Math.max(1, lanes) - 1, drawn) + MARGIN;
}

/** Return the number of lanes that a row needs. */
export function countLanes(row: HistoryRow): number {
  return 1 + Math.max(row.lane, row.parent_lane ?? 0, ...row.passing.map(({ lane }) => lane));
}

/** Return the lines of a row, from its upper to its lower edge. */
export function drawRow(row: HistoryRow, drawn = MAX_DRAWN): Line[] {
  const middle = ROW_HEIGHT / 2;
  const lines: Line[] = row.passing.map(({ lane, agent }) => {
    const x = laneX(lane, drawn);
    return { agent, path: `M${x} 0V${ROW_HEIGHT}`, isCut: false };
  });
  const x = laneX(row.lane, drawn);
  if (!row.is_tip) lines.push({ agent: row.agent, path: `M${x} 0V${middle}`, isCut: false });
  if (row.parent === null) return lines;
  const parentX = row.parent_lane === null ? x : laneX(row.parent_lane, drawn);
  const path =
    parentX === x
      ? `M${x} ${middle}V${ROW_HEIGHT}`
      : `M${x} ${middle}C${x} ${ROW_HEIGHT - 5} ${parentX} ${middle + 5} ${parentX} ${ROW_HEIGHT}`;
  lines.push({ agent: row.agent, path, isCut: row.parent_lane === null });
  return lines;
}

/** Return the shape of a commit: the signs of `harken ctx log --graph`. */
export function drawSign(row: HistoryRow, drawn = MAX_DRAWN): string {
  const [x, y] = [laneX(row.lane, drawn), ROW_HEIGHT / 2];
  if (row.is_spawn) return `M${x - 4} ${y - 5}L${x + 6} ${y}L${x - 4} ${y + 5}Z`;
  if (row.type === "compaction") return `M${x} ${y - 6}L${x + 6} ${y}L${x} ${y + 6}L${x - 6} ${y}Z`;
  if (row.type === "snapshot") return `M${x - 4.5} ${y - 4.5}h9v9h-9Z`;
  return `M${x - 4.5} ${y}a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0Z`;
}

/** Return the abbreviated name of a commit. */
export function shortName(commit: string): string {
  return commit.slice(0, 16);
}

/** Return a text with the full names of commits abbreviated. */
export function shortenNames(text: string): string {
  return text.replace(/ctx-[0-9a-f]{64}/g, shortName);
}

/** Return a word for the kind of a commit, or an empty text for a usual one. */
export function kindOf(row: { type: string; is_spawn?: boolean }): string {
  if (row.is_spawn) return "spawn";
  return row.type === "delta" ? "" : row.type;
}
