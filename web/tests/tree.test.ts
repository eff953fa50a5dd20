import { describe, expect, it } from "vitest";
import type { TreeRow } from "../src/api";
import { arrangeTree, collapsedAtFirst, parentOf } from "../src/lib/tree";

function rowsOf(text: string): TreeRow[] {
  return text.trim().split("\n").map((line) => {
    const name = line.trim();
    return { agent_id: name, name, depth: (line.length - line.trimStart().length) / 2, place: "subagent", entries: 0, model_calls: 0, tokens: 0, cost_usd: 0 };
  });
}
const ROWS = rowsOf(`
main
  lead 1
    worker 1
    worker 2
  lead 2
    worker 3
`);
const names = (nodes: { row: TreeRow }[]) => nodes.map(({ row }) => row.name);

describe("the tree of agents", () => {
  it("leaves out collapsed subtrees", () => {
    const nodes = arrangeTree(ROWS, new Set(["lead 1"]), "");
    expect(names(nodes)).toEqual(["main", "lead 1", "lead 2", "worker 3"]);
    expect(nodes.map((node) => [node.hasChildren, node.isOpen])).toEqual([[true, true], [true, false], [true, true], [false, false]]);
    expect(nodes.map((node) => [node.position, node.siblings])).toEqual([[1, 1], [1, 2], [2, 2], [1, 1]]);
  });
  it("shows the agents above those that match, also of collapsed ones", () => {
    const nodes = arrangeTree(ROWS, new Set(["main"]), " WORKER 2");
    expect(names(nodes)).toEqual(["main", "lead 1", "worker 2"]);
    expect(nodes.map((node) => node.isMatch)).toEqual([false, false, true]);
    expect(names(arrangeTree(ROWS, new Set(), "lead"))).toEqual(["main", "lead 1", "lead 2"]);
    expect(arrangeTree(ROWS, new Set(), "nobody")).toEqual([]);
  });
  it("has only the upper levels of many agents open, and those above shown ones", () => {
    expect(collapsedAtFirst(ROWS, new Set())).toEqual(new Set());
    const many = rowsOf(["main", ...Array.from({ length: 10 }, (_, lead) => [`  lead ${lead}`, ...Array.from({ length: 9 }, (_, n) => `    worker ${lead}.${n}`)]).flat()].join("\n"));
    const collapsed = collapsedAtFirst(many, new Set(["worker 3.4"]));
    expect([collapsed.size, collapsed.has("lead 3"), collapsed.has("main")]).toEqual([9, false, false]);
  });
  it("knows the parent of a row", () => {
    expect([5, 4, 3, 0].map((index) => parentOf(ROWS, index))).toEqual([4, 0, 1, -1]);
  });
  it("numbers 10,000 siblings fast", () => {
    const rows = rowsOf(["main", ...Array.from({ length: 10_000 }, (_, n) => `  worker ${n}`)].join("\n"));
    const began = performance.now();
    expect(arrangeTree(rows, new Set(), "").at(-1)?.siblings).toBe(10_000);
    expect(performance.now() - began).toBeLessThan(1_000);
  });
});
