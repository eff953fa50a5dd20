/** The list of sessions that match the filters. It outlives its view, so that `back` shows it at once. */

import type { Api, SearchHit, SessionSummary } from "../api";
import { api } from "./client";
import type { Filters } from "./route";

const LIMIT = 100;

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

export class SessionList {
  sessions = $state.raw<SessionSummary[]>([]);
  hits = $state.raw<SearchHit[]>([]);
  runtimes = $state.raw<string[]>([]);
  projects = $state.raw<string[]>([]);
  error = $state.raw<Error | null>(null);
  /** Why the messages of the sessions were not searched. */
  searchError = $state.raw<Error | null>(null);
  isLoading = $state(true);
  isLoaded = $state(false);
  #key = "";
  #next: string | null = null;
  #controller = new AbortController();
  #isLoadingMore = false;
  readonly #api: Pick<Api, "sessions" | "search">;

  constructor(from: Pick<Api, "sessions" | "search"> = api) {
    this.#api = from;
  }

  /** Load the sessions of these filters. A list that is shown stays until the new one is there. */
  async load(filters: Filters, { quiet = false } = {}): Promise<void> {
    const key = JSON.stringify(filters);
    if (quiet && (key !== this.#key || this.#isLoadingMore)) return;
    this.#controller.abort();
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    if (!quiet) this.isLoading = true;
    this.#key = key;
    try {
      const limit = quiet ? Math.min(500, Math.max(LIMIT, this.sessions.length)) : LIMIT;
      const text = filters.text.trim();
      const [page, found] = await Promise.all([
        this.#api.sessions({ ...filters, limit }, signal),
        text.length > 1 && !quiet ? this.#api.search(text, 20, signal).catch(toError) : null,
      ]);
      if (signal.aborted) return;
      // A quiet load of a list longer than one page would cut it: only the loaded part is new.
      const tail = quiet ? this.sessions.slice(page.sessions.length) : [];
      const names = new Set(page.sessions.map((session) => session.name));
      this.sessions = [...page.sessions, ...tail.filter((session) => !names.has(session.name))];
      if (!tail.length) this.#next = page.next ?? null;
      this.runtimes = page.runtimes ?? [];
      this.projects = page.projects ?? [];
      if (!quiet) {
        this.hits = found && "hits" in found ? found.hits : [];
        this.searchError = found instanceof Error ? found : null;
      }
      this.error = null;
      this.isLoaded = true;
    } catch (error) {
      if (signal.aborted) return;
      if (!quiet) this.error = toError(error);
    } finally {
      if (!signal.aborted) this.isLoading = false;
    }
  }

  async loadMore(filters: Filters): Promise<void> {
    if (this.#isLoadingMore || this.#next === null) return;
    this.#isLoadingMore = true;
    const key = this.#key;
    try {
      const page = await this.#api.sessions({ ...filters, limit: LIMIT, cursor: this.#next });
      if (key !== this.#key) return;
      const names = new Set(this.sessions.map((session) => session.name));
      this.sessions = [...this.sessions, ...page.sessions.filter(({ name }) => !names.has(name))];
      this.#next = page.next ?? null;
    } catch {
      // The next scroll to the end tries again.
    } finally {
      this.#isLoadingMore = false;
    }
  }
}

export const sessionList = new SessionList();
