/** The list of sessions that match the filters. It outlives its view, so that `back` shows it at once. */

import type { Api, SearchHit, SessionSummary } from "../api";
import { loadChoices, NO_CHOICES, type IndexState, type LeftOut, type SessionChoices } from "../api/sessions";
import { api } from "./client";
import type { Filters } from "./route";

const LIMIT = 100;

function toError(reason: unknown): Error {
  return reason instanceof Error ? reason : new Error(String(reason));
}

export class SessionList {
  sessions = $state.raw<SessionSummary[]>([]);
  hits = $state.raw<SearchHit[]>([]);
  /** The number of sessions that match. */
  total = $state(0);
  leftOut = $state.raw<LeftOut>({ unindexed: 0, unpriced: 0 });
  index = $state.raw<IndexState>({ pending: 0, failed: 0, is_running: false });
  choices = $state.raw<SessionChoices>(NO_CHOICES);
  error = $state.raw<Error | null>(null);
  /** Why the messages of the sessions were not searched. */
  searchError = $state.raw<Error | null>(null);
  /** Whether much was not indexed yet, so that its messages were not searched. */
  isSearchPartial = $state(false);
  isLoading = $state(true);
  isLoaded = $state(false);
  #key = "";
  #next: string | null = null;
  #controller = new AbortController();
  #isLoadingMore = false;
  readonly #api: Pick<Api, "get" | "sessions" | "search">;

  constructor(from: Pick<Api, "get" | "sessions" | "search"> = api) {
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
        text.length > 1 && (!quiet || this.isSearchPartial) ? this.#api.search(text, 20, signal).catch(toError) : null,
      ]);
      if (signal.aborted) return;
      // A quiet load of a list longer than one page would cut it: only the loaded part is new.
      const tail = quiet ? this.sessions.slice(page.sessions.length) : [];
      const names = new Set(page.sessions.map((session) => session.name));
      this.sessions = [...page.sessions, ...tail.filter((session) => !names.has(session.name))];
      if (!tail.length) this.#next = page.next ?? null;
      this.total = page.total ?? page.sessions.length;
      this.leftOut = page.left_out ?? this.leftOut;
      this.#setIndex(page.index ?? this.index);
      if (found || !quiet) {
        this.hits = found && "hits" in found ? found.hits : [];
        this.searchError = found instanceof Error ? found : null;
        this.isSearchPartial = Boolean(found && "hits" in found && found.index);
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

  /** Load the values of the filters. Without them, the fields of filters have no suggestions. */
  async loadChoices(): Promise<void> {
    this.choices = await loadChoices(this.#api).catch(() => this.choices);
  }

  #setIndex(index: IndexState): void {
    const hasNew = index.pending < this.index.pending;
    this.index = index;
    if (hasNew && !index.is_running) void this.loadChoices();
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
