/** Forks of sessions. */

import { api } from "../lib/client";

/** Where a session is forked, and what is different in the fork. */
export interface ForkRequest {
  at: string | null;
  before?: boolean;
  edit?: string | null;
  model?: string | null;
  without_hooks?: string[];
  name?: string | null;
}

export interface ForkRow {
  session: string;
  /** The line that tells of which session it is a fork. */
  origin: string;
  disarmed: string[];
}

export function createFork(session: string, request: ForkRequest): Promise<ForkRow> {
  return api.post<ForkRow>(`sessions/${encodeURIComponent(session)}/fork`, request);
}
