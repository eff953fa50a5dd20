import { describe, expect, it } from "vitest";
import { fillPage, SparseList } from "../src/lib/ranges";

describe("SparseList", () => {
  it("gives the same list for any order and repetition of changes", () => {
    const changes = Array.from({ length: 30 }, (_, index) => ({ index, item: `item ${index}` }));
    for (let seed = 1; seed < 20; seed += 1) {
      const shuffled = [...changes, ...changes].sort((a, b) => ((a.index * seed * 7919) % 31) - ((b.index * seed * 7919) % 31));
      const list = new SparseList<string>();
      list.write(10, changes.slice(10, 20).map(({ item }) => item), 25);
      for (const change of shuffled) list.upsert([change], 12);
      expect(list.total).toBe(30);
      expect(changes.every(({ index, item }) => list.get(index) === item)).toBe(true);
    }
  });

  it("counts what is new at the end only", () => {
    const list = new SparseList<string>();
    list.write(0, ["a", "b"], 2);
    expect(list.upsert([{ index: 1, item: "B" }], 2)).toBe(0);
    expect(list.upsert([{ index: 2, item: "c" }, { index: 1, item: "B2" }], 3)).toBe(1);
    expect(list.get(1)).toBe("B2");
  });

  it("ignores positions that are none", () => {
    const list = new SparseList<string>();
    list.upsert([{ index: -1, item: "a" }, { index: 1.5, item: "b" }, { index: Number.NaN, item: "c" }]);
    expect(list.total).toBe(0);
  });

  it("names the pages that are missing, and no page twice or beyond the end", () => {
    const list = new SparseList<number>();
    list.write(0, Array.from({ length: 100 }, (_, index) => index), 350);
    expect(list.missingPages(0, 99)).toEqual([]);
    expect(list.missingPages(90, 260)).toEqual([100, 200]);
    expect(list.missingPages(300, 9_999)).toEqual([300]);
    list.upsert([{ index: 349, item: 349 }]);
    expect(list.missingPages(349, 349)).toEqual([]);
  });

  it("finds the first of several items", () => {
    const list = new SparseList<string>();
    list.upsert([{ index: 5, item: "x" }, { index: 2, item: "x" }]);
    expect(list.find((item) => item === "x")).toBe(2);
    expect(list.find((item) => item === "y")).toBeNull();
  });
});

it("fillPage continues where an answer ended early, and not without end", async () => {
  const list = new SparseList<number>();
  const asked: [number, number][] = [];
  await fillPage(list, 100, 100, async (from, limit) => {
    asked.push([from, limit]);
    const items = Array.from({ length: Math.min(limit, 60) }, (_, at) => from + at);
    list.write(from, items, 1_000);
    return items.length;
  });
  expect(asked).toEqual([[100, 100], [160, 40]]);
  expect([list.get(199), list.get(200)]).toEqual([199, undefined]);
  await fillPage(list, 300, 100, async () => (asked.push([0, 0]), 0));
  expect(asked.length).toBe(3);
});
