/** The answers of the server for one session, from the data in the file of the page.
 *
 * Harken has computed them; here ranges of lists are picked, and nothing else. */

import { PackedObject, type PackedDocument, type PackedList } from "../lib/packing";
import type { Part } from ".";
import { ApiError, type ApiRequest, type Params, type Transport } from "./http";

/** Facts about the file. */
export interface SharedCopy {
  session: string;
  version: string;
  made_at: string;
  /** How many credentials and home folders were removed. Null if the copy is not redacted. */
  redaction: { credentials: Record<string, number>; home_folders: number } | null;
  /** How many dialogs of two agents would have made the file too large. */
  left_out_dialogs: number;
}

/** The members that all lists of a session that does not change have. */
const GENERATION = "file";
/** The most items that a search in a panel returns. */
const MAX_MATCHES = 5_000;

export class FileTransport implements Transport {
  readonly copy: SharedCopy;
  readonly #root: PackedObject;
  readonly #events: number;
  readonly #messages = new Map<string, number>();
  /** Messages that the log implies, such as the question that a hook was asked. */
  readonly #implied = new Map<string, number>();
  readonly #items = new Map<string, number>();
  readonly #dialogs = new Map<string, number>();
  readonly #agentSteps = new Map<string, number[]>();
  readonly #lists = new Map<string, PackedList>();

  constructor(document: PackedDocument) {
    this.#root = new PackedObject(document, document.root);
    const session = this.#root.get<{ session: { name: string }; events: number }>("session");
    this.#events = session.events;
    this.copy = { ...this.#root.get<SharedCopy>("about"), session: session.session.name };
    this.#index("messages", "id", this.#messages);
    this.#index("implied", "id", this.#implied);
    this.#index("items", "agent", this.#items);
    this.#index("dialogs", "agents", this.#dialogs);
    for (const { agent, steps } of this.#root.get<{ agent: string; steps: number[] }[]>("agent_steps")) {
      this.#agentSteps.set(agent, steps);
    }
  }

  async send(request: ApiRequest, signal?: AbortSignal): Promise<Response> {
    const answer = this.#answer(request);
    // As a server: never before the caller has gone on.
    await Promise.resolve();
    signal?.throwIfAborted();
    return answer instanceof Blob ? new Response(answer) : Response.json(answer);
  }

  #answer({ path, params = {}, body }: ApiRequest): unknown {
    const [kind, name, view, id] = path.split("/").map(decodeURIComponent);
    if (kind !== "sessions" || name !== this.copy.session || body !== undefined) throw absent("This");
    switch (view) {
      case undefined: return this.#root.get("session");
      case "items": return this.#conversation(String(params.agent ?? ""), params);
      case "dialog": return this.#dialog(String(params.agents ?? ""), params);
      case "matches": return this.#matches(String(params.panel ?? ""), String(params.text ?? ""));
      case "align": return this.#align(String(params.message ?? ""), String(params.panels ?? "").split(";"));
      case "find": return this.#find(String(params.message ?? ""));
      case "messages": return this.#message(id ?? "").get("details");
      case "hooks": return pick(this.#list("hooks"), "rows", params, this.#events);
      case "timeline": {
        const list = this.#list("timeline");
        const { from, to } = bounds(params);
        const lanes = this.#root.get("lanes");
        return { total: list.length, generation: GENERATION, event_count: this.#events, lanes, events: list.slice(from, to) };
      }
      case "steps": return id === undefined ? this.#steps(params) : this.#step(Number(id), params);
      case "text": return { text: this.#text(params) };
      case "media": return this.#image(String(params.hash ?? ""));
      default: throw absent("This");
    }
  }

  #conversation(agent: string, params: Params) {
    const index = this.#items.get(agent);
    if (index === undefined) throw absent(`The agent ${agent}`);
    return { agent, ...pick(this.#list("items").object(index).list("items"), "items", params, this.#events) };
  }

  /** Return the list of a panel: of an agent, or of several with commas. */
  #panel(panel: string): PackedList {
    if (panel.includes(",")) return this.#findDialog(panel).list("items");
    const index = this.#items.get(panel);
    if (index === undefined) throw absent(`The agent ${panel}`);
    return this.#list("items").object(index).list("items");
  }

  /** Return the whole texts of a part of an item. */
  #partTexts(message: string, part: Part, panel: string): string[] {
    if (part.kind === "image") return [];
    const wholes = panel.includes(",") ? this.#textsOfDialog(panel, message) : this.#textsOf(message);
    const whole = (key: string, text: string) => (wholes?.has(key) ? wholes.get<string>(key) : text);
    if (part.kind === "rewritten") return [whole(":heard", part.text)];
    if (part.kind !== "call") return [whole(part.version ?? `${part.position ?? ""}:written`, part.text)];
    return [
      part.name,
      whole(`${part.position}:written`, part.arguments),
      part.rewritten ? whole(`${part.position}:heard`, part.rewritten.arguments) : "",
      part.result ? whole(`${part.position}:result`, part.result.text) : "",
    ];
  }

  /** Search the texts of a panel. */
  #matches(panel: string, wanted: string) {
    const items = this.#panel(panel);
    const words = wanted.toLowerCase();
    const indexes: number[] = [];
    for (let index = 0; index < items.length && indexes.length < MAX_MATCHES; index += 1) {
      const item = items.object(index);
      const [message, parts] = [item.get<string>("message_id"), item.get<Part[]>("parts")];
      if (parts.some((part) => this.#partTexts(message, part, panel).some((text) => text.toLowerCase().includes(words)))) indexes.push(index);
    }
    return { ...stateOf(this.#events), indexes, is_partial: indexes.length === MAX_MATCHES };
  }

  /** Return for each panel its last item that is not after a message. */
  #align(message: string, panels: string[]) {
    const position = (id: string) => this.#messages.get(id) ?? this.#messages.get(id.split(".", 1)[0] ?? "") ?? 0;
    const target = position(message);
    const indexes = panels.map((panel) => {
      const items = this.#panel(panel);
      let [low, high] = [0, items.length - 1];
      while (low < high) {
        const middle = Math.ceil((low + high) / 2);
        if (position(items.object(middle).get<string>("message_id")) <= target) low = middle;
        else high = middle - 1;
      }
      return Math.max(0, low);
    });
    return { ...stateOf(this.#events), indexes };
  }

  #dialog(agents: string, params: Params) {
    return pick(this.#findDialog(agents).list("items"), "items", params, this.#events);
  }

  /** Find the dialog of these agents, if possible as the first one received it. */
  #findDialog(agents: string): PackedObject {
    const sorted = (names: string) => names.split(",").sort().join(",");
    const index =
      this.#dialogs.get(agents) ??
      [...this.#dialogs].find(([names]) => sorted(names) === sorted(agents))?.[1];
    if (index === undefined) {
      throw absent("The dialog of these agents", "It has the dialog of all agents, and those of two that sent something to each other.");
    }
    return this.#list("dialogs").object(index);
  }

  #message(id: string): PackedObject {
    // A reference to a call is one to its message.
    const index = this.#messages.get(id) ?? this.#messages.get(id.split(".", 1)[0] ?? "");
    if (index === undefined) throw absent(`The message ${id}`);
    return this.#list("messages").object(index);
  }

  #find(id: string): unknown {
    const place = this.#message(id).get<unknown>("place");
    if (place === null) throw absent(`An item of the message ${id}`);
    return place;
  }

  #steps(params: Params) {
    const steps = this.#list("steps");
    const agent = params.agent;
    const { from, to } = bounds(params);
    const numbers = agent ? (this.#agentSteps.get(String(agent)) ?? []) : null;
    const rows = numbers
      ? numbers.slice(from, to)
      : Array.from({ length: Math.max(0, Math.min(to, steps.length) - from) }, (_, index) => from + index + 1);
    return {
      total: numbers ? numbers.length : steps.length,
      ...stateOf(this.#events),
      steps: rows.map((number) => steps.object(number - 1).get("row")),
    };
  }

  #step(number: number, params: Params) {
    const steps = this.#list("steps");
    if (!(number >= 1 && number <= steps.length)) throw absent(`The model call ${number}`);
    const step = steps.object(number - 1);
    if (step.has("error")) {
      const { error } = step.get<{ error: { code: string; message: string } }>("error");
      throw new ApiError(500, error.code, error.message);
    }
    const { from, to } = bounds(params);
    const messages = step.list("messages");
    const ranges = step.get<number[]>("new");
    const isNew = (position: number) =>
      ranges.some((first, index) => index % 2 === 0 && position >= first && position < first + (ranges[index + 1] ?? 0));
    return {
      ...step.get<object>("details"),
      total: messages.length,
      messages: messages.slice<object>(from, to).map((message, index) => ({
        position: from + index,
        ...message,
        ...(isNew(from + index) ? { new: true } : {}),
      })),
      commands: {},
    };
  }

  #text(params: Params): string {
    const message = String(params.message ?? "");
    const [texts, key] = params.agents
      ? [this.#textsOfDialog(String(params.agents), message), String(params.version ?? "shown")]
      : [this.#textsOf(message), `${params.part ?? ""}:${params.version ?? "written"}`];
    if (!texts?.has(key)) throw absent("This text");
    return texts.get<string>(key);
  }

  #textsOf(message: string): PackedObject | null {
    const index = this.#messages.get(message);
    if (index !== undefined) return this.#list("messages").object(index).object("texts");
    const implied = this.#implied.get(message);
    return implied === undefined ? null : this.#list("implied").object(implied).object("texts");
  }

  #textsOfDialog(agents: string, message: string): PackedObject | null {
    const dialog = this.#findDialog(agents);
    const items = dialog.list("items");
    for (let index = 0; index < items.length; index += 1) {
      if (items.object(index).get("message_id") === message) return dialog.list("texts").object(index);
    }
    return null;
  }

  #image(hash: string): Blob {
    const image = this.#root.get<{ hash: string; media_type: string; data: string }[]>("images").find((one) => one.hash === hash);
    if (!image) throw absent("This image");
    return new Blob([decodeBase64(image.data)], { type: image.media_type });
  }

  #list(name: string): PackedList {
    const list = this.#lists.get(name) ?? this.#root.list(name);
    this.#lists.set(name, list);
    return list;
  }

  #index(list: string, member: string, into: Map<string, number>): void {
    const rows = this.#list(list);
    for (let index = 0; index < rows.length; index += 1) {
      const key = rows.object(index).get<string>(member);
      // A log of another program may repeat an id; the first one counts.
      if (!into.has(key)) into.set(key, index);
    }
  }
}

/** Decode base64. `fetch` of a `data:` address is forbidden like all others. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let index = 0; index < binary.length; index += 1) bytes[index] = binary.charCodeAt(index);
  return bytes;
}

function absent(what: string, hint = ""): ApiError {
  return new ApiError(404, "not_in_file", `${what} is not in this file. ${hint}`.trim());
}

function stateOf(events: number) {
  return { generation: GENERATION, events, is_complete: true };
}

function bounds(params: Params): { from: number; to: number } {
  const from = Number(params.from ?? 0);
  return { from, to: from + Number(params.limit ?? 100) };
}

function pick(list: PackedList, member: string, params: Params, events: number): Record<string, unknown> {
  const { from, to } = bounds(params);
  return { total: list.length, ...stateOf(events), [member]: list.slice(from, to) };
}
