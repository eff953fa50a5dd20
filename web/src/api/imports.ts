/** The import of sessions of other runtimes. */

import type { Api } from "./index";

export interface ImportSource {
  runtime: string;
  name: string;
  folders: string[];
  files: number;
  sessions: number | null;
  size_bytes: number;
  newest: string;
  new_files: number;
}

/** Whether an import in this phase goes on. */
export function isRunningPhase(phase: ImportState["phase"]): boolean {
  return phase === "searching" || phase === "reading" || phase === "indexing";
}

export interface ImportProblem {
  source: string;
  reason: string;
  is_partial: boolean;
}

export interface ImportState {
  phase: "none" | "searching" | "reading" | "indexing" | "done" | "cancelled" | "failed";
  runtimes: string[];
  files: number;
  of_files: number;
  size_bytes: number;
  of_size_bytes: number;
  sessions: number;
  commits: number;
  messages: number;
  unchanged: number;
  unknown: number;
  redacted: number;
  problems: ImportProblem[];
  problem_count: number;
  began: string | null;
  ended: string | null;
  is_cancelling: boolean;
  error: string | null;
}

export async function loadSources(api: Api, signal?: AbortSignal): Promise<ImportSource[]> {
  return (await api.get<{ sources: ImportSource[] }>("import/sources", {}, signal)).sources;
}

export function loadImport(api: Api, signal?: AbortSignal): Promise<ImportState> {
  return api.get<ImportState>("import", {}, signal);
}

export function startImport(api: Api, runtimes: string[]): Promise<ImportState> {
  return api.post<ImportState>("import", { runtimes });
}

export function cancelImport(api: Api): Promise<ImportState> {
  return api.post<ImportState>("import/cancel", {});
}
