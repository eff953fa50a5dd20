import { describe, expect, it } from "vitest";
import { ApiError, type Change } from "../src/api";
import { backoff, follow, parseChange, readLines } from "../src/lib/follow";

function stream(...chunks: string[]): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(encoder.encode(chunk));
      controller.close();
    },
  });
}
async function collect(source: ReadableStream<Uint8Array>): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of readLines(source)) lines.push(line);
  return lines;
}

describe("readLines", () => {
  it("joins lines that arrive in pieces, and skips empty ones", async () => {
    expect(await collect(stream('{"a"', ":1}\n\n", '{"b":2}\n{"c"', ":", "3}"))).toEqual(['{"a":1}', '{"b":2}', '{"c":3}']);
  });
  it("joins a character that two chunks share", async () => {
    const bytes = new TextEncoder().encode("é\n");
    const source = new ReadableStream<Uint8Array>({
      start(controller) {
        controller.enqueue(bytes.slice(0, 1));
        controller.enqueue(bytes.slice(1));
        controller.close();
      },
    });
    expect(await collect(source)).toEqual(["é"]);
  });
});

describe("follow", () => {
  it("continues after the last event when the connection breaks", async () => {
    const controller = new AbortController();
    const seen: Change[] = [];
    const opened: number[] = [];
    let events = 3;
    const answers = [stream('{"events":4}\n{"events":5}\n{"ev'), null, stream('{"events":6}\n')];
    await follow(
      {
        open: async () => {
          opened.push(events);
          const body = answers[opened.length - 1];
          if (body === undefined) controller.abort();
          if (!body) throw new ApiError(0, "unreachable", "no");
          return new Response(body);
        },
        onChange: (change) => {
          seen.push(change);
          events = change.events ?? events;
        },
        onState: () => {},
        sleep: async () => {},
      },
      controller.signal,
    );
    expect(seen.map((change) => change.events)).toEqual([4, 5, 6]);
    expect(opened).toEqual([3, 5, 5, 6]);
  });

  it("ends when the server refuses", async () => {
    const refusal = follow(
      {
        open: () => Promise.reject(new ApiError(401, "unauthorized", "no")),
        onChange: () => {},
        onState: () => {},
        sleep: async () => {},
      },
      new AbortController().signal,
    );
    await expect(refusal).rejects.toThrow("no");
  });

  it("waits longer each time, up to a limit", () => {
    const delays = Array.from({ length: 12 }, (_, attempt) => backoff(attempt, 0.5));
    expect(delays[0]).toBe(500);
    expect(delays.every((delay, index) => index === 0 || delay >= (delays[index - 1] ?? 0))).toBe(true);
    expect(delays.at(-1)).toBe(15_000);
  });

  it("takes no line that is no change", () => {
    for (const line of ["", "{", "null", "[1]", "3", '"x"']) expect(parseChange(line)).toBeNull();
  });
});
