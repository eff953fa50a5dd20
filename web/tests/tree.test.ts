import { describe, expect, it } from "vitest";
import type { TreeRow } from "../src/api";
import { arrangeTree, collapsedAtFirst, GrowingTree, parentOf } from "../src/lib/tree";

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

describe("the tree of a session that grows", () => {
  const row = (agent: string, entries: number): TreeRow => ({ ...(ROWS[0] as TreeRow), agent_id: agent, entries });
  const shown = (tree: GrowingTree) => tree.rows.map((one) => `${one.agent_id} ${one.entries}`);
  it("applies changed rows, new agents and moves", () => {
    const tree = new GrowingTree();
    tree.apply({ agents: [row("a", 1), row("b", 1)], events: 2, generation: "g" });
    tree.apply({ tree: { rows: [row("b", 2)] }, events: 3, generation: "g" });
    expect(shown(tree)).toEqual(["a 1", "b 2"]);
    tree.apply({ tree: { rows: [row("c", 1)], order: ["a", "c", "b"] }, events: 4, generation: "g" });
    tree.apply({ items: [], events: 5, generation: "g" });
    expect(shown(tree)).toEqual(["a 1", "c 1", "b 2"]);
    tree.apply({ tree: { rows: [], order: ["b", "a"] }, events: 6, generation: "g" });
    expect(shown(tree)).toEqual(["b 2", "a 1"]);
  });
  it("shows no older tree than it has, and applies a change to the tree that it is of", () => {
    const tree = new GrowingTree();
    tree.apply({ tree: { rows: [row("x", 9)] }, events: 1, generation: "g" });
    expect(shown(tree)).toEqual([]);
    tree.apply({ agents: [row("a", 1), row("b", 1)], events: 10, generation: "g" });
    tree.load({ agents: [row("a", 0)], events: 5, generation: "g" });
    expect(shown(tree)).toEqual(["a 1", "b 1"]);
    tree.load({ agents: [row("a", 1), row("b", 3)], events: 12, generation: "g" });
    tree.apply({ tree: { rows: [row("b", 2)] }, events: 11, generation: "g" });
    expect(shown(tree)).toEqual(["a 1", "b 3"]);
    tree.apply({ tree: { rows: [row("b", 4)] }, events: 13, generation: "g" });
    expect(shown(tree)).toEqual(["a 1", "b 4"]);
    tree.load({ agents: [row("z", 1)], events: 1, generation: "another" });
    expect(shown(tree)).toEqual(["z 1"]);
  });
});
