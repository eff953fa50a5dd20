/** Addresses of the page's views. They are fragments, so that the server needs no routes for them. */

/** The filters of the list of sessions, by their names in the address and in requests. */
export interface Filters {
  text: string;
  runtime: string;
  project: string;
  since: string;
  until: string;
  agent: string;
  tool: string;
  model: string;
  outcome: string;
  min_cost: string;
  max_cost: string;
  live: string;
}

/** A column of a session: one agent's conversation, or the dialog of several agents. */
export type Panel = string[];

export type Route =
  | { page: "sessions"; filters: Filters }
  | {
      page: "session";
      name: string;
      panels: Panel[];
      message: string | null;
      details: string | null;
    }
  | { page: "step"; name: string; agent: string | null; number: number | null }
  | { page: "timeline"; name: string }
  /** A page of the home, of `lib/pages`. It reads its own parameters. */
  | { page: "home"; name: string; query: string }
  | { page: "unknown"; path: string };

export const NO_FILTERS: Filters = {
  text: "",
  runtime: "",
  project: "",
  since: "",
  until: "",
  agent: "",
  tool: "",
  model: "",
  outcome: "",
  min_cost: "",
  max_cost: "",
  live: "",
};

/** The most panels side by side. */
export const MAX_PANELS = 4;

export function sessionRoute(name: string, panels: Panel[] = [], message: string | null = null) {
  return { page: "session", name, panels, message, details: null } as const;
}

/** Parse the fragment of an address. Never raises. */
export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#/, "");
  const [path = "", query = ""] = splitOnce(text, "?");
  const params = new URLSearchParams(query);
  const parts = path.split("/").filter(Boolean).map(decode);
  if (parts.length === 0) {
    const filters = { ...NO_FILTERS };
    for (const name of Object.keys(filters) as (keyof Filters)[]) filters[name] = params.get(name) ?? "";
    return { page: "sessions", filters };
  }
  const [kind, name, view, number] = parts;
  if (kind && name === undefined && kind !== "session") {
    return { page: "home", name: kind, query: params.toString() };
  }
  if (kind !== "session" || !name) return { page: "unknown", path };
  if (view === undefined) {
    return {
      page: "session",
      name,
      panels: params
        .getAll("agent")
        .map((agents) => [...new Set(agents.split(",").filter(Boolean))])
        .filter((panel) => panel.length > 0)
        .slice(0, MAX_PANELS),
      message: params.get("m"),
      details: params.get("d"),
    };
  }
  if (view === "timeline") return { page: "timeline", name };
  if (view === "step") {
    const parsed = number !== undefined && /^\d{1,9}$/.test(number) ? Number(number) : null;
    return { page: "step", name, agent: params.get("agent"), number: parsed || null };
  }
  return { page: "unknown", path };
}

/** Format a route as a fragment. The inverse of `parseRoute`. */
export function formatRoute(route: Route): string {
  switch (route.page) {
    case "sessions":
      return withQuery("#/", Object.entries(route.filters));
    case "session":
      return withQuery(`#/session/${encodeURIComponent(route.name)}`, [
        ...route.panels.map((panel): [string, string] => ["agent", panel.join(",")]),
        ["m", route.message],
        ["d", route.details],
      ]);
    case "step": {
      const number = route.number === null ? "" : `/${route.number}`;
      const path = `#/session/${encodeURIComponent(route.name)}/step${number}`;
      return withQuery(path, [["agent", route.agent]]);
    }
    case "timeline":
      return `#/session/${encodeURIComponent(route.name)}/timeline`;
    case "home":
      return withQuery(`#/${encodeURIComponent(route.name)}`, [...new URLSearchParams(route.query)]);
    case "unknown":
      return `#/${route.path}`;
  }
}

/** The secret of a link that `harken ui` printed, and the fragment without it. */
export function takeToken(hash: string): { token: string | null; rest: string } {
  const text = hash.replace(/^#/, "");
  if (!/^(token|session)=/.test(text)) return { token: null, rest: hash };
  const params = new URLSearchParams(text);
  const session = params.get("session");
  return {
    token: params.get("token"),
    rest: session ? formatRoute(sessionRoute(session)) : "#/",
  };
}

function withQuery(path: string, entries: [string, string | null][]): string {
  const params = new URLSearchParams();
  for (const [name, value] of entries) if (value) params.append(name, value);
  const query = params.toString().replaceAll("%2C", ",");
  return query ? `${path}?${query}` : path;
}

function splitOnce(text: string, separator: string): [string, string] {
  const at = text.indexOf(separator);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + separator.length)];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
