/** The list of sessions: what can be filtered, and how much of it is indexed. */

import type { Api } from "./index";

/** How much of the home is indexed; the server indexes the rest in the background. */
export interface IndexState {
  pending: number;
  failed: number;
  is_running: boolean;
  error?: string | null;
}

/** Sessions that may match, but whose facts are not known. */
export interface LeftOut {
  unindexed: number;
  unpriced: number;
}

export interface SessionChoices {
  runtimes: string[];
  projects: string[];
  agents: string[];
  tools: string[];
  models: string[];
  outcomes: string[];
}

export const NO_CHOICES: SessionChoices = { runtimes: [], projects: [], agents: [], tools: [], models: [], outcomes: [] };

export function loadChoices(api: Pick<Api, "get">, signal?: AbortSignal): Promise<SessionChoices> {
  return api.get<SessionChoices>("choices", {}, signal);
}
