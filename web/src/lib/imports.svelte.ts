/** The import of the server, and what it found on the machine. They outlive their views. */

import type { Api } from "../api";
import { cancelImport, isRunningPhase, loadImport, loadSources, startImport, type ImportSource, type ImportState } from "../api/imports";
import { api } from "./client";

const POLL_MS = 400;
const IDLE_POLL_MS = 5_000;

export class Imports {
  state = $state.raw<ImportState | null>(null);
  sources = $state.raw<ImportSource[] | null>(null);
  error = $state.raw<Error | null>(null);
  readonly isRunning = $derived(isRunningPhase(this.state?.phase ?? "none"));
  /** The number of files that were never imported, or have changed since. */
  readonly newFiles = $derived((this.sources ?? []).reduce((sum, source) => sum + source.new_files, 0));
  #watchers = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #api: Api;

  constructor(from: Api = api) {
    this.#api = from;
  }

  /** Follow the state of the import until the returned function is called. */
  watch(): () => void {
    this.#watchers += 1;
    if (this.#watchers === 1) void this.#poll(true);
    return () => {
      this.#watchers -= 1;
      if (this.#watchers === 0) clearTimeout(this.#timer);
    };
  }

  async start(runtimes: string[]): Promise<void> {
    await this.#change(() => startImport(this.#api, runtimes));
  }

  async cancel(): Promise<void> {
    await this.#change(() => cancelImport(this.#api));
  }

  async reloadSources(): Promise<void> {
    try {
      this.sources = await loadSources(this.#api);
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error : new Error(String(error));
    }
  }

  async #change(send: () => Promise<ImportState>): Promise<void> {
    try {
      this.state = await send();
      this.error = null;
    } catch (error) {
      this.error = error instanceof Error ? error : new Error(String(error));
    }
    clearTimeout(this.#timer);
    if (this.#watchers) void this.#poll(false);
  }

  async #poll(needsSources: boolean): Promise<void> {
    const wasRunning = this.isRunning;
    try {
      this.state = await loadImport(this.#api);
    } catch {
      // The list of sessions tells that the server does not answer.
    }
    if (needsSources || (wasRunning && !this.isRunning)) await this.reloadSources();
    if (!this.#watchers) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#poll(false), this.isRunning ? POLL_MS : IDLE_POLL_MS);
  }
}

export const imports = new Imports();
