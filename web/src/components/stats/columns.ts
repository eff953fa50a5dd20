/** Columns of the tables of statistics: where each member of a row is shown, and how. */

import type { Usage } from "../../api/stats";
import { countTokens, formatCostOf, formatExact, formatNumber, formatSeconds } from "../../lib/figures";
import { formatTime } from "../../lib/format";
import { cleanText } from "../../lib/text";

export interface Column<Row> {
  title: string;
  /** The member of the row that the cell shows. Without one, the cell is computed from others. */
  member?: string;
  /** The value of a member that is inside of another one. */
  value?: (row: Row) => unknown;
  text: (row: Row) => string;
  /** The exact value, for the title of the cell. */
  exact?: (row: Row) => string;
  isText?: boolean;
  /** The value that the bar in the cell represents, in relation to the largest one. */
  bar?: (row: Row) => number;
  href?: (row: Row) => string | null;
  /** The id of the agent that the cell names: null if it has none, undefined as long as it is not loaded. */
  badge?: (row: Row) => string | null | undefined;
  /** Explains the heading. */
  help?: string;
  /** Whether a narrow screen leaves the column out until the table is opened. */
  isMinor?: boolean;
}

type NumberMember<Row> = { [Name in keyof Row]: Row[Name] extends number | null ? Name : never }[keyof Row] & string;

export function numberColumn<Row>(title: string, member: NumberMember<Row>, more: Partial<Column<Row>> = {}): Column<Row> {
  const value = (row: Row) => row[member] as number | null;
  return { title, member, text: (row) => formatNumber(value(row)), exact: (row) => formatExact(value(row)), ...more };
}

export function secondsColumn<Row>(title: string, member: NumberMember<Row>, more: Partial<Column<Row>> = {}): Column<Row> {
  const value = (row: Row) => row[member] as number | null;
  return { title, member, text: (row) => formatSeconds(value(row)), exact: (row) => `${formatExact(value(row))} s`, ...more };
}

export function timeColumn<Row>(title: string, member: keyof Row & string, more: Partial<Column<Row>> = {}): Column<Row> {
  return { title, member, text: (row) => formatTime(row[member] as string | null) || "unknown", ...more };
}

export function textColumn<Row>(title: string, member: keyof Row & string, missing: string, more: Partial<Column<Row>> = {}): Column<Row> {
  return { title, member, isText: true, text: (row) => cleanText(String(row[member] || missing)), ...more };
}

/** The columns of tokens and cost, which the tables of models, days, projects and runtimes share. */
export function usageColumns<Row extends Usage>(): Column<Row>[] {
  return [
    { ...numberColumn<Row>("responses", "responses" as NumberMember<Row>), isMinor: true },
    { title: "tokens", text: (row) => formatNumber(countTokens(row)), exact: (row) => formatExact(countTokens(row)), help: "Read anew, from and into the cache, and written", bar: (row) => countTokens(row) ?? 0 },
    { ...numberColumn<Row>("read anew", "input_tokens" as NumberMember<Row>), isMinor: true },
    { ...numberColumn<Row>("from cache", "cache_read_tokens" as NumberMember<Row>), isMinor: true },
    { ...numberColumn<Row>("into cache", "cache_write_tokens" as NumberMember<Row>), isMinor: true },
    { ...numberColumn<Row>("written", "output_tokens" as NumberMember<Row>), isMinor: true },
    { ...numberColumn<Row>("of it thoughts", "reasoning_tokens" as NumberMember<Row>, { help: "Where the provider tells it" }), isMinor: true },
    costColumn<Row>(),
    unpricedColumn<Row>(),
  ];
}

interface Costs {
  cost_usd: number | null;
  unpriced: number;
}

export function costColumn<Row extends Costs>(): Column<Row> {
  return {
    title: "cost",
    member: "cost_usd" as keyof Row & string,
    text: (row) => formatCostOf(row.cost_usd, row.unpriced),
    exact: (row) => (row.cost_usd === null ? "unknown" : `$${formatExact(row.cost_usd)}`),
  };
}

export function unpricedColumn<Row extends Costs>(): Column<Row> {
  return {
    ...numberColumn<Row>("of unknown price", "unpriced" as NumberMember<Row>, { help: "Responses without a known price" }),
    isMinor: true,
  };
}
