import { describe, expect, it } from "vitest";
import { findRanges } from "../src/lib/marks";

describe("marks", () => {
  it("are the places of a text, upper and lower case alike", () => {
    const root = document.createElement("div");
    root.innerHTML = "<p>Tea, <b>tea</b> and TEA</p><p>coffee</p>";
    expect(findRanges(root, "tea").map((range) => range.toString())).toEqual(["Tea", "tea", "TEA"]);
    expect(findRanges(root, "")).toEqual([]);
    expect(findRanges(root, "milk")).toEqual([]);
  });
  it("leave out texts whose lower case has another length, and end at a limit", () => {
    const root = document.createElement("div");
    root.append("İ tea", document.createElement("br"), "tea ".repeat(5_000));
    expect(findRanges(root, "tea").length).toBe(2_000);
  });
});
