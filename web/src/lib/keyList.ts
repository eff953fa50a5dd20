/** The keys of each page, as `?` lists them. */

import type { Route } from "./route";

/** A heading, and the keys with what they do. Several keys are separated by ` / `. */
export type Keys = [title: string, keys: [string, string][]];

const EVERYWHERE: Keys = ["Everywhere", [["?", "this list"], ["Esc", "close what is open"]]];
const HOME_EVERYWHERE: Keys = ["Everywhere", [["g", "go to the sessions"], ["/", "search sessions and messages"], ...EVERYWHERE[1]]];
const SESSIONS: Keys[] = [
  ["Sessions", [["/", "go to the search"], ["↓", "in the search: go to the list"], ["j / k", "next, previous session"], ["Enter", "open it"], ["c", "choose it to compare"]]],
  ["Everywhere", [["g", "go to the sessions"], ...EVERYWHERE[1]]],
];
const SESSION: Keys[] = [
  [
    "Messages",
    [
      ["j / k", "next, previous message"],
      ["Home / End", "first, last message"],
      ["f / /", "find in the conversation"],
      ["o", "fold or unfold the message"],
      ["Enter", "details: where it came from, who heard it"],
      ["y", "copy a link to the message"],
      ["t", "show or hide thoughts"],
      ["r", "texts as written, or Markdown rendered"],
    ],
  ],
  [
    "Agents and panels",
    [
      ["↑ / ↓", "in the tree: previous, next agent"],
      ["→ / ←", "open, close its subtree"],
      ["Enter", "show it"],
      ["Ctrl + click", "on an agent: in a new panel"],
      ["Shift + click", "on an agent: add it to the dialog in this panel"],
      ["[ / ]", "previous, next panel"],
      ["x", "close the panel"],
      ["a", "align the panels in time, or not"],
    ],
  ],
];
const RUN: Keys = ["A session that runs here", [["m", "write a message"], ["Enter", "send; alone: continue a turn that was cut off"], ["Shift + Enter", "a new line"], ["Esc", "stop the turn"]]];
const STEPS: Keys = ["Model calls", [["← / →", "previous, next call"], ["j / k", "next, previous call"]]];
const TIMELINE: Keys = ["Timeline", [["j / k", "next, previous event"], ["Enter", "details of the event"], ["+ / -", "higher, lower rows"]]];
const PAGES: Record<string, Keys[]> = {
  chat: [["New chat", [["Enter", "start with the message"], ["Shift + Enter", "a new line"]]]],
  why: [["Why", [["f", "filter files"], ["j / k", "next, previous line"], ["Shift + click", "on a line: all lines up to it"], ["Esc", "close the answer"]]]],
  history: [["History", [["j / k", "next, previous commit"], ["Enter", "show it"], ["c", "compare the chosen commit with the current one"], ["/", "find a branch, a label or a commit"]]]],
  compare: [["Compare", [["j / k", "next, previous message"], ["d", "go to where the runs part"], ["o", "show or hide the equal messages"]]]],
};

/** Return the keys of a page. `isCopy`: of a shared file, which has no other sessions. */
export function listKeys(route: Route, isCopy = false): Keys[] {
  const everywhere = isCopy ? EVERYWHERE : HOME_EVERYWHERE;
  const inSession: Keys = isCopy ? EVERYWHERE : ["Everywhere", HOME_EVERYWHERE[1].filter(([key]) => key !== "/")];
  switch (route.page) {
    case "sessions": return isCopy ? [EVERYWHERE] : SESSIONS;
    case "session": return [...SESSION, ...(isCopy ? [] : [RUN]), inSession];
    case "step": return [STEPS, everywhere];
    case "timeline": return [TIMELINE, everywhere];
    case "home": {
      const keys = PAGES[route.name] ?? [];
      return [...keys, route.name === "history" ? inSession : everywhere];
    }
    case "unknown": return [everywhere];
  }
}
