/** Unpack JSON values in which equal texts and equal objects are stored once.
 *
 * `service/viewer/shared/packing.py` packs them, and describes the form. Each value is unpacked when
 * it is asked for, and anew each time. */

export type Packed = null | boolean | number | string | Packed[];

export interface PackedDocument {
  texts: string[];
  tables: { names: string[]; columns: Packed[][] }[];
  root: Packed;
}

const LIST = -1;
const RANGES = -2;

/** An object of which members are unpacked one by one. */
export class PackedObject {
  readonly #document: PackedDocument;
  readonly #members: Map<string, Packed>;

  constructor(document: PackedDocument, packed: Packed) {
    if (!Array.isArray(packed) || packed.length !== 2) throw new Error("The file is damaged.");
    const table = document.tables[packed[0] as number];
    const row = packed[1] as number;
    this.#document = document;
    this.#members = new Map(table?.names.map((name, index) => [name, table.columns[index]?.[row] ?? null]));
  }

  has(name: string): boolean {
    return this.#members.has(name);
  }
  get<T>(name: string): T {
    return unpack(this.#document, this.#members.get(name) ?? null) as T;
  }
  object(name: string): PackedObject {
    return new PackedObject(this.#document, this.#members.get(name) ?? null);
  }
  list(name: string): PackedList {
    return new PackedList(this.#document, this.#members.get(name) ?? null);
  }
}

/** A list of which ranges are unpacked. */
export class PackedList {
  readonly length: number;
  readonly #document: PackedDocument;
  readonly #items: Packed[];
  /** Of ranges of objects: the position of the first object of each. */
  readonly #starts: number[] = [];

  constructor(document: PackedDocument, packed: Packed) {
    if (!Array.isArray(packed) || (packed[0] !== LIST && packed[0] !== RANGES)) throw new Error("The file is damaged.");
    this.#document = document;
    this.#items = packed;
    let length = 0;
    if (packed[0] === LIST) length = packed.length - 1;
    else {
      for (let at = 1; at < packed.length; at += 3) {
        this.#starts.push(length);
        length += packed[at + 2] as number;
      }
    }
    this.length = length;
  }

  slice<T>(from: number, to: number): T[] {
    const values: T[] = [];
    for (let index = from; index < Math.min(to, this.length); index += 1) {
      values.push(unpack(this.#document, this.#at(index)) as T);
    }
    return values;
  }
  object(index: number): PackedObject {
    return new PackedObject(this.#document, this.#at(index));
  }

  #at(index: number): Packed {
    if (this.#items[0] === LIST) return this.#items[index + 1] ?? null;
    // The last range that begins at or before the position.
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= index) low = middle;
      else high = middle - 1;
    }
    const at = 1 + 3 * low;
    const first = this.#items[at + 1] as number;
    return [this.#items[at] as number, first + index - (this.#starts[low] ?? 0)];
  }
}

function unpack(document: PackedDocument, packed: Packed): unknown {
  if (!Array.isArray(packed)) return packed;
  const [head, row] = packed as number[];
  if (packed.length === 1 && head !== LIST && head !== RANGES) return document.texts[head ?? -1] ?? "";
  if (head === LIST || head === RANGES) return new PackedList(document, packed).slice(0, Infinity);
  const table = document.tables[head ?? -1];
  if (!table) throw new Error("The file is damaged.");
  // The names are those of a log: `__proto__` must become a member like others.
  return Object.fromEntries(
    table.names.map((name, index) => [name, unpack(document, table.columns[index]?.[row ?? -1] ?? null)]),
  );
}
