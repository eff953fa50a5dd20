/** The live stream of a page: one connection for all panels of a session, as browsers open six to a server. */

import type { Api, Change } from "../api";
import { api } from "./client";
import type { Conversation } from "./conversation.svelte";
import { follow, parseChange, readLines, type FollowState } from "./follow";

export class SessionStream {
  readonly session: string;
  state = $state<FollowState | "off">("off");
  /** The lists of the panels, loaded or not. */
  #all = $state.raw<readonly Conversation[]>([]);
  readonly #api: Pick<Api, "follow">;

  constructor(session: string, from: Pick<Api, "follow"> = api) {
    this.session = session;
    this.#api = from;
  }

  /** Follow one more list. Return the function that ends it. */
  add(conversation: Conversation): () => void {
    this.#all = [...this.#all, conversation];
    return () => (this.#all = this.#all.filter((one) => one !== conversation));
  }

  /** The lists that can be followed: loaded, and of the same reading of the log. */
  get loaded(): readonly Conversation[] {
    const loaded = this.#all.filter((one) => one.isLoaded);
    return loaded.filter((one) => one.generation === loaded[0]?.generation);
  }

  /** Follow these lists until the signal aborts. `onChange` gets each line after it was applied. */
  async run(lists: readonly Conversation[], onChange: (change: Change) => void, signal: AbortSignal): Promise<void> {
    signal.addEventListener("abort", () => (this.state = "off"));
    try {
      await follow(
        {
          open: (connection) => this.#open(lists, connection),
          onChange: (change) => {
            apply(lists, change);
            onChange(change);
          },
          onState: (next) => {
            if (!signal.aborted) this.state = next;
          },
        },
        signal,
      );
    } catch {
      // The server refuses to go on; the next look at the session tells why.
      this.state = "off";
    }
  }

  /** Read the changes of a log that nobody writes, up to a number of events. */
  async catchUp(lists: readonly Conversation[], events: number, controller: AbortController): Promise<void> {
    try {
      const response = await this.#open(lists, controller.signal);
      if (!response.body) return;
      for await (const line of readLines(response.body)) {
        const change = parseChange(line);
        if (change) apply(lists, change);
        if (lists.every((one) => one.events >= events)) break;
      }
    } catch {
      // The next look at the session tries again.
    } finally {
      controller.abort();
    }
  }

  #open(lists: readonly Conversation[], signal: AbortSignal): Promise<Response> {
    return this.#api.follow(this.session, [...lists], lists[0]?.generation ?? null, signal);
  }
}

function apply(lists: readonly Conversation[], change: Change): void {
  lists[change.panel ?? 0]?.apply(change);
}
