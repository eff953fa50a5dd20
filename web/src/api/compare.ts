/** The rows of compared sessions, and the requests for them. */

import type { Api, SessionSummary, TextSpan } from ".";
import type { Params } from "./http";

export interface ComparedMessage {
  heading: string;
  text: string;
  text_length?: number;
}

/** The first difference of the transcripts of an agent. */
export interface Divergence {
  agent: string;
  position: number;
  before?: ComparedMessage;
  after?: ComparedMessage;
  spans?: TextSpan[];
}

export interface RunComparison {
  before: string;
  after: string;
  partings: Divergence[];
  only_before?: string[];
  only_after?: string[];
}

export interface RunOutcome {
  tools?: Record<string, number>;
  answer?: string;
  answer_length?: number;
}

export interface ComparedRuns {
  sessions: SessionSummary[];
  outcomes: RunOutcome[];
  metrics: Record<string, number | null>[];
  agents: { name: string; agent_id: string; messages: number }[][];
  /** The comparison of the first session with each other one. */
  pairs: RunComparison[];
}

export interface RunCell {
  heading: string;
  text: string;
  text_length?: number;
  message_id: string | null;
  is_same: boolean;
  spans: TextSpan[];
}

export interface AlignedRow {
  position: number | null;
  /** Whether it is equal in all sessions: then there is only one cell. */
  is_same: boolean;
  cells: (RunCell | null)[];
}

export interface AlignedRows {
  agents: string[];
  total: number;
  earlier: number;
  position: number | null;
  rows: AlignedRow[];
}

const LETTERS = ["a", "b", "c", "d"] as const;

export const MAX_RUNS = LETTERS.length;

export class CompareApi {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  compare(sessions: string[], signal?: AbortSignal) {
    return this.#api.get<ComparedRuns>("compare", nameSessions(sessions), signal);
  }
  rows(sessions: string[], agents: string[], from: number, limit: number, signal?: AbortSignal) {
    const params = { ...nameSessions(sessions), ...nameAgents(agents), from, limit };
    return this.#api.get<AlignedRows>("compare/rows", params, signal);
  }
  async text(sessions: string[], agents: string[], row: number, run: number) {
    const params = { ...nameSessions(sessions), ...nameAgents(agents), row, run };
    return (await this.#api.get<{ text: string }>("compare/text", params)).text;
  }
  /** The session that a session was forked from, or null. */
  async original(session: string, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(session)}/original`;
    return (await this.#api.get<{ original: string | null }>(path, {}, signal)).original;
  }
}

function nameSessions(sessions: string[]): Params {
  return Object.fromEntries(sessions.map((name, index) => [LETTERS[index] ?? "", name]));
}

function nameAgents(agents: string[]): Params {
  return Object.fromEntries(agents.map((name, index) => [`agent_${LETTERS[index] ?? ""}`, name]));
}
