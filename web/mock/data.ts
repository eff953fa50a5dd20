/** Sessions for development and tests: one of each kind that the page has to show well. */

import type {
  CallPart, ConversationItem, Hop, Intervention, MessageDetails, RequestStep, SessionSummary, StepDetails, TextSpan,
  TimelineRange, TreeRow,
} from "../src/api";

export interface MockSession {
  summary: SessionSummary;
  agents: TreeRow[];
  items: Record<string, ConversationItem[]>;
  steps: RequestStep[];
}

const START = Date.parse("2026-03-02T09:00:00Z");
const at = (seconds: number) => new Date(START + seconds * 1000).toISOString();

function agent(id: number, name: string, depth: number, parent: string | null, place: TreeRow["place"] = "subagent", more: Partial<TreeRow> = {}): TreeRow {
  return {
    agent_id: `agent_${String(id).padStart(3, "0")}`, name, depth, parent, place,
    language_model: "claude-sonnet-4-5", birth: `msg_${String(id).padStart(3, "0")}`,
    entries: 4 + id, model_calls: id, tokens: 1200 * id, cost_usd: 0.012 * id, ...more,
  };
}

const text = (value: string, length = value.length) => ({ kind: "text" as const, text: value, length, position: 0 });

function call(id: string, name: string, args: unknown, subject: string, result: string | null, more: Partial<CallPart> = {}): CallPart {
  const written = JSON.stringify(args);
  return {
    kind: "call", id, name, subject, arguments: written, length: written.length, position: 1,
    result: result === null ? null : { message_id: `msg_r_${id}`, time: at(90), text: result, length: result.length, is_error: false, closed: null, images: [] },
    diff: null, agents: [], rewritten: null, ...more,
  };
}

let counter = 0;
function item(label: ConversationItem["label"], author: TreeRow | "user" | null, parts: ConversationItem["parts"], more: Partial<ConversationItem> = {}): ConversationItem {
  counter += 1;
  const isUser = author === "user";
  return {
    message_id: `msg_${String(counter).padStart(3, "0")}`, time: at(counter * 7), label, note: null, purpose: null, original: null,
    author: isUser ? "user" : (author?.agent_id ?? null), author_name: isUser ? "user" : (author?.name ?? null), parts, ...more,
  };
}

const spans = (before: string, dropped: string, added: string, after: string): TextSpan[] => [
  { kind: "same", text: before }, { kind: "dropped", text: dropped }, { kind: "added", text: added }, { kind: "same", text: after },
];

export const RED_PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC", "base64");

const DIFF = `--- src/parser.py
+++ src/parser.py
@@ -10,9 +10,12 @@
 def parse(text: str) -> Tree:
     """Parse an expression."""
-    tokens = text.split()
-    return build(tokens)
+    tokens = [*tokenize(text)]
+    if not tokens:
+        raise ValueError("empty expression")
+    return build(tokens)
 
 
 def build(tokens: list[str]) -> Tree:`;

function parserSession(): MockSession {
  counter = 0;
  const main = agent(1, "main", 0, null, "primary", { model_calls: 9, tokens: 48_210, cost_usd: 0.2134, entries: 31 });
  const guard = agent(2, "Guard", 1, "agent_001", "hook", { verdicts: 3, model_calls: 3 });
  const explorer = agent(3, "Explorer", 1, "agent_001", "subagent", { task: "Find where expressions are parsed", gone: true });
  const tester = agent(4, "Test writer", 1, "agent_001", "subagent", { task: "Write tests" });
  const style = agent(5, "style-check", 2, "agent_004", "hook", { language_model: null, verdicts: 1, model_calls: 0 });
  const reader = agent(6, "Reader", 2, "agent_004", "subagent");
  const reviewer = agent(7, "Reviewer", 1, "agent_001", "subagent");
  const items: Record<string, ConversationItem[]> = {};
  items.agent_001 = [
    item("System", null, [text("You are a careful engineer. Work in small steps.\n\n- Read before you write.\n- Run the tests after each change.\n- Ask when a requirement is unclear.")], { author_name: "Harken" }),
    item("Heard", "user", [text("The parser accepts an empty expression and then crashes in `build`. Please fix it and add a test. Also tell me whether `(1` should be an error.")]),
    item("Thought", main, [text("I should look at the parser first. An explorer can find the places while I read the tests.\n\nThe crash is probably an `IndexError` in `build`.")]),
    item("Action", main, [
      text("I look at how expressions are parsed first."),
      call("c1", "task", { name: "Explorer", prompt: "Find where expressions are parsed" }, "Explorer: Find where expressions are parsed", "Explorer is ready.", { agents: ["agent_003"] }),
      call("c2", "bash", { command: "grep -rn 'def parse' src | head" }, "grep -rn 'def parse' src | head", "src/parser.py:10:def parse(text: str) -> Tree:\nsrc/parser.py:31:def parse_number(token: str) -> int:\n\u001b[32msrc/cli.py:8\u001b[0m:def parse_arguments():"),
      call("c3", "read_file", { path: "src/parser.py" }, "src/parser.py", Array.from({ length: 140 }, (_, line) => `${String(line + 1).padStart(4)}  ${["def parse(text):", "    tokens = text.split()", "    return build(tokens)", ""][line % 4]}`).join("\n")),
    ]),
    item("Heard", explorer, [text("`parse` in `src/parser.py` is the only entry point. `build` pops from an empty list:\n\n```python\ndef build(tokens: list[str]) -> Tree:\n    head = tokens.pop(0)  # IndexError if empty\n    return Tree(head, [build(tokens) for _ in range(arity(head))])\n```\n\n| function | line | called by |\n|:--|--:|:--|\n| `parse` | 10 | cli, tests |\n| `build` | 22 | `parse`, itself |\n\nSee https://docs.python.org/3/tutorial/errors.html for the conventions.")]),
    item("Action", main, [call("c4", "edit_file", { path: "src/parser.py", old_string: "tokens = text.split()", new_string: "tokens = [*tokenize(text)]" }, "src/parser.py", "Replaced 1 occurrence.", { diff: DIFF, diff_length: 90_000, is_diff_partial: true, other_arguments: '{"replace_all": true, "id": 1234567890123456789}', other_length: 48 })]),
    item("Action", main, [
      call("c5", "bash", { command: "rm -rf build && python -m pytest -q" }, "rm -rf build && python -m pytest -q", "..F\n1 failed, 2 passed in 0.12s", {
        rewritten: { message_id: "msg_rw", name: "bash", arguments: '{"command":"python -m pytest -q"}', length: 33, spans: spans('{"command":"', "rm -rf build && ", "", 'python -m pytest -q"}') },
        result: { message_id: "msg_r_c5", time: at(110), text: "..F\n1 failed, 2 passed in 0.12s", length: 31, is_error: true, closed: null, images: [] },
      }),
      call("c6", "browser_screenshot", { url: "http://localhost:8000/coverage" }, "http://localhost:8000/coverage", "", {
        result: { message_id: "msg_r_c6", time: at(120), text: "Screenshot of the coverage report", length: 33, is_error: false, closed: null, images: [{ kind: "image", hash: "red", media_type: "image/png", size: 1_240, is_shown: true }] },
      }),
      call("c7", "bash", { command: "git push --force" }, "git push --force", "Denied: no pushes in this session.", { result: { message_id: "msg_r_c7", time: at(121), text: "Denied: no pushes in this session.", length: 34, is_error: true, closed: "denied", images: [] } }),
    ]),
    item("Draft", main, [text("Fixed. The user's test was wrong anyway, so I deleted it.")], { note: "denied by Guard" }),
    item("Heard", guard, [text("Do not delete tests of the user. Restore it and fix the parser.")], { purpose: "returned" }),
    item("Thought", main, [text("Right, the test stays. `(1` has no closing parenthesis, so `parse` should raise.")]),
    item("Draft", main, [
      text("Done: an empty expression is now a `ValueError`, honestly the old code was garbage. `(1` is an error too."),
      { kind: "rewritten", text: "", length: 90, spans: spans("Done: an empty expression is now a `ValueError`", ", honestly the old code was garbage", "", ". `(1` is an error too."), hook: "agent_002", hook_name: "Guard" },
    ], { note: "rewritten by Guard" }),
    item("Heard", "user", [text("Thanks. Show me the final function.")]),
    item("Said", main, [text("Here it is:\n\n```python\ndef parse(text: str) -> Tree:\n    \"\"\"Parse an expression.\n\n    Raises ValueError if it is empty, or a parenthesis is missing.\n    \"\"\"\n    tokens = [*tokenize(text)]\n    if not tokens:\n        raise ValueError(\"empty expression\")\n    tree = build(tokens)\n    if tokens:\n        raise ValueError(f\"unexpected {tokens[0]!r}\")\n    return tree\n```\n\nAll **14 tests** pass:\n\n1. `test_empty` covers the crash.\n2. `test_open_parenthesis` covers `(1`.\n\n> An expression of spaces only counts as empty.")]),
  ];
  items.agent_002 = [
    item("System", null, [text("You watch the main agent. Deny answers that harm the user's work.")], { author_name: "Harken" }),
    item("Heard", main, [text("[main]: Fixed. The user's test was wrong anyway, so I deleted it.")], { purpose: "question" }),
    item("Verdict", guard, [text("DENY: Do not delete tests of the user. Restore it and fix the parser.")], { note: "response of main" }),
    item("Verdict", guard, [text("REWRITE: Done: an empty expression is now a `ValueError`. `(1` is an error too.")], { note: "response of main" }),
  ];
  items.agent_003 = [
    item("Heard", main, [text("[main]: Find where expressions are parsed")]),
    item("Action", explorer, [call("e1", "bash", { command: "rg 'parse\\('" }, "rg 'parse\\('", "src/cli.py:30: tree = parse(line)")]),
    item("Said", explorer, [text("`parse` in `src/parser.py` is the only entry point.")]),
    item("Stopped", explorer, [text("")], { note: "terminated" }),
  ];
  items.agent_004 = [
    item("Heard", main, [text("[main]: Write tests for empty expressions and for `(1`.")]),
    item("Said", tester, [text("Two tests, both fail before the change and pass after it.")]),
  ];
  items.agent_005 = [item("Verdict", style, [text("OK")], { note: "action of Test writer" })];
  items.agent_006 = [];
  items.agent_007 = [item("Heard", main, [text("[main]: Review the diff.")]), item("Said", reviewer, [text("Looks right. One question: should a tab count as space?")])];
  return {
    summary: { name: "2026-03-02-parser", title: "Fix the crash of the parser on empty expressions", runtime: "harken", project: "/home/ann/code/calc", began: at(0), ended: at(840), state: "ended", is_live: false, agents: 7, messages: counter, cost_usd: 0.2134 },
    agents: [main, guard, explorer, tester, style, reader, reviewer], items, steps: makeSteps(main, 9),
  };
}

function makeSteps(owner: TreeRow, count: number): RequestStep[] {
  return Array.from({ length: count }, (_, index) => ({
    number: index + 1, of_agent: index + 1, request: `msg_q${index + 1}`, agent_id: owner.agent_id, name: owner.name, time: at(20 + index * 60),
    model: "claude-sonnet-4-5", messages: 2 + index * 2 - (index > 6 ? 9 : 0), evidence: index === 3 ? "rebuilt" : "recorded", missing: index === 3 ? ["tools"] : [],
    ended: true, stop_reason: index === count - 1 ? "end_turn" : "tool_use", latency_s: 1.5 + (index % 4), cost_usd: 0.01 + 0.004 * index,
    usage: { input_tokens: 1_500 + 900 * index - (index > 6 ? 5000 : 0), output_tokens: 180 + 37 * (index % 5), cache_read_tokens: 900 * index },
  }));
}

export function makeBigSession(count: number): MockSession {
  counter = 0;
  const main = agent(1, "main", 0, null, "primary", { entries: count });
  const items = Array.from({ length: count }, (_, index) => {
    const kind = index % 5;
    if (kind === 0) return item("Heard", "user", [text(`Request ${index}: `.padEnd(30 + (index % 7) * 60, "please look at this again "))]);
    if (kind === 1) return item("Thought", main, [text(`Thought ${index}: compare both versions.`)]);
    if (kind < 4) return item("Action", main, [call(`b${index}`, "bash", { command: `make step-${index}` }, `make step-${index}`, `step ${index} done\n`.repeat(1 + (index % 9)))]);
    return item("Said", main, [text(`Answer ${index}.\n\n${"It works as described. ".repeat(1 + (index % 12))}`)]);
  });
  return {
    summary: { name: "big", title: `A long session of ${count} messages`, runtime: "claude-code", project: "/home/ann/code/engine", began: at(-90_000), ended: at(-4_000), state: "ended", agents: 1, messages: count, cost_usd: 41.7 },
    agents: [main], items: { agent_001: items }, steps: makeSteps(main, 300),
  };
}

function hostileSession(): MockSession {
  counter = 0;
  const main = agent(1, "<img src=x onerror=alert(1)>\u202egpj.exe", 0, null, "primary");
  const attacks = [
    "<script>window.attacked = 1</script><img src=x onerror='window.attacked=1'>",
    "[click](javascript:window.attacked=1) [data](data:text/html,<script>window.attacked=1</script>) [ok](https://example.org/\"onmouseover=alert(1))",
    "![pixel](https://evil.example/pixel.png?read=1) and <https://example.org> and ![x](javascript:alert(1))",
    "right to left: \u202egnp.exe\u202c, hidden: \u{e0041}\u{e0042}, zero\u200bwidth, red: \u001b[31mred\u001b[0m, title: \u001b]0;owned\u0007, link \u001b]8;;https://evil.example\u001b\\text\u001b]8;;\u001b\\",
    `\`\`\`html\n<script>alert(1)</script>\n\`\`\`\n${"[".repeat(5000)}`,
    `| a | b |\n|:-:|--:|\n| <b>x</b> | 2 |\n\n<style>body{display:none}</style><svg onload=alert(1)>`,
  ];
  const line = "0123456789abcdef".repeat(4096);
  return {
    summary: { name: "hostile <script>", title: "<script>alert(1)</script> \u202eevil", runtime: "codex", project: "/tmp/<b>", began: at(-200), ended: at(-100), state: "cut off?", agents: 1, messages: attacks.length, cost_usd: null },
    agents: [main],
    items: {
      agent_001: [
        ...attacks.map((attack) => item("Said", main, [text(attack)])),
        item("Action", main, [{ ...call("h1", "cat", { path: "big.bin" }, "big.bin", ""), result: { message_id: "msg_big", time: at(1), text: line, length: 10_000_000, is_error: false, closed: null, images: [{ kind: "image", hash: null, media_type: null, size: null, is_shown: false, url: "https://evil.example/i.png" }] } }]),
      ],
    },
    steps: [],
  };
}

/** A session that gets a message each second while a page follows it. */
export function makeLiveSession(): MockSession {
  const big = makeBigSession(40);
  return { ...big, summary: { ...big.summary, name: "live", title: "A session that runs now", is_live: true, state: "being written", began: new Date(Date.now() - 60_000).toISOString(), ended: null } };
}
export function makeLiveItem(index: number): ConversationItem {
  counter = 10_000 + index;
  const owner = agent(1, "main", 0, null);
  return index % 3
    ? item("Action", owner, [call(`l${index}`, "bash", { command: `make live-${index}` }, `make live-${index}`, null)])
    : item("Said", owner, [text(`Live message ${index}.`)]);
}

export function makeSessions(): Map<string, MockSession> {
  const all = [makeLiveSession(), parserSession(), makeBigSession(10_000), hostileSession()];
  for (let index = 0; index < 240; index += 1) {
    const base = makeBigSession(3);
    all.push({ ...base, summary: { ...base.summary, name: `session-${index}`, title: ["Rename the flags of the release script", "Why does the cache miss?", "Write the changelog", null][index % 4] ?? null, runtime: ["harken", "claude-code", "codex"][index % 3] ?? null, project: `/home/ann/code/${["calc", "engine", "site"][index % 3]}`, began: at(-90_000 - index * 40_000), ended: at(-89_000 - index * 40_000 + (index % 50) * 40), messages: 3 + (index * 37) % 900, cost_usd: index % 5 ? (index % 13) * 0.31 : null } });
  }
  return new Map(all.map((session) => [session.summary.name, session]));
}

export function makeDetails(session: MockSession, id: string): MessageDetails | null {
  const everything = Object.entries(session.items).flatMap(([owner, items]) => items.map((one) => ({ owner, one })));
  const found = everything.find(({ one }) => one.message_id === id);
  if (!found) return null;
  const hop = (index: number, via: Hop["via"], hops: number, source: string): Hop[] => {
    const other = everything[index];
    if (!other || other.one.message_id === id) return [];
    const part = other.one.parts[0];
    return [{ message_id: other.one.message_id, hops, via, source, agent_id: other.owner, name: session.agents.find((row) => row.agent_id === other.owner)?.name ?? null, event_type: "transcript_entry", role: "user", content: part?.kind === "text" ? part.text : "", time: other.one.time, differs: index === 10 }];
  };
  const position = everything.indexOf(found);
  /** A message that an agent heard is the same as one of its author; others follow from the one before. */
  const makeOrigins = (): Hop[] => {
    const { author, label } = found.one;
    const original = label === "Heard" && author !== "user" ? everything.findIndex(({ owner }) => owner === author) : -1;
    if (original >= 0) return hop(original, "substance", 1, id);
    if (position < 2 || label === "Heard") return [];
    return [...hop(1, "cause", 2, everything[position - 1]?.one.message_id ?? ""), ...hop(position - 1, "cause", 1, id)];
  };
  const intervention: Intervention[] = found.one.parts.flatMap((part) => part.kind === "rewritten" ? [{ kind: "message" as const, message_id: id, name: "main", proposed: "a", became: "b", became_id: "msg_012", heard_by: "user", heard_by_name: "user", time: at(99), spans: part.spans }] : []);
  return {
    message: { message_id: id, event_type: "transcript_entry", agent_id: found.owner, time: found.one.time, role: found.one.label === "Heard" ? "user" : "assistant", content: "…" },
    readers: { agent: found.owner, steps: [3, 4, 5], is_more: true },
    origins: makeOrigins(),
    hearers: hop(position + 3, "substance", 1, id),
    effects: [...hop(position + 1, "cause", 1, id), ...hop(position + 3, "substance", 1, id), ...hop(position + 4, "cause", 2, everything[position + 3]?.one.message_id ?? id)],
    interventions: intervention,
  };
}

export function makeStep(session: MockSession, number: number): StepDetails | null {
  const step = session.steps[number - 1];
  if (!step) return null;
  const roles = ["system", "user", "assistant", "tool"];
  return {
    step,
    changes: {
      previous: number > 1 ? `msg_q${number - 1}` : null, kept: Math.max(0, step.messages - 2), model: null,
      edits: number === 8 ? [{ kind: "compacted", message_id: "msg_050", summary: "msg_051" }] : [],
      tools: number === 5 ? [{ name: "web_search", kind: "added" }] : [], parameters: [],
      messages: [
        ...(number === 8 ? [{ kind: "dropped" as const, before: 3, heading: "tool bash", text: "src/parser.py:10: def parse(text)" }] : []),
        ...(number === 6 ? [{ kind: "changed" as const, before: 0, after: 0, heading: "system", text: "You are a careful engineer.", spans: spans("You are a ", "fast", "careful", " engineer.") }] : []),
        { kind: "added" as const, after: step.messages - 1, heading: "tool bash", text: "1 failed, 2 passed in 0.12s" },
      ],
    },
    result: { answer_id: `msg_a${number}`, answer: { role: "assistant", content: "I run the tests next." }, ran: [{ call: "c", tool: "bash", arguments: '{"command":"pytest -q"}', result: "2 passed" }], rewritten: [] },
    messages: Array.from({ length: step.messages }, (_, position) => ({ position, message_id: `msg_${String(position + 1).padStart(3, "0")}`, new: position >= step.messages - 2, message: { role: position === 0 ? "system" : roles[1 + (position % 3)], content: position === 0 ? "You are a careful engineer. Work in small steps." : `Message ${position} of the context.\n\n${"Some text that the model read. ".repeat(position % 6)}` } })),
    commands: {},
  };
}

export function makeTimeline(session: MockSession, from: number, limit: number): TimelineRange {
  const order = session.agents.map((row) => row.agent_id).filter((id) => session.items[id]?.length);
  const events = Object.entries(session.items)
    .flatMap(([owner, items]) => items.map((one) => ({ owner, one })))
    .sort((left, right) => left.one.time.localeCompare(right.one.time))
    .map(({ owner, one }, index) => ({
      message_id: one.message_id, time: one.time, turn: 1 + Math.floor(index / 20), lane: order.indexOf(owner), event_type: "transcript_entry",
      source_agent: one.label === "Heard" && one.author !== "user" ? (one.author ?? null) : null,
      role: one.label === "Heard" ? "user" : "assistant", text: `${one.label}: ${one.parts[0]?.kind === "text" ? one.parts[0].text : one.parts[0]?.kind === "call" ? one.parts[0].subject : ""}`,
    }));
  return {
    lanes: order.map((id) => ({ agent_id: id, name: session.agents.find((row) => row.agent_id === id)?.name ?? id, first: session.items[id]?.[0]?.message_id ?? "", last: session.items[id]?.at(-1)?.message_id ?? "", events: session.items[id]?.length ?? 0 })),
    total: events.length, events: events.slice(from, from + limit),
  };
}
