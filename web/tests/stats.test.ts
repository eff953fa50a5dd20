import { describe, expect, it } from "vitest";
import { countTokens, formatCostOf, formatNumber, formatPercent, formatSeconds, listDays, shade } from "../src/lib/figures";
import { labelProjects } from "../src/lib/projects";
import { formatScope, NO_SCOPE, parseScope, sessionsIn } from "../src/lib/scope";

describe("figures", () => {
  it("are formatted as the command does", () => {
    expect([9876, 45_600, 1_249_999, 5_500_000_000, null].map(formatNumber)).toEqual(["9,876", "45.6 K", "1.2 M", "5.5 B", "?"]);
    expect([35.512, 0.014, 2, 999.7, 0.00001].map(formatNumber)).toEqual(["35.5", "0.014", "2", "1,000", "<0.0001"]);
    expect([0.25, 59.6, 754, 12_000, 200_000].map(formatSeconds)).toEqual(["0.3 s", "60 s", "13 min", "3 h 20 min", "2 d 8 h"]);
    expect([0.001, 0, null].map(formatSeconds)).toEqual(["<0.1 s", "0 s", "?"]);
    expect([formatPercent(1, 3), formatPercent(1, 1000), formatPercent(0, 3), formatPercent(1, 0)]).toEqual(["33 %", "<1 %", "0 %", ""]);
  });
  it("name unknown costs, and never show them as nothing", () => {
    expect([formatCostOf(1.5, 0), formatCostOf(1.5, 2), formatCostOf(null, 2), formatCostOf(null, 0)]).toEqual(["$1.50", "≥ $1.50", "unknown", "none"]);
    expect(formatCostOf(0, 3)).toBe("≥ $0.00");
  });
  it("count known tokens only", () => {
    const usage = { input_tokens: 1, cache_read_tokens: null, cache_write_tokens: null, output_tokens: 2 };
    expect(countTokens(usage)).toBe(3);
    expect(countTokens({ ...usage, input_tokens: null, output_tokens: null })).toBeNull();
  });
});

describe("days", () => {
  it("are complete, also over the end of a month", () => {
    expect(listDays("2026-02-27", "2026-03-02")).toEqual(["2026-02-27", "2026-02-28", "2026-03-01", "2026-03-02"]);
  });
  it("are the last ones if there are too many", () => {
    expect(listDays("0001-01-01", "2026-03-02", 2)).toEqual(["2026-03-01", "2026-03-02"]);
  });
});

it("a count has one of five shades, none is 0", () => {
  expect([shade(0, 10), shade(1, 10), shade(10, 10), shade(1, 100_000), shade(0, 0)]).toEqual([0, 1, 5, 1, 0]);
});

describe("labels of projects", () => {
  it("are the last folder, and more where it does not tell them apart", () => {
    const labels = labelProjects(["/srv/ann/app", "/srv/ben/app", "/srv/site", "/x/ann/app", ""]);
    expect([...labels.entries()].sort()).toEqual([
      ["", ""],
      ["/srv/ann/app", "srv/ann/app"],
      ["/srv/ben/app", "ben/app"],
      ["/srv/site", "site"],
      ["/x/ann/app", "x/ann/app"],
    ]);
  });
  it("are whole paths for equal parts", () => {
    expect(labelProjects(["/a/app", "a/app"]).get("a/app")).toBe("a/app");
    expect(labelProjects(["/a/app", "a/app"]).get("/a/app")).toBe("/a/app");
  });
});

describe("the scope of statistics", () => {
  const scope = { ...NO_SCOPE, since: "7d", project: "/x" };
  it("is the same after formatting and parsing", () => {
    expect(parseScope(new URLSearchParams(formatScope(scope)))).toEqual(scope);
  });
  it("is kept in links to sessions", () => {
    expect(sessionsIn(scope, { tool: "Read" })).toBe("#/?project=%2Fx&since=7d&tool=Read");
  });
});
