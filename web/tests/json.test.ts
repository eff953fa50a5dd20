import { describe, expect, it } from "vitest";
import { indentJson } from "../src/lib/json";

describe("indentJson", () => {
  it("keeps numbers, escapes and repeated members as they are", () => {
    const text = '{"channel_id": 1234567890123456789, "cost": 1.0, "a": 1, "a": 2, "big": 1e400, "s": "\\u0041\\/ , {"}';
    expect(indentJson(text)).toBe(
      '{\n  "channel_id": 1234567890123456789,\n  "cost": 1.0,\n  "a": 1,\n  "a": 2,\n  "big": 1e400,\n  "s": "\\u0041\\/ , {"\n}',
    );
  });
  it("indents what is nested, and nothing that is empty", () => {
    expect(indentJson(' {"a":[1,{"b":null}],"c":{},"d":[ ]} ')).toBe(
      '{\n  "a": [\n    1,\n    {\n      "b": null\n    }\n  ],\n  "c": {},\n  "d": []\n}',
    );
  });
  it("changes white space between tokens only", () => {
    const text = '[{"x":-1.50E+10,"y":true},"a  b",[[]],1234567890123456789012]';
    expect(indentJson(text).replace(/\n\s*|(?<=:) /g, "")).toBe(text);
  });
  it("leaves what is no JSON", () => {
    for (const text of ["", "ls -l", '{"a": ', '{"a": 1]', "{'a': 1}", "1 2", '["a" "b"]', "[1] 2", '{"a": "b', "*** Begin Patch\n*** End Patch", "[".repeat(5_000)]) {
      expect(indentJson(text)).toBe(text);
    }
  });
});
