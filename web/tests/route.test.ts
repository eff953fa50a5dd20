import { describe, expect, it } from "vitest";
import { formatRoute, MAX_PANELS, NO_FILTERS, parseRoute, sessionRoute, takeToken } from "../src/lib/route";

describe("routes", () => {
  it("are the same after formatting and parsing", () => {
    for (const route of [
      { page: "sessions", filters: NO_FILTERS },
      { page: "sessions", filters: { ...NO_FILTERS, text: "a b&c=#?", runtime: "codex", tool: "Read", min_cost: "0.5", since: "7d" } },
      sessionRoute("2026 demo/é?#", [["agent_001"], ["agent_002", "agent_003"]], "msg_012"),
      { ...sessionRoute("claude:1"), details: "msg_3" },
      { page: "step", name: "a/b", agent: "agent_001", number: 7 },
      { page: "step", name: "a", agent: null, number: null },
      { page: "timeline", name: "%" },
      { page: "home", name: "stats", query: "since=7d&project=%2Fx" },
      { page: "home", name: "history", query: "" },
    ] as const) {
      expect(parseRoute(formatRoute(route as never))).toEqual(route);
    }
  });

  it("never raise, whatever the address is", () => {
    for (const hash of ["", "#", "#/", "#/session", "#/session/%E0%A4%A", "#/x/y", "#/session/a/step/-1", "#//", "#?"]) {
      expect(parseRoute(hash).page).toBeTypeOf("string");
    }
    expect(parseRoute("#/session/a/step/1e9")).toMatchObject({ page: "step", number: null });
    expect(parseRoute("#/session/a/other").page).toBe("unknown");
  });

  it("have few panels, each agent once in a panel", () => {
    const many = Array.from({ length: 9 }, (_, index) => `agent=a${index},a${index},b`).join("&");
    const route = parseRoute(`#/session/x?${many}&agent=`);
    expect(route).toMatchObject({ panels: Array.from({ length: MAX_PANELS }, (_, index) => [`a${index}`, "b"]) });
  });
});

describe("the token of a link", () => {
  it("is taken from the fragment, with the session", () => {
    expect(takeToken("#token=s3cret")).toEqual({ token: "s3cret", rest: "#/" });
    expect(takeToken("#token=s&session=a%2Fb")).toEqual({ token: "s", rest: "#/session/a%2Fb" });
  });
  it("is not looked for in other fragments", () => {
    expect(takeToken("#/session/token=1")).toEqual({ token: null, rest: "#/session/token=1" });
    expect(takeToken("")).toEqual({ token: null, rest: "" });
  });
});
