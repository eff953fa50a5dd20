import { describe, expect, it } from "vitest";
import { ApiError } from "../src/api";
import { readAnswer, type BlameRow, type Progress } from "../src/api/why";
import { languageOf, splitHighlighted } from "../src/lib/codeLines";
import { shownText } from "../src/lib/codeView.svelte";
import { hljs } from "../src/lib/languages";
import { formatNumbers, formatQuery, originKey, parseAddress, parseLines, percent, shortModel, whyLink } from "../src/lib/why";

describe("addresses", () => {
  it("are parsed and formatted", () => {
    const query = "repository=%2Fhome%2Fann%2Fshop&path=a%26b%3Dc%23d.py&revision=HEAD%7E1&line=3-5";
    const address = parseAddress(new URLSearchParams(query));
    expect(address).toEqual({ repository: "/home/ann/shop", path: "a&b=c#d.py", revision: "HEAD~1", lines: { first: 3, last: 5 }, commit: "" });
    expect(parseAddress(new URLSearchParams(formatQuery(address)))).toEqual(address);
    expect(whyLink({ repository: "/r", commit: "abc" })).toBe("#/why?repository=%2Fr&commit=abc");
  });
  it("have lines from 1, in order", () => {
    expect(parseLines("12")).toEqual({ first: 12, last: 12 });
    expect(parseLines("20-12")).toEqual({ first: 12, last: 20 });
    for (const text of ["", "0", "-1", "1-", "x", "1e3", "9999999999", "1:2"]) expect(parseLines(text)).toBeNull();
  });
});

describe("rows", () => {
  it("name numbers as ranges", () => {
    expect(formatNumbers([1, 2, 3, 7, 9, 10])).toBe("1-3, 7, 9-10");
    expect(formatNumbers([1, 3, 5, 7, 9])).toBe("1, 3, 5, 7, …");
  });
  it("of one call are one origin, whatever commit added them", () => {
    const edit = { ctx: "ctx-1", call: "c1", session: "s", runtime: "claude", agent: "main", model: "m", time: "" };
    const row: BlameRow = { line: 1, by: "agent", confidence: "exact", ratio: 1, time: null, commit: "a", summary: "", author: "Jill", contexts: [], edit };
    expect(originKey({ ...row, commit: "b" })).toBe(originKey(row));
    expect(originKey({ ...row, edit: { ...edit, call: "c2" } })).not.toBe(originKey(row));
    expect(originKey({ ...row, by: "author", edit: null })).not.toBe(originKey({ ...row, by: "author", edit: null, commit: null }));
  });
  it("have short names of models, and shares", () => {
    expect(shortModel("claude-opus-4-5-20251101")).toBe("opus-4-5");
    expect(shortModel("openai/gpt-5.2")).toBe("gpt-5.2");
    expect([percent(1, 3), percent(0, 0)]).toEqual([33, null]);
  });
});

describe("highlighted code", () => {
  it("is split into lines, also within a token", () => {
    const text = 'x = """a <b>\n& \'c\'\n"""\ny = 1';
    const html = hljs.highlight(text, { language: "python" }).value;
    const lines = splitHighlighted(html);
    expect(lines.map((line) => line.map((token) => token.text).join(""))).toEqual(text.split("\n"));
    expect(lines[1]?.map((token) => token.kind)).toEqual(["hljs-string"]);
  });
  it("stays text if the highlighter did not write it", () => {
    const [line] = splitHighlighted('<img src=x onerror=alert(1)>&lt;b&gt;');
    expect(line?.map((token) => token.text).join("")).toBe("<img src=x onerror=alert(1)><b>");
  });
  it("has the language of the name of a file", () => {
    expect(["a/b.py", "x.pyi", "Dockerfile", ".gitignore", "a.tar", "no"].map(languageOf)).toEqual(["py", "python", "dockerfile", "", "tar", ""]);
  });
  it("names invisible characters, and cuts long lines", () => {
    expect(shownText("a\u202eb\rc")).not.toMatch(/[\u202e\r]/);
    expect(shownText("x".repeat(5000)).length).toBe(2001);
  });
});

describe("streamed answers", () => {
  const respond = (text: string) => new Response(text);

  it("have progress, parts and an end", async () => {
    const progress: Progress[] = [];
    const parts: number[] = [];
    const text = '{"progress":{"done":1,"total":2}}\n\n{"part":7}\n{"answer":8}\n';
    const answer = await readAnswer<number>(respond(text), { onProgress: (row) => progress.push(row), onPart: (part) => parts.push(part) });
    expect([answer, progress, parts]).toEqual([8, [{ done: 1, total: 2 }], [7]]);
  });
  it("fail with the error of the server, or if the end is missing", async () => {
    const failed = readAnswer(respond('{"error":{"code":"invalid","message":"no file"}}\n'));
    await expect(failed).rejects.toThrow(new ApiError(422, "invalid", "no file"));
    await expect(readAnswer(respond('{"part":1}\n'))).rejects.toThrow("before the answer was complete");
  });
});
