/** Requests of the panels and of the tree of a session. */

import type { Api, Generation, TreeRow } from ".";

export interface Matches {
  generation?: Generation;
  events?: number;
  /** The positions of the items that contain the text, in order. */
  indexes: number[];
  /** Whether items after the last one were not searched. */
  is_partial: boolean;
}

/** A change of an agent's place in the tree. */
export interface TreeMove {
  message_id: string;
  time: string;
  agent_id: string;
  name: string;
  place: TreeRow["place"];
  parent?: string | null;
  parent_name?: string | null;
  replaces?: string | null;
  replaces_name?: string | null;
}

const path = (session: string, view: string) => `sessions/${encodeURIComponent(session)}/${view}`;

export function findMatches(api: Api, session: string, panel: string[], text: string, signal?: AbortSignal) {
  return api.get<Matches>(path(session, "matches"), { panel: panel.join(","), text }, signal);
}

/** Return for each panel the position of its last item that is not after a message. */
export async function align(api: Api, session: string, message: string, panels: string[][], signal?: AbortSignal) {
  const params = { message, panels: panels.map((agents) => agents.join(",")).join(";") };
  return (await api.get<{ indexes: number[] }>(path(session, "align"), params, signal)).indexes;
}

export async function readMoves(api: Api, session: string, signal?: AbortSignal) {
  return (await api.get<{ moves: TreeMove[] }>(path(session, "moves"), { limit: 500 }, signal)).moves;
}

export async function readTreeAfter(api: Api, session: string, after: string, signal?: AbortSignal) {
  return (await api.get<{ agents: TreeRow[] }>(path(session, "tree"), { after }, signal)).agents;
}
