import { describe, expect, it } from "vitest";
import { FileTransport } from "../src/api/file";
import { PackedList, PackedObject, type PackedDocument } from "../src/lib/packing";

/** Two objects with one member, one with two, and lists of them. */
const DOCUMENT: PackedDocument = {
  texts: ["a text that is stored once"],
  tables: [
    { names: ["id"], columns: [[[0], "b"]] },
    { names: ["__proto__", "n"], columns: [[1], [null]] },
  ],
  root: [-2, 0, 0, 2, 1, 0, 1, 0, 1, 1],
};

describe("packed values", () => {
  it("are picked from ranges of objects", () => {
    const list = new PackedList(DOCUMENT, DOCUMENT.root);
    const all = [{ id: "a text that is stored once" }, { id: "b" }, JSON.parse('{"__proto__": 1, "n": null}'), { id: "b" }];
    expect(list.length).toBe(4);
    expect(list.slice(0, 10)).toEqual(all);
    for (let index = 0; index < 4; index += 1) expect(list.slice(index, index + 1)).toEqual([all[index]]);
    expect(list.slice(9, 12)).toEqual([]);
  });
  it("are picked from other lists", () => {
    const list = new PackedList(DOCUMENT, [-1, 5, [0], [-1], [0, 1]]);
    expect(list.slice(0, 4)).toEqual([5, "a text that is stored once", [], { id: "b" }]);
  });
  it("have members with any name", () => {
    const object = new PackedObject(DOCUMENT, [1, 0]);
    expect(object.has("__proto__")).toBe(true);
    expect(object.get("__proto__")).toBe(1);
    expect(object.has("toString")).toBe(false);
    expect(Object.getPrototypeOf(new PackedList(DOCUMENT, [-2, 1, 0, 1]).slice(0, 1)[0])).toBe(Object.prototype);
  });
  it("that are damaged are refused", () => {
    expect(() => new PackedList(DOCUMENT, [0, 1])).toThrow("damaged");
    expect(() => new PackedObject(DOCUMENT, [-1])).toThrow("damaged");
    expect(() => new FileTransport({ ...DOCUMENT, root: null })).toThrow("damaged");
  });
});
