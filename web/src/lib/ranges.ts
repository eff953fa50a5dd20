/** The items of a list of which the page has some.
 *
 * Items have fixed positions. An item that arrives again, from a range or from the live stream, is
 * written to its position, so arrival order and repeated deliveries make no difference. */

export const PAGE_SIZE = 100;

export class SparseList<T> {
  total = 0;
  readonly #items = new Map<number, T>();

  get(index: number): T | undefined {
    return this.#items.get(index);
  }

  /** Write a range of items, as the server sent it. The list never shrinks. */
  write(from: number, items: readonly T[], total: number): void {
    items.forEach((item, offset) => this.#items.set(from + offset, item));
    this.total = Math.max(this.total, total, from + items.length);
  }

  /** Write single items at their positions. Return how many of them are new positions at the end. */
  upsert(changes: readonly { index: number; item: T }[], total?: number): number {
    const before = this.total;
    for (const { index, item } of changes) {
      if (!Number.isSafeInteger(index) || index < 0) continue;
      this.#items.set(index, item);
      this.total = Math.max(this.total, index + 1);
    }
    this.total = Math.max(this.total, total ?? 0);
    return this.total - before;
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
    for (const [index, item] of this.#items) {
      if (matches(item) && (found === null || index < found)) found = index;
    }
    return found;
  }
}
