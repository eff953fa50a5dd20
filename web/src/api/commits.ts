/** The rows of commits, and the requests for them. */

import type { Api, MessageDiff } from ".";

/** A commit, with its place in the graph. */
export interface HistoryRow {
  id: string;
  parent: string | null;
  type: "delta" | "compaction" | "snapshot";
  is_spawn: boolean;
  created_at: string;
  principal: string;
  /** The id of its agent in its session; null if that is not known. */
  agent: string | null;
  agent_name: string;
  template: string;
  machine: string;
  runtime: string;
  session_id: string;
  checkpoint: string;
  ticket_id: string;
  thread_id: string;
  message_count: number;
  token_count: number;
  summary: string;
  is_summary_derived: boolean;
  labels: string[];
  branches: string[];
  lane: number;
  is_tip: boolean;
  parent_lane: number | null;
  passing: { lane: number; source: string; agent: string | null }[];
  hidden_lanes: number;
}

export interface GraphPage {
  total: number;
  /** Another text when the order of the rows may have changed. */
  version: string;
  rows: HistoryRow[];
}

export interface CommitPosition {
  id: string;
  row: number | null;
  version: string;
}

export interface CommitBrief {
  id: string;
  type: string;
  agent_name: string;
  summary: string;
}

export interface CommitMessage {
  heading: string;
  text: string;
  text_length?: number;
}

export interface CommitDetails {
  commit: HistoryRow;
  session: string | null;
  parent: CommitBrief | null;
  children: CommitBrief[];
  child_count: number;
  total: number;
  messages: CommitMessage[];
}

export interface CommitDifference extends MessageDiff {
  text_length?: number;
  is_partial: boolean;
}

export interface CommitComparison {
  before: HistoryRow;
  after: HistoryRow;
  ancestor: string | null;
  kept: number;
  total: number;
  counts: Partial<Record<MessageDiff["kind"], number>>;
  rows: CommitDifference[];
}

export interface CommitName {
  kind: "branch" | "label";
  name: string;
  commit: string;
}

export class CommitApi {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  rows(session: string | null, from: number, limit: number, signal?: AbortSignal) {
    return this.#api.get<GraphPage>("commits", { session, from, limit }, signal);
  }
  find(session: string | null, name: string) {
    return this.#api.get<CommitPosition>("commits/find", { session, name });
  }
  names(text: string, limit: number, signal?: AbortSignal) {
    return this.#api.get<{ total: number; names: CommitName[] }>("commits/names", { text, limit }, signal);
  }
  details(commit: string, from: number, limit: number, signal?: AbortSignal) {
    return this.#api.get<CommitDetails>(`commits/${commit}`, { from, limit }, signal);
  }
  place(commit: string) {
    const path = `commits/${commit}/place`;
    return this.#api.get<{ session: string; agent: string | null; message: string | null }>(path);
  }
  compare(before: string, after: string, from: number, limit: number, signal?: AbortSignal) {
    return this.#api.get<CommitComparison>("commits/compare", { before, after, from, limit }, signal);
  }
  async text(commit: string, place: { own: number } | { position: number }) {
    return (await this.#api.get<{ text: string }>(`commits/${commit}/text`, place)).text;
  }
  /** Replace labels, unless another writer changed them. */
  setLabels(commit: string, labels: string[], expected: string[]) {
    return this.#api.post<{ labels: string[] }>(`commits/${commit}/labels`, { labels, expected });
  }
  moveLabel(label: string, source: string, target: string) {
    return this.#api.post("labels/move", { label, source, target });
  }
  /** Create, move or delete a branch: `expected` is null before, and `to` after. */
  setBranch(name: string, to: string | null, expected: string | null) {
    return this.#api.post("branches", { name, to, expected });
  }
  renameBranch(name: string, newName: string, expected: string) {
    return this.#api.post("branches/rename", { name, new_name: newName, expected });
  }
}
