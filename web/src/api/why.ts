/** The rows of the page Why, as `harken blame`, `why` and `who` print them, and their requests. */

import type { Api } from "./index";
import { ApiError, type Params } from "./http";

export type Confidence = "exact" | "reformatted" | "similar" | "uncertain";

export interface CodeFile {
  repository: string;
  path: string;
  /** Empty for the working tree. */
  revision: string;
}

export interface Repository {
  folder: string;
  sessions: number;
  is_start: boolean;
}

export interface RepositoryList {
  repositories: Repository[];
  others: { folder: string; problem: "missing" | "no_repository"; sessions: number }[];
  runtimes: Record<string, string>;
  problem: "git_missing" | null;
}

export interface TreeEntry {
  name: string;
  path: string;
  kind: "folder" | "file" | "submodule" | "link";
  files: number;
}

export interface FolderPage {
  total: number;
  files: number;
  is_shallow: boolean;
  entries: TreeEntry[];
}

export interface FilePage {
  path: string;
  commit: string | null;
  total: number;
  size: number;
  version: string;
  lines: string[];
}

export interface BlameRow {
  line: number;
  by: "agent" | "author";
  confidence: Confidence;
  ratio: number;
  time: string | null;
  commit: string | null;
  summary: string;
  author: string;
  contexts: string[];
  edit: {
    ctx: string;
    call: string;
    session: string;
    runtime: string;
    agent: string;
    model: string;
    time: string;
  } | null;
}

export interface BlamePage {
  total: number;
  version: string;
  is_complete: boolean;
  rows: BlameRow[];
  /** Commit of an edit -> the id of its agent in its session, as far as it is known. */
  agents: Record<string, string>;
}

export interface ExplainedRow {
  path: string;
  lines: number[];
  by: "agent" | "author";
  confidence: Confidence;
  ratio: number;
  commit: { id: string; author: string; email: string; time: string; summary: string } | null;
  edit: {
    ctx: string;
    call: string;
    session: string;
    runtime: string;
    title: string;
    agent: string;
    model: string;
    cost_usd: number | null;
    time: string;
    tool: string;
    request: string;
    task: string;
    reason: string;
    is_thinking: boolean;
  } | null;
  record: {
    contexts: string[];
    trace: { contributor: string; model: string; url: string; tool: string } | null;
  } | null;
}

export interface ExplainedPage {
  total: number;
  rows: ExplainedRow[];
  /** The names in this page of the sessions of the rows. */
  sessions: Record<string, string | null>;
  /** Commit of an edit -> the id of its agent in its session, as far as it is known. */
  agents: Record<string, string>;
  previous: CodeFile | null;
  commands: Record<string, string>;
}

export interface Share {
  files: number;
  lines: number;
  agent_lines: number;
  uncertain_lines: number;
}

export interface FolderShares {
  folders: (Share & { path: string })[];
  files: (Share & { path: string })[];
  total: Share;
}

export interface FileSession {
  session: string;
  /** Its name in this page, if it is there. */
  page: string | null;
  runtime: string;
  title: string;
  edits: number;
  lines: number;
  first: string;
  last: string;
}

export interface CallLines {
  paths: string[];
  repositories: string[];
  files: {
    repository: string;
    path: string;
    count: number;
    lines: [number, number][];
    changed: [number, number][];
    uncertain: [number, number][];
  }[];
}

export interface FoundCall {
  message: string;
  agent: string | null;
  index: number | null;
  step: number | null;
}

export interface Progress {
  done: number;
  total: number;
}

interface Listener<T> {
  onProgress?: (progress: Progress) => void;
  onPart?: (part: T) => void;
}

/** Read an answer that the server streams. Raises ApiError for an error in it, or a lost end. */
export async function readAnswer<T>(response: Response, listener: Listener<T> = {}): Promise<T> {
  if (!response.body) throw new ApiError(0, "unreachable", "The answer is empty.");
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    text += value ?? "";
    const lines = text.split("\n");
    text = lines.pop() ?? "";
    for (const line of lines) {
      if (!line) continue;
      const row = JSON.parse(line) as { progress?: Progress; part?: T; answer?: T; error?: { code: string; message: string } };
      if (row.error) throw new ApiError(422, row.error.code, row.error.message);
      if (row.progress) listener.onProgress?.(row.progress);
      if (row.part !== undefined) listener.onPart?.(row.part);
      if (row.answer !== undefined) return row.answer;
    }
    if (done) throw new ApiError(0, "unreachable", "The server has stopped before the answer was complete.");
  }
}

/** Return the parameters that name a file. */
function nameOf({ repository, path, revision }: CodeFile): Params {
  return { repository, path, revision };
}

export class WhyApi {
  readonly #api: Api;

  constructor(api: Api) {
    this.#api = api;
  }

  repositories(signal?: AbortSignal) {
    return this.#api.get<RepositoryList>("why/repositories", {}, signal);
  }
  tree(file: CodeFile, from: number, signal?: AbortSignal) {
    return this.#api.get<FolderPage>("why/tree", { ...nameOf(file), from, limit: 500 }, signal);
  }
  async paths(repository: string, revision: string, q: string, signal?: AbortSignal) {
    const params = { repository, revision, q, limit: 50 };
    return (await this.#api.get<{ paths: string[] }>("why/paths", params, signal)).paths;
  }
  file(file: CodeFile, from: number, signal?: AbortSignal) {
    return this.#api.get<FilePage>("why/file", { ...nameOf(file), from, limit: 10_000 }, signal);
  }
  blame(file: CodeFile, from: number, limit: number, listener: Listener<BlamePage>, signal: AbortSignal) {
    return this.#stream<BlamePage>("why/blame", { ...nameOf(file), from, limit }, listener, signal);
  }
  line(file: CodeFile, first: number, last: number, listener: Listener<ExplainedPage>, signal: AbortSignal) {
    return this.#stream<ExplainedPage>("why/line", { ...nameOf(file), first, last }, listener, signal);
  }
  commit(repository: string, commit: string, listener: Listener<ExplainedPage>, signal: AbortSignal) {
    return this.#stream<ExplainedPage>("why/commit", { repository, commit }, listener, signal);
  }
  shares(repository: string, path: string, listener: Listener<FolderShares>, signal: AbortSignal) {
    return this.#stream<FolderShares>("why/shares", { repository, path }, listener, signal);
  }
  sessions(file: CodeFile, listener: Listener<{ sessions: FileSession[] }>, signal: AbortSignal) {
    return this.#stream<{ sessions: FileSession[] }>("why/sessions", nameOf(file), listener, signal);
  }
  /** Find the message of a call that a line leads to. */
  call(session: string, id: string, ctx: string, signal?: AbortSignal) {
    return this.#api.get<FoundCall>(`sessions/${encodeURIComponent(session)}/call`, { id, ctx }, signal);
  }
  /** Find the lines of today's files that a call wrote. */
  linesOfCall(session: string, message: string, position: number, listener: Listener<CallLines>, signal: AbortSignal) {
    const path = `sessions/${encodeURIComponent(session)}/lines`;
    return this.#stream<CallLines>(path, { message, position }, listener, signal);
  }

  async #stream<T>(path: string, params: Params, listener: Listener<T>, signal: AbortSignal): Promise<T> {
    return readAnswer<T>(await this.#api.send({ path, params }, signal), listener);
  }
}
