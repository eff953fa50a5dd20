/** The items of one panel, loaded by ranges as they are looked at. */

import { ApiError, type Api, type Change, type ConversationItem, type Generation, type OtherPart, type Range, type TextPart, type TextSource } from "../api";
import { api } from "./client";
import { PAGE_SIZE, SparseList } from "./ranges";

/** Return which whole text a part of an item is the beginning of. `panel` has the agents of the list. */
export function sourceOf(item: ConversationItem, part: TextPart | OtherPart, panel: string[]): TextSource {
  const { message_id: message } = item;
  return part.version ? { message, version: part.version, agents: panel } : { message, part: part.position ?? null };
}

export class Conversation {
  readonly session: string;
  readonly agents: string[];
  /** Grows with each change, so that what reads items is computed again. */
  version = $state(0);
  total = $state(0);
  isLoaded = $state(false);
  /** Whether there is a list to show. It stays, with its place, while a replaced log is read. */
  isShown = $state(false);
  error = $state.raw<Error | null>(null);
  /** How many events the items reflect: where the live stream goes on. A batch of changes may span lines. */
  events = 0;
  /** Which log the items are of. Another one means that the log was replaced, for example by a purge. */
  #generation: Generation = null;
  /** Grows with each replacement: answers to earlier requests are dropped. */
  #epoch = 0;
  readonly #list = new SparseList<ConversationItem>();
  readonly #requested = new Set<number>();
  /** Called when the log was replaced, with the promise that the list is read again. */
  onReplaced: ((reading: Promise<void>) => void) | null = null;
  /** Called with the number of items that the live stream added at the end. */
  onAdded: ((count: number) => void) | null = null;
  /** The positions that were needed last. */
  #range: [number, number] = [0, 0];
  readonly #controller = new AbortController();
  readonly #api: Pick<Api, "items" | "dialog" | "find">;

  constructor(session: string, agents: string[], from: Pick<Api, "items" | "dialog" | "find"> = api) {
    this.session = session;
    this.agents = agents;
    this.#api = from;
  }

  get generation(): Generation {
    return this.#generation;
  }

  get isDialog(): boolean {
    return this.agents.length > 1;
  }

  get(index: number): ConversationItem | undefined {
    void this.version;
    return this.#list.get(index);
  }

  async open(): Promise<void> {
    await this.#load(0);
  }

  /** Load the pages of these positions that are absent. */
  async ensure(first: number, last: number): Promise<void> {
    this.#range = [first, last];
    const pages = this.#list.missingPages(first, last).filter((page) => !this.#requested.has(page));
    await Promise.all(pages.map((page) => this.#load(page)));
  }

  /** Return the position of a message, loaded. Return null if no item of this list shows it. */
  async locate(message: string): Promise<number | null> {
    const { signal } = this.#controller;
    if (!this.isDialog) {
      const found = await this.#api.find(this.session, message, signal).catch(() => null);
      if (found === null || found.agent !== this.agents[0]) return null;
      await this.ensure(found.index, found.index);
      return found.index;
    }
    for (let page = 0; ; page += PAGE_SIZE) {
      const index = this.#list.find((item) => item.message_id === message);
      if (index !== null || page >= this.total || signal.aborted) return index;
      await this.ensure(page, page + PAGE_SIZE - 1);
    }
  }

  /** Apply a change of the live stream. */
  apply(change: Change): void {
    if (!this.isLoaded || !this.checkGeneration(change.generation)) return;
    const count = this.#list.upsert(change.items ?? [], change.total, change.events);
    this.events = Math.max(this.events, change.resume ?? change.events ?? 0);
    this.#touch();
    if (count) this.onAdded?.(count);
  }

  /** Return whether the items are of this log. If not, remove them and read the first ones again. */
  checkGeneration(generation: Generation | undefined): boolean {
    if (generation === null || generation === undefined) return true;
    this.#generation ??= generation;
    if (this.#generation === generation) return true;
    this.#epoch += 1;
    this.#generation = null;
    this.events = 0;
    this.#list.clear();
    this.#requested.clear();
    this.isLoaded = false;
    this.version += 1;
    const reading = this.#load(0).then(() => this.ensure(...this.#range));
    this.onReplaced?.(reading);
    return false;
  }

  close(): void {
    this.#controller.abort();
  }

  /** Load what is absent of a page. An answer may have fewer items than were asked for. */
  async #load(page: number): Promise<void> {
    if (this.#requested.has(page)) return;
    this.#requested.add(page);
    const epoch = this.#epoch;
    // The beginning of a long log is shown while it is being read.
    let soon = page === 0 && !this.isLoaded;
    try {
      for (let from: number | null = page; from !== null; ) {
        const range = await this.#read(from, page + PAGE_SIZE - from, soon);
        if (epoch !== this.#epoch || !this.checkGeneration(range.generation)) return;
        soon = false;
        if (range.is_complete === false) {
          this.#list.write(from, range.items, range.total, range.events);
          this.isShown ||= range.items.length > 0;
          this.#touch();
          continue;
        }
        // Only the first answer says where the stream begins: later ranges may be newer than items
        // that were loaded before, whose changes the stream still has to bring.
        if (!this.isLoaded) this.events = range.events ?? 0;
        this.#list.write(from, range.items, range.total, range.events);
        this.isLoaded = this.isShown = true;
        this.error = null;
        this.#touch();
        from = range.items.length ? this.#list.firstMissing(page) : null;
      }
    } catch (error) {
      if (this.#controller.signal.aborted || epoch !== this.#epoch) return;
      this.error = error instanceof Error ? error : new ApiError(0, "error", String(error));
    } finally {
      if (epoch === this.#epoch) this.#requested.delete(page);
    }
  }

  #read(from: number, limit: number, soon: boolean): Promise<Range<ConversationItem>> {
    const { signal } = this.#controller;
    const window = soon ? { from, limit, soon: "true" } : { from, limit };
    return this.isDialog
      ? this.#api.dialog(this.session, this.agents, window, signal)
      : this.#api.items(this.session, this.agents[0] ?? "", window, signal);
  }

  #touch(): void {
    this.total = this.#list.total;
    this.version += 1;
  }
}
