/** The items of one panel, loaded by ranges as they are looked at. */

import { ApiError, type Change, type ConversationItem, type DialogItem, type OtherPart } from "../api";
import { api } from "./client";
import { PAGE_SIZE, SparseList } from "./ranges";

/** Convert an item of a dialog to the form of a conversation, which the page shows. */
export function fromDialog(item: DialogItem): ConversationItem {
  const outcome = item.hook_name ? `${item.status} by ${item.hook_name}` : item.status;
  const name = item.name ?? item.trigger ?? item.agent_id ?? null;
  const isDraft = item.status && item.status !== "rewritten";
  const verdict = item.verdict
    ? `${item.verdict.kind} · ${item.verdict.point} of ${item.verdict.name ?? "an agent"}`
    : null;
  return {
    message_id: item.message_id,
    time: item.time,
    label: item.verdict ? "Verdict" : item.stop ? "Stopped" : isDraft ? "Draft" : "Said",
    note: verdict ?? item.stop ?? outcome ?? (item.trigger ? `trigger ${item.trigger}` : null),
    author: item.agent_id ?? null,
    author_name: name,
    parts: [
      { kind: "text", text: item.content, length: item.content.length },
      ...(item.draft ? [otherPart(`${name} wrote, and nobody heard`, item.draft)] : []),
      ...(item.versions ?? []).map((version) =>
        otherPart(`${version.name ?? version.agent_id} heard`, version.content),
      ),
    ],
  };
}

function otherPart(name: string, text: string): OtherPart {
  return { kind: "other", name, text, length: text.length };
}

export class Conversation {
  readonly session: string;
  readonly agents: string[];
  /** Grows with each change, so that what reads items is computed again. */
  version = $state(0);
  total = $state(0);
  isLoaded = $state(false);
  error = $state.raw<Error | null>(null);
  /** How many events the items reflect: where the live stream goes on. */
  events = 0;
  readonly #list = new SparseList<ConversationItem>();
  readonly #requested = new Set<number>();
  readonly #controller = new AbortController();

  constructor(session: string, agents: string[]) {
    this.session = session;
    this.agents = agents;
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
    const pages = this.#list.missingPages(first, last).filter((page) => !this.#requested.has(page));
    await Promise.all(pages.map((page) => this.#load(page)));
  }

  /** Return the position of a message, loaded. Return null if no item of this list shows it. */
  async locate(message: string): Promise<number | null> {
    const { signal } = this.#controller;
    if (!this.isDialog) {
      const found = await api.find(this.session, message, signal).catch(() => null);
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

  /** Apply a change of the live stream. Return how many items are new at the end. */
  apply(change: Change): number {
    const count = this.#list.upsert(change.items ?? [], change.total);
    if (change.events !== undefined) this.events = Math.max(this.events, change.events);
    this.#touch();
    return count;
  }

  /** Load the last page again, for a dialog, which has no live stream. */
  async refresh(): Promise<number> {
    const before = this.total;
    await this.#load(Math.max(0, Math.floor((before - 1) / PAGE_SIZE) * PAGE_SIZE), true);
    await this.ensure(before, this.total - 1);
    return this.total - before;
  }

  close(): void {
    this.#controller.abort();
  }

  async #load(from: number, isRefresh = false): Promise<void> {
    if (this.#requested.has(from) && !isRefresh) return;
    this.#requested.add(from);
    try {
      const signal = this.#controller.signal;
      const range = this.isDialog
        ? await this.#loadDialog(from, signal)
        : await api.items(this.session, this.agents[0] ?? "", from, PAGE_SIZE, signal);
      // Only the first answer says where the stream begins: later ranges may be newer than items
      // that were loaded before, whose changes the stream still has to bring.
      if (!this.isLoaded) this.events = range.events ?? 0;
      this.#list.write(from, range.items, range.total);
      this.isLoaded = true;
      this.error = null;
      this.#touch();
    } catch (error) {
      if (this.#controller.signal.aborted) return;
      this.error = error instanceof Error ? error : new ApiError(0, "error", String(error));
    } finally {
      this.#requested.delete(from);
    }
  }

  async #loadDialog(from: number, signal: AbortSignal) {
    const range = await api.dialog(this.session, this.agents, from, PAGE_SIZE, signal);
    return { ...range, items: range.items.map(fromDialog) };
  }

  #touch(): void {
    this.total = this.#list.total;
    this.version += 1;
  }
}
