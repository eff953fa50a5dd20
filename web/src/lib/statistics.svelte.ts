/** The statistics of a scope. They are loaded again while the server indexes sessions. */

import { ApiError, type Api } from "../api";
import { loadRows, loadStatistics, type Statistics, type StatisticsScope } from "../api/stats";
import { api } from "./client";

const POLL_MS = 2_500;
/** The lists of days, which charts need completely. */
const DAYS = ["activity.days", "days"] as const;

export class StatisticsPage {
  data = $state.raw<Statistics | null>(null);
  error = $state.raw<Error | null>(null);
  /** Whether the session is not indexed yet. */
  isPending = $state(false);
  readonly #api: Api;

  constructor(from: Api = api) {
    this.#api = from;
  }

  /** Load the statistics until the returned function is called. */
  watch(scope: StatisticsScope): () => void {
    const controller = new AbortController();
    this.error = null;
    this.isPending = false;
    void this.#load(scope, controller.signal);
    return () => controller.abort();
  }

  /** Return a function that loads further rows of a list. */
  loader(scope: StatisticsScope): (list: string) => (from: number) => Promise<never[]> {
    return (list) => async (from) => (await loadRows<never>(this.#api, scope, list, from)).rows;
  }

  async #load(scope: StatisticsScope, signal: AbortSignal): Promise<void> {
    try {
      const data = await loadStatistics(this.#api, scope, signal);
      if (data.session === undefined) {
        const [activityDays, days] = await Promise.all(DAYS.map((list) => this.#loadRest(scope, list, data.totals[list] ?? 0, list === "days" ? data.days : data.activity.days, signal)));
        data.activity.days = activityDays as typeof data.activity.days;
        data.days = days as typeof data.days;
      }
      if (signal.aborted) return;
      this.data = data;
      this.error = null;
      this.isPending = false;
      if (!data.index.is_running && !data.index.pending) return;
    } catch (error) {
      if (signal.aborted) return;
      this.isPending = error instanceof ApiError && error.kind === "busy";
      if (!this.isPending) {
        this.error = error instanceof Error ? error : new Error(String(error));
        return;
      }
    }
    setTimeout(() => signal.aborted || void this.#load(scope, signal), POLL_MS);
  }

  async #loadRest(scope: StatisticsScope, list: string, total: number, rows: object[], signal: AbortSignal): Promise<object[]> {
    const all = [...rows];
    while (all.length < total) {
      const page = await loadRows<object>(this.#api, scope, list, all.length, signal);
      if (!page.rows.length) break;
      all.push(...page.rows);
    }
    return all;
  }
}
