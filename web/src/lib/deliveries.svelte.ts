/** Which agent a message of the timeline came from, looked up for the events in view. */

import { SvelteMap } from "svelte/reactivity";
import type { TimelineEvent } from "../api";
import { api } from "./client";

const PAUSE_MS = 150;
const AT_ONCE = 3;

export class Deliveries {
  readonly #session: string;
  readonly #agents = new SvelteMap<string, string | null>();
  readonly #controller = new AbortController();
  #wanted: string[] = [];
  #running = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(session: string) {
    this.#session = session;
  }

  /** Return the agent whose message an event delivers. Return null if it is none, or not known yet. */
  sourceOf(event: TimelineEvent): string | null {
    return this.#agents.get(event.message_id) ?? null;
  }

  /** Look up these events, once scrolling rests. Earlier requests for others are dropped. */
  look(events: TimelineEvent[]): void {
    this.#wanted = events
      .filter((event) => event.event_type === "transcript_entry" && event.role !== "assistant" && event.role !== "system")
      .map((event) => event.message_id)
      .filter((id) => !this.#agents.has(id));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#fill(), PAUSE_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#controller.abort();
  }

  #fill(): void {
    while (this.#running < AT_ONCE) {
      const id = this.#wanted.shift();
      if (id === undefined) return;
      if (this.#agents.has(id)) continue;
      this.#running += 1;
      void this.#lookUp(id).finally(() => {
        this.#running -= 1;
        if (!this.#controller.signal.aborted) this.#fill();
      });
    }
  }

  async #lookUp(id: string): Promise<void> {
    try {
      const { origins } = await api.message(this.#session, id, this.#controller.signal);
      const direct = origins.filter((hop) => (hop.hops ?? 1) === 1 && hop.via !== "call");
      const hop = direct.find(({ via }) => via === "substance") ?? direct[0];
      this.#agents.set(id, hop?.agent_id ?? null);
    } catch {
      // Without an answer there is no arrow.
    }
  }
}
