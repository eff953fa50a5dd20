/** The API of the server as a middleware of Vite, over sessions that are made up.
 *
 * `npm run dev` serves it with the sources, `npm run preview` with the built files and the headers
 * that the server sends. The token is `mock`. */

import { createHmac } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Connect, Plugin } from "vite";
import type { ConversationItem } from "../src/api";
import { makeDetails, makeLiveItem, makeSessions, makeStep, makeTimeline, RED_PIXEL, type MockSession } from "./data.ts";

const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
  "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

export function mockApi(): Plugin {
  const sessions = makeSessions();
  const handle: Connect.NextHandleFunction = (request, response, next) => {
    const url = new URL(request.url ?? "/", "http://mock");
    if (!url.pathname.startsWith("/api/")) return next();
    route(sessions, url, request, response);
  };
  return {
    name: "harken-mock-api",
    configureServer: (server) => void server.middlewares.use(handle),
    configurePreviewServer: (server) => {
      server.middlewares.use((_request, response, next) => {
        response.setHeader("Content-Security-Policy", POLICY);
        response.setHeader("X-Content-Type-Options", "nosniff");
        next();
      });
      server.middlewares.use(handle);
    },
  };
}

function send(response: ServerResponse, value: unknown, status = 200): void {
  response.statusCode = status;
  response.setHeader("Content-Type", "application/json");
  response.end(JSON.stringify(value));
}
function fail(response: ServerResponse, status: number, message: string): void {
  send(response, { error: { code: "mock", message } }, status);
}

function route(sessions: Map<string, MockSession>, url: URL, request: IncomingMessage, response: ServerResponse): void {
  if (url.pathname === "/api/proof") {
    const proof = createHmac("sha256", "mock").update(`harken ui proof:${url.searchParams.get("nonce")}`).digest("hex");
    return send(response, { proof });
  }
  if (request.headers.authorization !== "Bearer mock") return fail(response, 401, "The token is missing or wrong.");
  const [kind, name, view, id] = url.pathname.replace(/^\/api\//, "").split("/").map(decodeURIComponent);
  const query = url.searchParams;
  const from = Number(query.get("from") ?? 0);
  const limit = Math.min(500, Number(query.get("limit") ?? 100));
  if (kind === "about") return send(response, { version: "0", home: "/mock", sessions: sessions.size });
  if (kind === "why" && name === "repositories") return send(response, { repositories: [], others: [], runtimes: {}, problem: null });
  if (kind === "search") {
    const q = query.get("q") ?? "";
    const hits = q.includes("zzz") ? [] : [{ session: "2026-03-02-parser", agent: "agent_001", message_id: "msg_005", time: "2026-03-02T09:00:35Z", is_unheard: true, snippet: [{ text: "… only entry point. ", is_match: false }, { text: q, is_match: true }, { text: " pops from an empty list", is_match: false }] }];
    return send(response, { hits });
  }
  if (kind === "sessions" && !name) {
    const wanted = (query.get("text") ?? "").toLowerCase();
    const matching = [...sessions.values()].map((session) => session.summary).filter((row) =>
      `${row.name} ${row.title}`.toLowerCase().includes(wanted) &&
      [null, row.runtime].includes(query.get("runtime")) && [null, row.project].includes(query.get("project")));
    const start = Number(query.get("cursor") ?? 0);
    return send(response, {
      sessions: matching.slice(start, start + limit), next: start + limit < matching.length ? String(start + limit) : null,
      total: matching.length, left_out: { unindexed: 0, unpriced: 0 }, index: { pending: 0, failed: 0, is_running: false, error: null },
    });
  }
  if (kind === "choices") {
    const projects = ["/home/ann/code/calc", "/home/ann/code/engine", "/home/ann/code/site"];
    return send(response, { runtimes: ["claude-code", "codex", "harken"], projects, agents: ["main"], tools: ["Bash"], models: [], outcomes: [] });
  }
  if (kind === "import") return send(response, name === "sources" ? { sources: [] } : { phase: "none", runtimes: [], problems: [] });
  const session = sessions.get(name ?? "");
  if (kind !== "sessions" || !session) return fail(response, 404, `There is no session '${name}'.`);
  const agent = query.get("agent") ?? "";
  const items = session.items[agent] ?? [];
  switch (view) {
    case undefined:
      return send(response, { session: session.summary, events: 1, agents: session.agents, primary: ["agent_001"], commands: { harken: `harken chat --resume ${name}`, claude: `harken resume ${name} --with claude`, codex: null } });
    case "items":
      return send(response, { total: items.length, events: items.length, items: items.slice(from, from + limit) });
    case "dialog": {
      const agents = (query.get("agents") ?? "").split(",");
      const all = agents.flatMap((one) => (session.items[one] ?? []).filter((row) => row.label === "Said" || (row.label === "Heard" && row.author === "user"))).sort((a, b) => a.time.localeCompare(b.time));
      const rows: ConversationItem[] = all.map((row) => ({ ...row, label: "Said", parts: row.parts.slice(0, 1) }));
      return send(response, { total: rows.length, events: 1, items: rows.slice(from, from + limit) });
    }
    case "follow":
      return follow(session, (query.get("panels") ?? "").split(";"), (query.get("events") ?? "").split(";").map(Number), response);
    case "messages": {
      const details = makeDetails(session, id ?? "");
      return details ? send(response, details) : fail(response, 404, `There is no message '${id}'.`);
    }
    case "timeline":
      return send(response, makeTimeline(session, from, limit));
    case "steps": {
      if (id === undefined) return send(response, { total: session.steps.length, steps: session.steps.slice(from, from + limit) });
      const step = makeStep(session, Number(id));
      return step ? send(response, { ...step, total: step.messages.length, messages: step.messages.slice(from, from + limit) }) : fail(response, 404, `There is no model call ${id}.`);
    }
    case "text":
      return send(response, { text: "0123456789abcdef".repeat(625_000) });
    case "find": {
      const message = query.get("message");
      for (const [owner, own] of Object.entries(session.items)) {
        const index = own.findIndex((row) => row.message_id === message);
        if (index >= 0) return send(response, { agent: owner, index });
      }
      return fail(response, 404, `There is no message '${message}'.`);
    }
    case "media":
      response.setHeader("Content-Type", "image/png");
      response.end(RED_PIXEL);
      return;
    default:
      return fail(response, 404, "There is no such route.");
  }
}

/** Send a new item each second; the call of the one before gets its result. Close after 8 s.
 *
 * Only the first panel changes, if it is of one agent: the dialogs of the mock do not grow. */
function follow(session: MockSession, panels: string[], seen: number[], response: ServerResponse): void {
  const items = session.items[panels[0] ?? ""] ?? [];
  response.setHeader("Content-Type", "application/x-ndjson");
  const first = seen[0] ?? 0;
  response.write(`${JSON.stringify({ panel: 0, events: items.length, total: items.length, items: items.slice(first).map((item, at) => ({ index: first + at, item })) })}\n`);
  const timer = setInterval(() => {
    if (panels[0]?.includes(",")) return;
    const changes = [];
    const last = items.at(-1);
    const part = last?.parts[0];
    if (last && part?.kind === "call" && !part.result) {
      part.result = { message_id: `${last.message_id}r`, time: last.time, text: "done", length: 4, is_error: false, closed: null, images: [] };
      changes.push({ index: items.length - 1, item: last });
    }
    items.push(makeLiveItem(items.length));
    changes.push({ index: items.length - 1, item: items.at(-1) });
    response.write(`\n${JSON.stringify({ panel: 0, events: items.length, total: items.length, items: changes })}\n`);
  }, 1000);
  const end = setTimeout(() => response.end(), 8000);
  response.on("close", () => (clearInterval(timer), clearTimeout(end)));
}
