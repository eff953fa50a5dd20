/** The rows that the server sends, as the design note names them, and the requests for them.
 *
 * Members with default values are absent from the JSON, so they are optional here. */

import type { ApiRequest, Params, Transport } from "./http";
import type { RunRow } from "./runs";
import type { IndexState, LeftOut } from "./sessions";

export { address, ApiError, HttpTransport, type Params, type Tokens, type Transport } from "./http";

export interface SessionSummary {
  name: string;
  title?: string | null;
  runtime?: string | null;
  project?: string | null;
  began?: string | null;
  ended?: string | null;
  state?: string | null;
  is_live?: boolean;
  /** The number of questions of its agents that wait for the user here. */
  questions?: number;
  is_imported?: boolean;
  agents?: number | null;
  messages?: number | null;
  cost_usd?: number | null;
  /** Whether the index has all of it, an earlier state, or nothing. */
  facts?: "current" | "behind" | "none";
}

export interface SessionPage {
  sessions: SessionSummary[];
  total?: number;
  next?: string | null;
  left_out?: LeftOut;
  index?: IndexState;
}

export interface TextSpan {
  kind: "same" | "dropped" | "added";
  text: string;
}

export interface SearchHit {
  session: string;
  title?: string | null;
  /** The name of the agent. */
  agent?: string | null;
  message_id?: string | null;
  commit?: string | null;
  time?: string | null;
  /** Whether it is in a text that nobody heard: a hook denied or rewrote it. Null if that is not known. */
  is_unheard?: boolean | null;
  snippet: { text: string; is_match?: boolean }[];
}

export interface TreeRow {
  agent_id: string;
  name: string;
  depth: number;
  parent?: string | null;
  place: "primary" | "subagent" | "hook" | "gone";
  gone?: boolean;
  language_model?: string | null;
  template?: string | null;
  task?: string | null;
  birth?: string | null;
  entries: number;
  verdicts?: number;
  model_calls: number;
  tokens: number;
  cost_usd: number;
}

export interface SessionInfo {
  session: SessionSummary;
  events: number;
  generation?: Generation;
  /** Whether the log was read to its end: an answer that was asked for soon may have a part of it. */
  is_complete?: boolean;
  /** How often agents changed their places in the tree. */
  moves?: number;
  agents: TreeRow[];
  primary: string[];
  damage?: string | null;
  commands?: Record<string, string | null>;
  /** How it runs in this server. Null: it does not. */
  run?: RunRow | null;
}

/** An image of the log. Without a hash the log has an address only, which the page does not load. */
export interface ImagePart {
  kind: "image";
  hash: string | null;
  media_type: string | null;
  size: number | null;
  /** Whether the data is in the log, and of a type that is shown. */
  is_shown: boolean;
  url?: string | null;
}

/** Which whole text of an item is meant: of a part, and which version of it.
 *
 * In a dialog, `agents` are those of the dialog, and the version is `shown`, `draft` or the id of
 * the message that another agent heard. */
export interface TextSource {
  message: string;
  part?: number | null;
  version?: "written" | "heard" | "result" | "diff" | "other" | (string & {});
  agents?: string[];
}

/** `length` counts the characters of the whole text; `position` names the part in requests for it. */
export interface TextPart {
  kind: "text";
  text: string;
  length: number;
  position?: number | null;
  /** In a dialog, which text of the item it is, in requests for the whole. */
  version?: string | null;
}

export interface CallResult {
  message_id: string;
  time: string;
  text: string;
  length: number;
  is_error: boolean;
  closed?: string | null;
  images: ImagePart[];
}

/** A call that a hook changed, as it ran. */
export interface RewrittenCall {
  message_id: string;
  name: string;
  arguments: string;
  length: number;
  spans: TextSpan[];
  /** Whether the spans lack changes. */
  is_partial?: boolean;
}

export interface CallPart {
  kind: "call";
  id: string;
  name: string;
  /** The arguments on one line, or what stands for all of them; of a rewritten call, what ran. */
  subject: string;
  arguments: string;
  length: number;
  position?: number | null;
  result: CallResult | null;
  /** The change of files by the call as it ran. */
  diff: string | null;
  diff_length?: number | null;
  is_diff_partial?: boolean;
  /** The arguments that the diff does not represent. */
  other_arguments?: string | null;
  other_length?: number | null;
  /** The files that the call edits, as far as its arguments tell. */
  files?: string[];
  agents: string[];
  rewritten?: RewrittenCall | null;
}

export interface RewrittenPart {
  kind: "rewritten";
  text: string;
  length: number;
  spans: TextSpan[];
  /** Whether the spans lack changes. */
  is_partial?: boolean;
  hook?: string | null;
  hook_name?: string | null;
}

export interface OtherPart {
  kind: "other";
  name: string;
  text: string;
  length: number;
  position?: number | null;
  /** In a dialog, which text of the item it is, in requests for the whole. */
  version?: string | null;
}

export type Part = TextPart | ImagePart | CallPart | RewrittenPart | OtherPart;

export type Label =
  | "System"
  | "Heard"
  | "Thought"
  | "Action"
  | "Received"
  | "Said"
  | "Draft"
  | "Verdict"
  | "Stopped";

export interface ConversationItem {
  message_id: string;
  time: string;
  label: Label;
  note?: string | null;
  purpose?: string | null;
  original?: string | null;
  author?: string | null;
  author_name?: string | null;
  parts: Part[];
}

/** Which log an answer is of: another value than before means that the log was replaced. */
export type Generation = string | number | null;

export interface Range<T> {
  total: number;
  /** From how many events the items were computed. */
  events?: number;
  generation?: Generation;
  /** Whether the log was read to its end. */
  is_complete?: boolean;
  items: T[];
}

export interface Change {
  /** Which of the followed panels the items are of. */
  panel?: number;
  /** From how many events the items of this line were computed. */
  events?: number;
  /** Where a later stream goes on, once this line is applied. */
  resume?: number;
  total?: number;
  generation?: Generation;
  items?: { index: number; item: ConversationItem }[];
  /** The whole tree of agents, in the first line of a stream. */
  agents?: TreeRow[];
  /** The rows that changed since the line before, and the ids of all agents if their order changed. */
  tree?: { rows: TreeRow[]; order?: string[] };
  is_live?: boolean;
  damage?: string | null;
  /** How the session runs in this server; only in the last line of a change. */
  run?: RunRow | null;
  error?: unknown;
}

export interface Hop {
  message_id: string;
  hops?: number;
  via?: "substance" | "cause" | "call" | null;
  source?: string | null;
  agent_id?: string | null;
  name?: string | null;
  event_type?: string;
  role?: string | null;
  content?: string;
  time?: string;
  differs?: boolean;
}

export interface Intervention {
  kind: "message" | "action";
  message_id: string;
  name?: string | null;
  proposed: string;
  became: string;
  became_id?: string;
  heard_by?: string | null;
  heard_by_name?: string | null;
  time?: string;
  spans?: TextSpan[];
}

/** A verdict of a hook. */
export interface VerdictRow {
  kind: string;
  point: string;
  message_id: string;
  hook: string;
  hook_name?: string | null;
  text: string;
  subject: string;
  name?: string | null;
  proposed?: string;
  time: string;
}

export interface MessageDetails {
  message: Record<string, unknown>;
  agent?: string | null;
  index?: number | null;
  totals?: { origins: number; hearers: number; effects: number };
  verdicts?: VerdictRow[];
  /** The model calls of its agent that read it, by their numbers. */
  readers?: { agent: string | null; steps: number[]; is_more: boolean };
  origins: Hop[];
  hearers: Hop[];
  effects: Hop[];
  interventions: Intervention[];
  /** The command that forks the session at this message, if it can be forked. */
  fork?: string | null;
}

export interface Usage {
  [name: string]: unknown;
}

export interface RequestStep {
  number: number;
  of_agent: number;
  request: string;
  agent_id?: string | null;
  name?: string | null;
  time: string;
  model: string;
  messages: number;
  evidence: string;
  missing?: string[];
  ended?: boolean;
  stop_reason?: string | null;
  latency_s?: number | null;
  cost_usd?: number | null;
  usage?: Usage | null;
}

export interface ContextMessage {
  position: number;
  message_id?: string | null;
  loaded?: string | null;
  new?: boolean;
  message: Record<string, unknown>;
}

export interface MessageDiff {
  kind: "same" | "dropped" | "added" | "changed";
  before?: number | null;
  after?: number | null;
  heading: string;
  text: string;
  spans?: TextSpan[];
}

export interface StepDetails {
  step: RequestStep;
  changes?: {
    previous?: string | null;
    kept?: number;
    messages?: MessageDiff[];
    edits?: { message_id: string; kind: string; summary?: string | null; ctx?: string | null }[];
    model?: string | null;
    tools?: { name: string; kind: string; spans?: TextSpan[] }[];
    parameters?: { name: string; kind: string; spans?: TextSpan[] }[];
  } | null;
  result?: {
    answer_id?: string | null;
    answer?: Record<string, unknown> | null;
    error?: string | null;
    partial?: string | null;
    ran?: {
      call: string;
      tool: string;
      arguments: string;
      became?: string | null;
      result?: string | null;
      is_error?: boolean;
    }[];
    rewritten?: Intervention[];
  } | null;
  changes_total?: number;
  tools?: { name?: string; description?: string }[];
  is_intact?: boolean;
  is_verified?: boolean;
  total?: number;
  messages: ContextMessage[];
  commands?: Record<string, string | null> | null;
}

export interface TimelineLane {
  agent_id: string;
  name?: string | null;
  first: string;
  last: string;
  events: number;
}

export interface TimelineEvent {
  message_id: string;
  time: string;
  turn: number;
  lane?: number | null;
  event_type: string;
  role?: string | null;
  text: string;
  /** Of an entry that an agent received: the message that it represents or that caused it, and its agent. */
  source?: string | null;
  source_agent?: string | null;
}

export interface TimelineRange {
  generation?: Generation;
  /** From how many events of the log the answer was computed. */
  event_count?: number;
  lanes: TimelineLane[];
  total: number;
  events: TimelineEvent[];
}

/** An answer of the server that is no success, or no answer at all (status 0). */
/** The requests for the rows of sessions. Pages of their own have their requests in modules beside this one. */
export class Api {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  send(request: ApiRequest, signal?: AbortSignal): Promise<Response> {
    return this.#transport.send(request, signal);
  }

  async get<T>(path: string, params?: Params, signal?: AbortSignal): Promise<T> {
    return (await (await this.send({ path, params }, signal)).json()) as T;
  }

  async post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
    return (await (await this.send({ path, body }, signal)).json()) as T;
  }

  sessions(params: Params, signal?: AbortSignal) {
    return this.get<SessionPage>("sessions", params, signal);
  }
  search(q: string, limit: number, signal?: AbortSignal) {
    return this.get<{ hits: SearchHit[]; index?: IndexState | null }>("search", { q, limit }, signal);
  }
  session(name: string, params: Params = {}, signal?: AbortSignal) {
    return this.get<SessionInfo>(`sessions/${encodeURIComponent(name)}`, params, signal);
  }
  /** `window` has `from` and `limit`; with `soon`, the answer does not wait until the log was read. */
  items(name: string, agent: string, window: Params, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/items`;
    return this.get<Range<ConversationItem>>(path, { agent, ...window }, signal);
  }
  dialog(name: string, agents: string[], window: Params, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/dialog`;
    return this.get<Range<ConversationItem>>(path, { agents: agents.join(","), ...window }, signal);
  }
  /** Follow panels over one connection: for each its agents, and how many events its items reflect. */
  follow(name: string, panels: { agents: string[]; events: number }[], generation: Generation, signal: AbortSignal) {
    const params = {
      panels: panels.map(({ agents }) => agents.join(",")).join(";"),
      events: panels.map(({ events }) => events).join(";"),
      generation,
    };
    return this.send({ path: `sessions/${encodeURIComponent(name)}/follow`, params }, signal);
  }
  /** Find the agent and the position of the item that shows a message. */
  find(name: string, message: string, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/find`;
    return this.get<{ agent: string; index: number }>(path, { message }, signal);
  }
  message(name: string, id: string, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/messages/${encodeURIComponent(id)}`;
    return this.get<MessageDetails>(path, {}, signal);
  }
  timeline(name: string, from: number, limit: number, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/timeline`;
    return this.get<TimelineRange>(path, { from, limit }, signal);
  }
  steps(name: string, agent: string | null, from: number, limit: number, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/steps`;
    return this.get<{ total: number; generation?: Generation; steps: RequestStep[] }>(path, { agent, from, limit }, signal);
  }
  step(name: string, number: number, from: number, limit: number, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/steps/${number}`;
    return this.get<StepDetails>(path, { from, limit }, signal);
  }
  async text(name: string, source: TextSource, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/text`;
    const params = { ...source, agents: source.agents?.join(",") };
    return (await this.get<{ text: string }>(path, params, signal)).text;
  }
  async media(name: string, hash: string, signal?: AbortSignal) {
    const path = `sessions/${encodeURIComponent(name)}/media`;
    return await (await this.send({ path, params: { hash } }, signal)).blob();
  }
}
