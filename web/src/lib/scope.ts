/** The scope of statistics in the address of their page. */

import type { StatisticsScope } from "../api/stats";
import { formatRoute, NO_FILTERS, type Filters } from "./route";

export const NO_SCOPE: StatisticsScope = { session: "", since: "", until: "", project: "", runtime: "" };

export function parseScope(query: URLSearchParams): StatisticsScope {
  const scope = { ...NO_SCOPE };
  for (const name of Object.keys(scope) as (keyof StatisticsScope)[]) scope[name] = query.get(name) ?? "";
  return scope;
}

export function formatScope(scope: StatisticsScope): string {
  return new URLSearchParams(Object.entries(scope).filter(([, value]) => value)).toString();
}

/** Return the address of the list of sessions in a scope, with further filters. */
export function sessionsIn(scope: StatisticsScope, filters: Partial<Filters>): string {
  const { since, until, project, runtime } = scope;
  return formatRoute({ page: "sessions", filters: { ...NO_FILTERS, since, until, project, runtime, ...filters } });
}
