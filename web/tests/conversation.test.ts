import { describe, expect, it } from "vitest";
import type { ConversationItem, Generation, Params, Range } from "../src/api";
import { Conversation } from "../src/lib/conversation.svelte";

function said(text: string, id = text): ConversationItem {
  return { message_id: id, time: "", label: "Said", parts: [{ kind: "text", text, length: text.length }] };
}
function textOf(item: ConversationItem | undefined): string {
  const part = item?.parts[0];
  return part?.kind === "text" ? part.text : "";
}

/** A server of which each answer is computed at once and delivered when the test says so. */
class Server {
  log: string[] = [];
  events = 0;
  generation: Generation = "a";
  budget = 1_000;
  holds = false;
  asked: [number, number][] = [];
  readonly held: (() => void)[] = [];

  /** How many items are known to an answer that does not wait. */
  soon: number | null = null;

  items = (_name: string, _agent: string, window: Params): Promise<Range<ConversationItem>> => {
    const [from, limit] = [Number(window.from), Number(window.limit)];
    this.asked.push([from, limit]);
    if (window.soon && this.soon !== null) {
      const first = this.log.slice(0, this.soon).map((text, at) => said(text, `m${at}`));
      return Promise.resolve({ total: first.length, events: first.length, generation: this.generation, is_complete: false, items: first });
    }
    const items = this.log.slice(from, from + Math.min(limit, this.budget)).map((text, at) => said(text, `m${from + at}`));
    const answer = { total: this.log.length, events: this.events, generation: this.generation, items };
    if (!this.holds) return Promise.resolve(answer);
    return new Promise((resolve) => this.held.push(() => resolve(answer)));
  };
  dialog = async (_name: string, _agents: string[], window: Params): Promise<Range<ConversationItem>> => {
    const [from, limit] = [Number(window.from), Number(window.limit)];
    const items = this.log.slice(from, from + limit).map((text, at) => said(text, `m${from + at}`));
    return { total: this.log.length, events: this.events, generation: this.generation, items };
  };
  find = async (_name: string, message: string) => ({ agent: "agent_001", index: Number(message.slice(1)) });
}
const settle = () => new Promise((resolve) => setTimeout(resolve));

function server(count: number): Server {
  const made = new Server();
  made.log = Array.from({ length: count }, (_, index) => `text ${index}`);
  made.events = count;
  return made;
}

describe("a conversation", () => {
  it("keeps the newer of two answers, whichever arrives last", async () => {
    const from = server(150);
    const conversation = new Conversation("s", ["agent_001"], from);
    await conversation.open();
    from.holds = true;
    const page = conversation.ensure(100, 149);
    conversation.apply({ events: 151, total: 150, generation: "a", items: [{ index: 140, item: said("with its result") }] });
    from.held.forEach((deliver) => deliver());
    await page;
    expect(textOf(conversation.get(140))).toBe("with its result");
    expect(textOf(conversation.get(141))).toBe("text 141");
    conversation.apply({ events: 152, items: [{ index: 140, item: said("newer") }] });
    expect(textOf(conversation.get(140))).toBe("newer");
  });

  it("goes on after the last batch of changes that arrived completely", async () => {
    const conversation = new Conversation("s", ["agent_001"], server(5));
    await conversation.open();
    conversation.apply({ events: 9, resume: 5, total: 7, generation: "a", items: [{ index: 5, item: said("x") }] });
    expect([conversation.events, conversation.total, conversation.generation]).toEqual([5, 7, "a"]);
    conversation.apply({ events: 9, resume: 9, total: 7, generation: "a", items: [{ index: 6, item: said("y") }] });
    expect(conversation.events).toBe(9);
  });

  it("is read again when the log was replaced, also by a shorter one", async () => {
    const from = server(120);
    const conversation = new Conversation("s", ["agent_001"], from);
    await conversation.open();
    await conversation.ensure(100, 119);
    Object.assign(from, { log: ["[purged]"], events: 121, generation: "b" });
    conversation.apply({ events: 121, total: 1, generation: "b", items: [] });
    await settle();
    expect([conversation.total, textOf(conversation.get(0)), conversation.get(1), conversation.events]).toEqual([1, "[purged]", undefined, 121]);
    Object.assign(from, { log: ["short"], events: 1, generation: "c" });
    expect(conversation.checkGeneration("c")).toBe(false);
    await settle();
    expect([conversation.events, textOf(conversation.get(0))]).toEqual([1, "short"]);
    expect(conversation.checkGeneration("c")).toBe(true);
  });

  it("drops answers that the replaced log gave", async () => {
    const from = server(150);
    const conversation = new Conversation("s", ["agent_001"], from);
    await conversation.open();
    from.holds = true;
    void conversation.ensure(100, 149);
    from.holds = false;
    Object.assign(from, { log: ["[purged]"], generation: "b" });
    conversation.checkGeneration("b");
    await settle();
    from.held.forEach((deliver) => deliver());
    await settle();
    expect([conversation.total, conversation.get(140), textOf(conversation.get(0))]).toEqual([1, undefined, "[purged]"]);
    expect(from.asked).toEqual([[0, 100], [100, 100], [0, 100]]);
  });

  it("notices a replaced log in a range", async () => {
    const from = server(150);
    const conversation = new Conversation("s", ["agent_001"], from);
    await conversation.open();
    Object.assign(from, { log: Array.from({ length: 150 }, () => "[purged]"), generation: "b" });
    await conversation.ensure(100, 149);
    await settle();
    expect(textOf(conversation.get(0))).toBe("[purged]");
  });

  it("continues where an answer ended early", async () => {
    const from = server(130);
    from.budget = 40;
    const conversation = new Conversation("s", ["agent_001"], from);
    await conversation.open();
    expect(from.asked).toEqual([[0, 100], [40, 60], [80, 20]]);
    await conversation.ensure(125, 129);
    expect(textOf(conversation.get(129))).toBe("text 129");
    from.budget = 0;
    conversation.apply({ events: 200, total: 300 });
    await conversation.ensure(250, 260);
    expect(from.asked.length).toBeLessThan(10);
  });

  it("of a long log is shown while it is being read", async () => {
    const from = server(250);
    from.soon = 40;
    const conversation = new Conversation("s", ["agent_001"], from);
    from.holds = true;
    void conversation.open();
    await settle();
    expect([conversation.isShown, conversation.isLoaded, conversation.total, conversation.events]).toEqual([true, false, 40, 0]);
    from.held.forEach((deliver) => deliver());
    await settle();
    expect([conversation.isLoaded, conversation.total, conversation.events]).toEqual([true, 250, 250]);
    expect(from.asked).toEqual([[0, 100], [0, 100]]);
  });

  it("of several agents follows changes of any position", async () => {
    const from = server(150);
    const conversation = new Conversation("s", ["agent_001", "agent_002"], from);
    await conversation.open();
    const item: ConversationItem = { ...said("no", "m95"), label: "Draft" };
    conversation.apply({ events: 151, total: 151, items: [{ index: 95, item }, { index: 150, item: said("yes") }] });
    expect([conversation.get(95)?.label, conversation.get(150)?.label, conversation.total]).toEqual(["Draft", "Said", 151]);
  });
});
