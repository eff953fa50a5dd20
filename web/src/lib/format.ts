/** Numbers and times as people read them. */

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Format a time in the past: `now`, `5 min`, `3 h`, `2 d`, then the date. */
export function formatAge(time: string | null | undefined, now = Date.now()): string {
  const at = parseTime(time);
  if (at === null) return "";
  const seconds = (now - at) / 1000;
  if (seconds < 45) return "now";
  if (seconds < HOUR) return `${Math.max(1, Math.round(seconds / MINUTE))} min`;
  if (seconds < DAY) return `${Math.round(seconds / HOUR)} h`;
  if (seconds < 7 * DAY) return `${Math.round(seconds / DAY)} d`;
  const date = new Date(at);
  const sameYear = date.getFullYear() === new Date(now).getFullYear();
  return date.toLocaleDateString(undefined, {
    month: "short",
    day: "numeric",
    ...(sameYear ? {} : { year: "numeric" }),
  });
}

export function formatTime(time: string | null | undefined): string {
  const at = parseTime(time);
  if (at === null) return "";
  return new Date(at).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
}

export function formatClock(time: string | null | undefined): string {
  const at = parseTime(time);
  if (at === null) return "";
  return new Date(at).toLocaleTimeString(undefined, {
    hour: "2-digit",
    minute: "2-digit",
    second: "2-digit",
    hour12: false,
  });
}

/** Format the time between two times: `12 s`, `4 min`, `1 h 05`. */
export function formatDuration(
  began: string | null | undefined,
  ended: string | null | undefined,
): string {
  const start = parseTime(began);
  const end = parseTime(ended);
  if (start === null || end === null || end < start) return "";
  const seconds = Math.round((end - start) / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < HOUR) return `${Math.round(seconds / 60)} min`;
  if (seconds >= 2 * DAY) return `${Math.round(seconds / DAY)} d`;
  const minutes = Math.round(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")}`;
}

export function formatCost(cost: number | null | undefined): string {
  if (cost === null || cost === undefined || !Number.isFinite(cost)) return "";
  if (cost === 0) return "$0";
  if (cost < 0.01) return "<$0.01";
  return `$${cost.toFixed(cost < 100 ? 2 : 0)}`;
}

export function formatCount(count: number | null | undefined): string {
  if (count === null || count === undefined || !Number.isFinite(count)) return "";
  if (count < 10_000) return String(count);
  if (count < 1_000_000) return `${Math.round(count / 1000)}k`;
  return `${(count / 1_000_000).toFixed(1)}M`;
}

export function formatBytes(count: number | null | undefined): string {
  if (count === null || count === undefined) return "";
  if (count < 1_000) return `${count} B`;
  if (count < 1_000_000) return `${Math.round(count / 1_000)} kB`;
  return `${(count / 1_000_000).toFixed(1)} MB`;
}

/** Format a count and its noun: `1 agent`, `2 agents`. */
export function plural(count: number, noun: string): string {
  const nouns = /[^aeiou]y$/.test(noun) ? `${noun.slice(0, -1)}ies` : `${noun}s`;
  return `${formatCount(count)} ${count === 1 ? noun : nouns}`;
}

/** Return the folder name at the end of a path, for a short label. */
export function lastName(path: string): string {
  return path.split(/[/\\]/).filter(Boolean).at(-1) ?? path;
}

function parseTime(time: string | null | undefined): number | null {
  if (!time) return null;
  const at = Date.parse(time);
  return Number.isNaN(at) ? null : at;
}
