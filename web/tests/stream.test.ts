import { describe, expect, it } from "vitest";
import type { Change, ConversationItem, Generation, Range } from "../src/api";
import { Conversation } from "../src/lib/conversation.svelte";
import { SessionStream } from "../src/lib/stream.svelte";

const said = (text: string): ConversationItem => ({ message_id: text, time: "", label: "Said", parts: [{ kind: "text", text, length: text.length }] });

/** A server whose streams send what a test says, and which notes the requests for them. */
class Server {
  asked: { agents: string[]; events: number }[][] = [];
  send: (change: Change) => void = () => {};
  end: () => void = () => {};
  generation: Generation = "a";
  open = 0;

  list = async (): Promise<Range<ConversationItem>> => ({ total: 1, events: 5, generation: this.generation, items: [said("old")] });
  items = this.list;
  dialog = this.list;
  find = async () => ({ agent: "agent_001", index: 0 });
  follow = async (_name: string, panels: { agents: string[]; events: number }[], _generation: Generation, signal: AbortSignal) => {
    this.asked.push(panels.map(({ agents, events }) => ({ agents, events })));
    this.open += 1;
    const encoder = new TextEncoder();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.send = (change) => controller.enqueue(encoder.encode(`${JSON.stringify(change)}\n`));
        this.end = () => controller.close();
        signal.addEventListener("abort", () => ((this.open -= 1), controller.error(new Error("aborted"))));
      },
    });
    return new Response(body);
  };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 5));

async function open(from: Server, ...panels: string[][]): Promise<Conversation[]> {
  const lists = panels.map((agents) => new Conversation("s", agents, from));
  await Promise.all(lists.map((list) => list.open()));
  return lists;
}

describe("the stream of a page", () => {
  it("brings the changes of all panels over one connection", async () => {
    const from = new Server();
    const lists = await open(from, ["agent_001"], ["agent_001", "agent_002"]);
    const stream = new SessionStream("s", from);
    lists.forEach((list) => stream.add(list));
    const controller = new AbortController();
    const seen: Change[] = [];
    void stream.run(stream.loaded, (change) => seen.push(change), controller.signal);
    await settle();
    expect(from.asked).toEqual([[{ agents: ["agent_001"], events: 5 }, { agents: ["agent_001", "agent_002"], events: 5 }]]);
    from.send({ panel: 1, events: 6, resume: 6, total: 2, generation: "a", items: [{ index: 1, item: said("new") }] });
    from.send({ panel: 0, events: 6, resume: 6, total: 1, generation: "a", items: [], is_live: true });
    await settle();
    expect(lists.map((list) => [list.total, list.events])).toEqual([[1, 6], [2, 6]]);
    expect([seen.length, from.open, stream.state]).toEqual([2, 1, "live"]);
    controller.abort();
    expect([from.open, stream.state]).toEqual([0, "off"]);
  });

  it("follows lists that are loaded, and of one reading of the log", async () => {
    const from = new Server();
    const [first, other] = await open(from, ["agent_001"], ["agent_002"]);
    const stream = new SessionStream("s", from);
    const absent = new Conversation("s", ["agent_003"], from);
    const ends = [first, absent, other].map((list) => list && stream.add(list));
    expect(stream.loaded).toEqual([first, other]);
    other?.checkGeneration("b");
    expect(stream.loaded).toEqual([first]);
    ends[0]?.();
    expect(stream.loaded).toEqual([]);
  });

  it("ends when all lists have caught up", async () => {
    const from = new Server();
    const lists = await open(from, ["agent_001"], ["agent_002"]);
    const stream = new SessionStream("s", from);
    const caughtUp = stream.catchUp(lists, 7, new AbortController());
    await settle();
    for (const panel of [0, 1]) from.send({ panel, events: 7, resume: 7, total: 1, generation: "a", items: [] });
    await caughtUp;
    expect([lists.map((list) => list.events), from.open]).toEqual([[7, 7], 0]);
  });
});
