/** The rows of the tree of agents that are shown: without collapsed subtrees, or those that match a text. */

import type { Change, Generation, SessionInfo, TreeRow } from "../api";

/** The number of agents above which only the upper levels are open at first. */
const MANY = 40;

export interface TreeNode {
  row: TreeRow;
  hasChildren: boolean;
  isOpen: boolean;
  /** Whether it matches the text. The others are the agents above those that do. */
  isMatch: boolean;
  /** Its place among its siblings, from 1, and their number. */
  position: number;
  siblings: number;
}

/** Return the agents whose subtrees are collapsed at first: those below the root, if there are many agents. */
export function collapsedAtFirst(rows: readonly TreeRow[], shown: ReadonlySet<string>): Set<string> {
  const collapsed = new Set<string>();
  if (rows.length <= MANY) return collapsed;
  rows.forEach((row, index) => {
    if (row.depth > 0 && hasChildren(rows, index)) collapsed.add(row.agent_id);
  });
  rows.forEach((row, index) => {
    if (shown.has(row.agent_id)) for (const above of ancestors(rows, index)) collapsed.delete(above);
  });
  return collapsed;
}

/** Return the nodes to show, parents before children. A text overrides what is collapsed. */
export function arrangeTree(rows: readonly TreeRow[], collapsed: ReadonlySet<string>, text: string): TreeNode[] {
  const words = text.trim().toLowerCase();
  const matches = (row: TreeRow) => `${row.name} ${row.task ?? ""}`.toLowerCase().includes(words);
  const kept = words ? keepMatches(rows, matches) : keepOpen(rows, collapsed);
  const nodes = kept.map((index): TreeNode => {
    const row = rows[index] as TreeRow;
    const isParent = hasChildren(rows, index);
    return { row, hasChildren: isParent, isOpen: isParent && (words !== "" || !collapsed.has(row.agent_id)), isMatch: matches(row), position: 1, siblings: 1 };
  });
  numberSiblings(nodes);
  return nodes;
}

function keepOpen(rows: readonly TreeRow[], collapsed: ReadonlySet<string>): number[] {
  const kept: number[] = [];
  let closedAt = Infinity;
  rows.forEach((row, index) => {
    if (row.depth > closedAt) return;
    closedAt = collapsed.has(row.agent_id) ? row.depth : Infinity;
    kept.push(index);
  });
  return kept;
}

function keepMatches(rows: readonly TreeRow[], matches: (row: TreeRow) => boolean): number[] {
  const kept: number[] = [];
  // From the end, so that it is known of each row whether a row below it is kept.
  let depthNeeded = -1;
  for (let index = rows.length - 1; index >= 0; index -= 1) {
    const row = rows[index] as TreeRow;
    if (matches(row) || row.depth < depthNeeded) {
      kept.push(index);
      depthNeeded = row.depth;
    }
  }
  return kept.reverse();
}

function hasChildren(rows: readonly TreeRow[], index: number): boolean {
  return (rows[index + 1]?.depth ?? 0) > (rows[index]?.depth ?? 0);
}

/** Return the position of the agent above a row, or -1. */
export function parentOf(rows: readonly { depth: number }[], index: number): number {
  const depth = rows[index]?.depth ?? 0;
  let at = index - 1;
  while (at >= 0 && (rows[at]?.depth ?? 0) >= depth) at -= 1;
  return at;
}

function ancestors(rows: readonly TreeRow[], index: number): string[] {
  const ids: string[] = [];
  for (let at = parentOf(rows, index); at >= 0; at = parentOf(rows, at)) ids.push(rows[at]?.agent_id ?? "");
  return ids;
}

function numberSiblings(nodes: TreeNode[]): void {
  const groups: TreeNode[][] = [];
  const finish = (depth: number) => {
    for (const group of groups.splice(depth)) for (const node of group) node.siblings = group.length;
  };
  for (const node of nodes) {
    finish(node.row.depth + 1);
    const group = (groups[node.row.depth] ??= []);
    group.push(node);
    node.position = group.length;
  }
  finish(0);
}

/** The tree of a session that grows: as it was asked for, or as the live stream brought it, whichever is newer. */
export class GrowingTree {
  rows: TreeRow[] = [];
  #generation: Generation = null;
  #events = -1;
  /** The tree as the stream brought it: the changes of the next line are of this one. */
  #streamed: TreeRow[] | null = null;

  /** Take the tree of an answer, unless a newer one is there. */
  load(answer: Pick<SessionInfo, "agents" | "events" | "generation">): void {
    this.#show(answer.agents, answer.events, answer.generation ?? null);
  }

  /** Apply a line of the stream. */
  apply(change: Change): void {
    if (change.agents) this.#streamed = change.agents;
    else if (change.tree && this.#streamed) this.#streamed = applyTree(this.#streamed, change.tree);
    else return;
    this.#show(this.#streamed, change.events ?? this.#events, change.generation ?? null);
  }

  #show(rows: TreeRow[], events: number, generation: Generation): void {
    if (generation === this.#generation && events < this.#events) return;
    this.rows = rows;
    this.#events = events;
    this.#generation = generation;
  }
}

function applyTree(before: readonly TreeRow[], { rows, order }: NonNullable<Change["tree"]>): TreeRow[] {
  const byId = new Map([...before, ...rows].map((row) => [row.agent_id, row]));
  return (order ?? before.map((row) => row.agent_id)).flatMap((id) => byId.get(id) ?? []);
}
