/** Addresses of the page Why, and the rows of a file with the agents of its lines. */

import type { BlameRow, CodeFile, Confidence } from "../api/why";
import { formatRoute } from "./route";

export interface LineRange {
  first: number;
  last: number;
}

/** What an address of the page names. Empty texts are not chosen. */
export interface WhyAddress extends CodeFile {
  lines: LineRange | null;
  commit: string;
}

export function parseAddress(query: URLSearchParams): WhyAddress {
  return {
    repository: query.get("repository") ?? "",
    path: query.get("path") ?? "",
    revision: query.get("revision") ?? "",
    lines: parseLines(query.get("line") ?? ""),
    commit: query.get("commit") ?? "",
  };
}

/** Return the query of an address. The inverse of `parseAddress`. */
export function formatQuery(address: Partial<WhyAddress>): string {
  const params = new URLSearchParams();
  for (const name of ["repository", "path", "revision", "commit"] as const) {
    if (address[name]) params.set(name, address[name]);
  }
  if (address.lines) params.set("line", formatLines(address.lines));
  return params.toString();
}

export function whyLink(address: Partial<WhyAddress>): string {
  return formatRoute({ page: "home", name: "why", query: formatQuery(address) });
}

/** Parse `12` or `12-20`. Return null for anything else. */
export function parseLines(text: string): LineRange | null {
  const match = /^([1-9]\d{0,8})(?:-([1-9]\d{0,8}))?$/.exec(text);
  if (!match) return null;
  const first = Number(match[1]);
  const last = Number(match[2] ?? match[1]);
  return first <= last ? { first, last } : { first: last, last: first };
}

export function formatLines({ first, last }: LineRange): string {
  return first === last ? String(first) : `${first}-${last}`;
}

/** Return numbers as ranges: `2-4, 7`. */
export function formatNumbers(numbers: number[], limit = 4): string {
  const ranges: LineRange[] = [];
  for (const number of numbers) {
    const end = ranges.at(-1);
    if (end && end.last === number - 1) end.last = number;
    else ranges.push({ first: number, last: number });
  }
  const texts = ranges.slice(0, limit).map(formatLines);
  return texts.join(", ") + (ranges.length > limit ? ", …" : "");
}

export const CONFIDENCES: Record<Confidence, { mark: string; text: string }> = {
  exact: { mark: "", text: "The line is as the agent wrote it." },
  reformatted: { mark: "reformatted", text: "A formatter or a person changed the layout since." },
  similar: { mark: "changed", text: "A person made the line from one of the agent." },
  uncertain: { mark: "uncertain", text: "The line may be the agent's, or another one with the same text." },
};

/** Return a text that equal origins share: lines of one call, or of one commit. */
export function originKey(row: BlameRow): string {
  if (row.edit && row.by === "agent") return `agent ${row.edit.ctx} ${row.edit.call}`;
  const edit = row.edit ? ` ${row.edit.ctx} ${row.edit.call} ${row.confidence}` : "";
  return `author ${row.commit ?? "uncommitted"}${edit}`;
}

/** Return the name of a model without the date of its version. */
export function shortModel(model: string): string {
  return model.replace(/^.*\//, "").replace(/^claude-/, "").replace(/-20\d{6}$/, "");
}

/** Return the share of agents as a percentage, or null without lines. */
export function percent(part: number, all: number): number | null {
  return all > 0 ? Math.round((100 * part) / all) : null;
}
