/** A file with the agents of its lines, as it arrives: its text first, then the lines in view. */

import { ApiError } from "../api";
import type { BlamePage, BlameRow, CodeFile, FilePage, Progress, WhyApi } from "../api/why";
import { languageOf, splitHighlighted, type Token } from "./codeLines";
import { nameInvisible } from "./text";

const BLAME_ROWS = 2_000;
const LINES_ABOVE = 20;
/** The characters that are highlighted at once: more would make the page stutter. */
const MAX_WHOLE_CHARS = 200_000;
const CHUNK_LINES = 500;
/** The characters of a line that are shown: a browser lays out more only slowly. */
export const MAX_LINE_CHARS = 2_000;
const MAX_RELOADS = 3;

export class CodeView {
  file = $state.raw<FilePage | null>(null);
  lines = $state.raw<string[]>([]);
  rows = $state.raw<(BlameRow | undefined)[]>([]);
  /** Commit -> the id of its agent. */
  agents = $state.raw<Record<string, string>>({});
  tokens = $state.raw<(Token[] | undefined)[]>([]);
  progress = $state.raw<Progress | null>(null);
  error = $state.raw<Error | null>(null);
  blameError = $state.raw<Error | null>(null);
  isComplete = $state(false);
  isStopped = $state(false);

  readonly #api: WhyApi;
  #target: CodeFile | null = null;
  #controller = new AbortController();
  #requested = new Set<number>();
  #reloads = 0;
  #visible: [number, number] = [0, 0];

  constructor(api: WhyApi) {
    this.#api = api;
  }

  /** Load a file. `line`: around which the agents are asked for first. */
  async load(target: CodeFile, line: number): Promise<void> {
    this.leave();
    this.#reloads = 0;
    Object.assign(this, { file: null, lines: [], rows: [], agents: {}, tokens: [] });
    await this.#load(target, line);
  }

  async #load(target: CodeFile, line: number): Promise<void> {
    this.#controller = new AbortController();
    const { signal } = this.#controller;
    this.#target = target;
    this.#requested.clear();
    Object.assign(this, { error: null, blameError: null, progress: null, isComplete: false, isStopped: false });
    void this.#blame(Math.max(0, line - 1 - LINES_ABOVE), signal);
    try {
      let all: string[] = [];
      for (;;) {
        const page = await this.#api.file(target, all.length, signal);
        all = [...all, ...page.lines];
        this.file = page;
        if (all.length >= this.lines.length || all.length >= page.total) this.lines = all;
        if (all.length >= page.total || page.lines.length === 0) break;
      }
    } catch (reason) {
      if (!signal.aborted) this.error = asError(reason);
      return;
    }
    void this.#highlight(target.path, signal);
  }

  /** Ask for the agents of the lines in view, once all are attributed. */
  show(first: number, last: number): void {
    this.#visible = [first, last];
    if (!this.isComplete) return;
    for (const index of [first, last]) {
      const from = Math.floor(index / BLAME_ROWS) * BLAME_ROWS;
      const isKnown = index >= (this.file?.total ?? 0) || this.rows[index] !== undefined;
      if (!isKnown && !this.#requested.has(from)) {
        this.#requested.add(from);
        void this.#blame(from, this.#controller.signal);
      }
    }
  }

  /** Stop the attribution. What is known stays. */
  stop(): void {
    this.leave();
    this.progress = null;
    this.isStopped = !this.isComplete;
  }

  /** Go on after `stop`, or after an error. */
  resume(line: number): void {
    this.#controller = new AbortController();
    this.isStopped = false;
    this.blameError = null;
    void this.#blame(Math.max(0, line - 1 - LINES_ABOVE), this.#controller.signal);
  }

  leave(): void {
    this.#controller.abort();
  }

  async #blame(from: number, signal: AbortSignal): Promise<void> {
    const target = this.#target;
    if (!target) return;
    if (!this.isComplete) this.progress = { done: 0, total: 0 };
    const listener = {
      onProgress: (progress: Progress) => (this.progress = progress),
      onPart: (part: BlamePage) => this.#put(part),
    };
    try {
      const page = await this.#api.blame(target, from, BLAME_ROWS, listener, signal);
      if (signal.aborted) return;
      if (this.file && page.version !== this.file.version && this.#reloads < MAX_RELOADS) {
        this.#reloads += 1; // The file was changed since its text was read. What is shown stays until then.
        this.leave();
        this.rows = [];
        this.tokens = [];
        await this.#load(target, from + 1 + LINES_ABOVE);
        return;
      }
      this.#put(page);
      this.isComplete = true;
      this.progress = null;
      this.show(...this.#visible); // The user may have scrolled meanwhile.
    } catch (reason) {
      if (signal.aborted) return;
      this.progress = null;
      this.#requested.delete(from);
      this.blameError = asError(reason);
    }
  }

  #put(page: BlamePage): void {
    const next = [...this.rows];
    for (const row of page.rows) next[row.line - 1] = row;
    this.agents = { ...this.agents, ...page.agents };
    this.rows = next;
  }

  async #highlight(path: string, signal: AbortSignal): Promise<void> {
    const language = languageOf(path);
    if (!language) return;
    const { hljs } = await import("./languages");
    if (!hljs.getLanguage(language)) return;
    const chars = this.lines.reduce((sum, line) => sum + Math.min(line.length, MAX_LINE_CHARS), 0);
    const size = chars <= MAX_WHOLE_CHARS ? this.lines.length : CHUNK_LINES;
    for (let start = 0; start < this.lines.length; start += size) {
      await idle();
      if (signal.aborted && !this.isStopped) return;
      const text = this.lines.slice(start, start + size).map(shownText).join("\n");
      const tokens = splitHighlighted(hljs.highlight(text, { language, ignoreIllegals: true }).value);
      const next = [...this.tokens];
      for (const [index, line] of tokens.entries()) next[start + index] = line;
      this.tokens = next;
    }
  }
}

/** Return a line as it is shown: short, and with every invisible character named. */
export function shownText(line: string): string {
  const text = line.length > MAX_LINE_CHARS ? `${line.slice(0, MAX_LINE_CHARS)}…` : line;
  return nameInvisible(text.replaceAll("\r", "\u240d"));
}

function idle(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

function asError(reason: unknown): Error {
  return reason instanceof Error ? reason : new ApiError(-1, "error", String(reason));
}
