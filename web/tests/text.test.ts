import { describe, expect, it } from "vitest";
import { cleanText, countDiff, firstLine, nameInvisible, parseDiff, splitRows } from "../src/lib/text";

describe("cleanText", () => {
  it("removes colors of a terminal, and shows the strings that it would hide", () => {
    expect(cleanText("\x1b[31mred\x1b[0m \x9b1my \x1b(Bz")).toBe("red y z");
    expect(cleanText("\x1b]0;title\x07x \x1b]8;;https://a\x1b\\link\x1b]8;;\x1b\\ \x9d2;t\x9c")).toBe(
      "⟨ESC ]0;title⟩x ⟨ESC ]8;;https://a⟩link⟨ESC ]8;;⟩ ⟨ESC ]2;t⟩",
    );
  });
  it.each(["\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\x9d", "\x90", "\x1b[", "\x9b", "\x1b"])("loses nothing after an unfinished sequence %j", (start) => {
    const rest = "0;\u00e4 rm -rf / was run here\nnext line";
    expect(cleanText(`before ${start}${rest}`).replace(/⟨U\+00..⟩/, "").replace(/before [\]PX^_[]?/, "before ")).toBe(
      `before ${rest}`,
    );
    expect(cleanText(`${start}${rest}\x07`)).toContain("rm -rf / was run here\nnext line");
  });
  it("as written names the characters that begin sequences", () => {
    expect(nameInvisible("\x1b[31mred\x1b[0m")).toBe("⟨U+001B⟩[31mred⟨U+001B⟩[0m");
  });
  it("names everything that Unicode calls ignorable", () => {
    const codes = [0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x3164, 0xfeff, 0xffa0];
    for (const [first, last] of [[0x180b, 0x180f], [0x200b, 0x200f], [0x202a, 0x202e], [0x2060, 0x206f], [0xfe00, 0xfe0f], [0xe0000, 0xe0fff]] as const) {
      for (let code = first; code <= last; code += 1) codes.push(code);
    }
    for (const code of codes) {
      const name = code.toString(16).toUpperCase().padStart(4, "0");
      expect(cleanText(`a${String.fromCodePoint(code)}b`)).toBe(`a⟨U+${name}⟩b`);
    }
  });
  it("keeps joiners and selectors in emoji only", () => {
    for (const text of ["👩‍💻", "❤️", "👩‍❤️‍👩", "👩🏽‍🚀", "1️⃣", "🏳️‍🌈"]) expect(cleanText(text)).toBe(text);
    expect(cleanText("1\ufe0f2 a\ufe0f ❤\ufe0f\ufe0f 👩\u200d 👩\u200d\u200dx")).toBe(
      "1⟨U+FE0F⟩2 a⟨U+FE0F⟩ ❤\ufe0f⟨U+FE0F⟩ 👩⟨U+200D⟩ 👩⟨U+200D⟩⟨U+200D⟩x",
    );
  });
  it("names characters that hide or reorder text", () => {
    expect(cleanText("a\u202eb\u2066c\u200bd\u{e0041}e\x00f")).toBe("a⟨U+202E⟩b⟨U+2066⟩c⟨U+200B⟩d⟨U+E0041⟩e⟨U+0000⟩f");
  });
  it("keeps text of all languages, emoji, tabs and lines", () => {
    const text = "Grüße, שלום, مرحبا, 你好, 👩‍💻❤️\n\tx";
    expect(cleanText(text)).toBe(text);
    expect(cleanText("a\r\nb\rc")).toBe("a\nb\nc");
  });
  it("is fast for an unfinished sequence", () => {
    const began = performance.now();
    for (const start of ["\x1b]", "\x1b[", "\x9d", "\x9b", "\x9b0", "\x1bP0 ", "\x1b[0;", "\u200d", "\ufe0f"]) cleanText(start.repeat(50_000));
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
  expect(splitRows("a😀b", 2)).toEqual(["a", "😀", "b"]);
});

describe("parseDiff", () => {
  const diff = "--- a\n+++ b\n@@ -1,3 +1,3 @@\n same\n--- not a file\n+++ nor this\n-x\n+y\n";
  it("tells files from lines that look like them", () => {
    expect(parseDiff(diff).map(({ kind }) => kind)).toEqual(["file", "file", "hunk", "same", "dropped", "added", "dropped", "added"]);
  });
  it("shows what a terminal would hide, since a change may be approved", () => {
    expect(parseDiff("+ls \x1b[;. ./a\n")).toEqual([{ kind: "added", text: "+ls ⟨U+001B⟩[;. ./a" }]);
  });
  it("counts lines", () => {
    expect(countDiff(diff)).toEqual({ added: 2, dropped: 2 });
    expect(countDiff("*** Begin Patch\n*** Update File: a\n-x\n+y\n+z\n*** End Patch")).toEqual({ added: 2, dropped: 1 });
  });
});
