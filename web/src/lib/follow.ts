/** Follow a session that runs: read changes as lines of JSON, and reconnect when the stream ends. */

import { ApiError, type Change } from "../api";

const FIRST_DELAY_MS = 500;
const MAX_DELAY_MS = 15_000;
/** The server sends an empty line every 15 s: a stream without any for longer is dead. */
const SILENCE_MS = 40_000;

export type FollowState = "connecting" | "live" | "waiting";

export interface Following {
  open: (signal: AbortSignal) => Promise<Response>;
  onChange: (change: Change) => void;
  onState: (state: FollowState) => void;
  /** Wait between two connections; injected by tests. */
  sleep?: (ms: number, signal: AbortSignal) => Promise<void>;
}

/** Read the lines of a stream. A line may arrive in any number of pieces. */
export async function* readLines(
  stream: ReadableStream<Uint8Array>,
  onBytes: () => void = () => {},
): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  const reader = stream.getReader();
  let pieces: string[] = [];
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      onBytes();
      const lines = decoder.decode(value, { stream: true }).split("\n");
      for (const line of lines.slice(0, -1)) {
        pieces.push(line);
        const whole = pieces.join("");
        pieces = [];
        if (whole.trim()) yield whole;
      }
      pieces.push(lines.at(-1) ?? "");
    }
    const rest = pieces.join("").trim();
    if (rest) yield rest;
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** Return the delay before a reconnect: doubled each time, with jitter, up to 15 s. */
export function backoff(attempt: number, random = Math.random()): number {
  const delay = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 10));
  return Math.round(delay * (0.75 + 0.5 * random));
}

/** Follow until the signal aborts. Refusals end it; all else is tried again. */
export async function follow(following: Following, signal: AbortSignal): Promise<void> {
  const sleep = following.sleep ?? wait;
  let attempt = 0;
  while (!signal.aborted) {
    following.onState("connecting");
    const connection = new AbortController();
    const abort = () => connection.abort();
    signal.addEventListener("abort", abort);
    let watchdog: ReturnType<typeof setTimeout> | undefined;
    const restartWatchdog = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(abort, SILENCE_MS);
    };
    try {
      restartWatchdog();
      const response = await following.open(connection.signal);
      following.onState("live");
      if (response.body) {
        for await (const line of readLines(response.body, restartWatchdog)) {
          const change = parseChange(line);
          if (change) following.onChange(change);
          attempt = 0;
        }
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof ApiError && [400, 401, 403, 404, 422].includes(error.status)) throw error;
    } finally {
      clearTimeout(watchdog);
      signal.removeEventListener("abort", abort);
    }
    if (signal.aborted) return;
    following.onState("waiting");
    await sleep(backoff(attempt), signal);
    attempt += 1;
  }
}

/** Parse a line. Return null for one that is no change: a server that stopped may cut a line. */
export function parseChange(line: string): Change | null {
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? (value as Change)
      : null;
  } catch {
    return null;
  }
}

function wait(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });
}
