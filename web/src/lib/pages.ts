/** The pages of the home beside the list of sessions, each loaded when it is first shown. */

import type { Component } from "svelte";

export interface HomePage {
  /** The text of its link in the bar. */
  title: string;
  load: () => Promise<{ default: Component<{ query: URLSearchParams }> }>;
}

/** By the name in the address: `#/NAME?PARAMETERS`. */
export const HOME_PAGES: Record<string, HomePage> = {
  chat: { title: "New chat", load: () => import("../views/NewChat.svelte") },
  why: { title: "Why", load: () => import("../views/Why.svelte") },
  history: { title: "History", load: () => import("../views/History.svelte") },
  compare: { title: "Compare", load: () => import("../views/Compare.svelte") },
};
