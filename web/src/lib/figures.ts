/** Figures of statistics as people read them. Unknown values are a word, never 0. */

export const UNKNOWN = "?";

const UNITS: [number, string][] = [
  [1e12, "T"],
  [1e9, "B"],
  [1e6, "M"],
  [1e3, "K"],
];
const TIMES: [number, string][] = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** Format a number; from ten thousand on with a letter for thousands, millions and so on. */
export function formatNumber(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return UNKNOWN;
  if (value > 0 && value < 0.0001) return "<0.0001";
  if (!Number.isInteger(value) && Math.abs(value) < 999.5) return String(Number(value.toPrecision(3)));
  if (Math.abs(value) < 10_000) return Math.round(value).toLocaleString("en");
  const [unit, letter] = UNITS.find(([unit]) => Math.abs(value) >= unit * 0.99995) ?? [1, ""];
  return `${(value / unit).toLocaleString("en", { minimumFractionDigits: 1, maximumFractionDigits: 1 })} ${letter}`;
}

/** Format a number with all of its digits. */
export function formatExact(value: number | null | undefined): string {
  return value === null || value === undefined ? "unknown" : value.toLocaleString("en", { maximumFractionDigits: 6 });
}

export function formatPercent(part: number, whole: number): string {
  if (!whole) return "";
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 1 ? "<1 %" : `${Math.round(percent)} %`;
}

/** Format a duration in its two largest units. */
export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return UNKNOWN;
  if (seconds > 0 && seconds < 0.05) return "<0.1 s";
  if (seconds < 10) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  const at = TIMES.findIndex(([unit]) => seconds >= unit);
  const [unit, name] = TIMES[at] ?? [1, "s"];
  if (unit <= 60) return `${Math.round(seconds / unit)} ${name}`;
  const [smaller, smallerName] = TIMES[at + 1] ?? [1, "s"];
  const parts = Math.round(seconds / smaller);
  const rest = parts % (unit / smaller);
  const count = Math.floor(parts / (unit / smaller));
  return rest ? `${count} ${name} ${rest} ${smallerName}` : `${count} ${name}`;
}

export function formatDollars(amount: number): string {
  if (amount > 0 && amount < 0.0001) return "<$0.0001";
  if (amount && amount < 1) return `$${amount.toFixed(4)}`;
  const digits = amount < 1000 ? 2 : 0;
  return `$${amount.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits })}`;
}

/** Format a cost. `unpriced` is the number of responses without a known price. */
export function formatCostOf(cost: number | null | undefined, unpriced: number): string {
  if (cost === null || cost === undefined) return unpriced ? "unknown" : "none";
  return unpriced ? `≥ ${formatDollars(cost)}` : formatDollars(cost);
}

export interface TokenCounts {
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  output_tokens: number | null;
}

/** Return the number of input and output tokens. Return null if no count is known. */
export function countTokens(usage: TokenCounts): number | null {
  const counts = [usage.input_tokens, usage.cache_read_tokens, usage.cache_write_tokens, usage.output_tokens];
  const known = counts.filter((count) => count !== null);
  return known.length ? known.reduce((sum, count) => sum + count, 0) : null;
}

/** Return the days from the first to the last one, as `2026-03-05`; at most `limit`, the last ones. */
export function listDays(first: string, last: string, limit = 4_000): string[] {
  const end = Date.parse(`${last}T00:00:00Z`);
  let day = Math.max(Date.parse(`${first}T00:00:00Z`), end - (limit - 1) * 86_400_000);
  const days: string[] = [];
  for (; day <= end; day += 86_400_000) days.push(new Date(day).toISOString().slice(0, 10));
  return days;
}

/** A step of a color scale for a count: 0 for none, then 1 to 5. */
export function shade(value: number, maximum: number): number {
  return value <= 0 || maximum <= 0 ? 0 : Math.min(5, Math.max(1, Math.ceil((5 * value) / maximum)));
}
