/** The items of a list of which the page has some.
 *
 * Items have fixed positions. An item that arrives again, from a range or from the live stream, is
 * written to its position, unless the one there was computed from more events: so neither arrival
 * order nor repeated deliveries make a difference. */

export const PAGE_SIZE = 100;

export class SparseList<T> {
  total = 0;
  readonly #items = new Map<number, { item: T; events: number }>();

  get(index: number): T | undefined {
    return this.#items.get(index)?.item;
  }

  /** Write a range of items, computed from a number of events. The list never shrinks. */
  write(from: number, items: readonly T[], total: number, events = 0): void {
    items.forEach((item, offset) => this.#put(from + offset, item, events));
    this.total = Math.max(this.total, total, from + items.length);
  }

  /** Write single items at their positions. Return how many of them are new positions at the end. */
  upsert(changes: readonly { index: number; item: T }[], total?: number, events = 0): number {
    const before = this.total;
    for (const { index, item } of changes) {
      if (!Number.isSafeInteger(index) || index < 0) continue;
      this.#put(index, item, events);
      this.total = Math.max(this.total, index + 1);
    }
    this.total = Math.max(this.total, total ?? 0);
    return this.total - before;
  }

  /** Remove all items: the log that they are of was replaced. */
  clear(): void {
    this.#items.clear();
    this.total = 0;
  }

  #put(index: number, item: T, events: number): void {
    const present = this.#items.get(index);
    if (present === undefined || present.events <= events) this.#items.set(index, { item, events });
  }

  /** Return the first position of a page that is absent, or null. */
  firstMissing(page: number, size = PAGE_SIZE): number | null {
    for (let index = page; index < Math.min(page + size, this.total); index += 1) {
      if (!this.#items.has(index)) return index;
    }
    return null;
  }

  /** Return the first positions of the pages that are needed to show a range and that are absent. */
  missingPages(first: number, last: number, size = PAGE_SIZE): number[] {
    const pages: number[] = [];
    const start = Math.max(0, Math.floor(first / size) * size);
    for (let page = start; page <= last && page < this.total; page += size) {
      const from = Math.max(page, first);
      const to = Math.min(page + size - 1, last, this.total - 1);
      for (let index = from; index <= to; index += 1) {
        if (!this.#items.has(index)) {
          pages.push(page);
          break;
        }
      }
    }
    return pages;
  }

  /** Return the position of the first loaded item with a property, or null. */
  find(matches: (item: T) => boolean): number | null {
    let found: number | null = null;
    for (const [index, { item }] of this.#items) {
      if (matches(item) && (found === null || index < found)) found = index;
    }
    return found;
  }
}

/** Load a page of a list. An answer may have fewer items than were asked for; `load` returns how many. */
export async function fillPage(
  list: Pick<SparseList<unknown>, "firstMissing">,
  page: number,
  size: number,
  load: (from: number, limit: number) => Promise<number>,
): Promise<void> {
  for (let from: number | null = page; from !== null; ) {
    const count: number = await load(from, page + size - from);
    from = count > 0 ? list.firstMissing(page, size) : null;
  }
}
