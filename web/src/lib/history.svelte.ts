/** The rows of commits that the page has, and which of them are chosen. */

import { CommitApi, type HistoryRow } from "../api/commits";
import { api } from "./client";
import { countLanes } from "./graph";
import { fillPage, SparseList } from "./ranges";

const PAGE = 200;

export const commits = new CommitApi(api);

export class HistoryList {
  total = $state(0);
  /** Grows with each change of the rows. */
  version = $state(0);
  isLoaded = $state(false);
  error = $state.raw<Error | null>(null);
  /** The number of commits that are not shown yet, because the user reads older ones. */
  news = $state(0);
  /** The most lanes of a row that was shown. */
  lanes = $state(1);

  readonly session: string | null;
  #rows = new SparseList<HistoryRow>();
  #order = "";
  #pending = new Set<number>();

  constructor(session: string | null) {
    this.session = session;
  }

  at(index: number): HistoryRow | undefined {
    void this.version;
    return this.#rows.get(index);
  }

  /** Load the first rows. */
  async open(): Promise<void> {
    try {
      await this.#load(0);
      this.isLoaded = true;
      this.error = null;
    } catch (reason) {
      this.error = reason instanceof Error ? reason : new Error(String(reason));
    }
  }

  /** Load the rows of a range that are absent. */
  async ensure(first: number, last: number): Promise<void> {
    for (const page of this.#rows.missingPages(first, last, PAGE)) {
      if (this.#pending.has(page)) continue;
      this.#pending.add(page);
      await this.#load(page).catch(() => {});
      this.#pending.delete(page);
    }
  }

  /** Look for new commits. They are shown at once if the user is at the beginning. */
  async poll(isAtStart: boolean): Promise<void> {
    const head = await commits.rows(this.session, 0, 1).catch(() => null);
    if (!head || head.version === this.#order) return;
    if (isAtStart || head.total < this.total) await this.reload();
    else this.news = Math.max(1, head.total - this.total);
  }

  /** Read the rows of a range again: their order, or their names have changed. */
  async reload(first = 0, last = first): Promise<void> {
    this.news = 0;
    for (let page = Math.floor(first / PAGE) * PAGE; page <= last; page += PAGE) {
      await this.#read(page, PAGE).catch(() => 0);
    }
  }

  /** Return the position of a commit, or null if the graph does not show it. */
  async find(commit: string): Promise<number | null> {
    const loaded = this.#rows.find((row) => row.id === commit);
    if (loaded !== null) return loaded;
    const { row, version } = await commits.find(this.session, commit);
    if (version !== this.#order) await this.reload(row ?? 0);
    if (row !== null) await this.ensure(row, row);
    return row;
  }

  async #load(page: number): Promise<void> {
    const rows = { firstMissing: (at: number, size?: number) => this.#rows.firstMissing(at, size) };
    await fillPage(rows, page, PAGE, (from, limit) => this.#read(from, limit));
  }

  async #read(from: number, limit: number): Promise<number> {
    const part = await commits.rows(this.session, from, limit);
    if (part.version !== this.#order) {
      this.#rows = new SparseList<HistoryRow>();
      this.#order = part.version;
    }
    this.#rows.write(from, part.rows, part.total);
    this.total = part.total;
    this.lanes = Math.max(this.lanes, ...part.rows.map(countLanes));
    this.version += 1;
    return part.rows.length;
  }
}
