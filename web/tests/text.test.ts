import { describe, expect, it } from "vitest";
import { cleanText, countDiff, firstLine, parseDiff, splitRows } from "../src/lib/text";

describe("cleanText", () => {
  it("removes terminal sequences", () => {
    expect(cleanText("\x1b[31mred\x1b[0m \x1b]0;title\x07x \x1b]8;;https://a\x1b\\link\x1b]8;;\x1b\\ \x9b1my \x1b(Bz")).toBe("red x link y z");
  });
  it("names characters that hide or reorder text", () => {
    expect(cleanText("a\u202eb\u2066c\u200bd\u{e0041}e\x00f")).toBe("a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d⟨U+E0041⟩e⟨U+0000⟩f");
  });
  it("keeps text of all languages, emoji, tabs and lines", () => {
    const text = "Grüße, שלום, مرحبا, 你好, 👩‍💻❤️\n\tx";
    expect(cleanText(text)).toBe(text);
    expect(cleanText("a\r\nb\ufeff")).toBe("a\nb");
  });
  it("is fast for an unfinished sequence", () => {
    const began = performance.now();
    cleanText("\x1b]".repeat(50_000) + "\x1b[".repeat(50_000));
    expect(performance.now() - began).toBeLessThan(2_000);
  });
});

it("firstLine is short", () => {
  expect(firstLine("\n\n  one\ntwo")).toBe("one");
  expect(firstLine("x".repeat(500), 10)).toBe(`${"x".repeat(10)}…`);
});

it("splitRows keeps every character and no row is long", () => {
  const text = `a\n\n${"b".repeat(5_001)}\nc`;
  const rows = splitRows(text, 2_000);
  expect(rows.join("").length).toBe(text.length - 3);
  expect(Math.max(...rows.map((row) => row.length))).toBeLessThanOrEqual(2_000);
  expect(rows.slice(0, 2)).toEqual(["a", ""]);
});

describe("parseDiff", () => {
  const diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n same\n--- not a file\n+++ nor this\n-x\n+y\n";
  it("tells files from lines that look like them", () => {
    expect(parseDiff(diff).map(({ kind }) => kind)).toEqual(["file", "file", "hunk", "same", "dropped", "added", "dropped", "added"]);
  });
  it("counts lines", () => {
    expect(countDiff(diff)).toEqual({ added: 2, dropped: 2 });
    expect(countDiff("*** Begin Patch\n*** Update File: a\n-x\n+y\n+z\n*** End Patch")).toEqual({ added: 2, dropped: 1 });
  });
});
