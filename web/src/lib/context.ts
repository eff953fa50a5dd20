/** The messages of a model call as rows of text, as the model read them. */

import type { ContextMessage, RequestStep, StepDetails } from "../api";

export interface Block {
  kind: "text" | "thinking" | "call" | "image" | "other";
  title: string | null;
  text: string;
  length: number;
  /** The position of the part in the message, in requests for the whole text. */
  part: number | null;
}

export type ContextRow =
  | { kind: "heading"; key: string; title: string; detail: string }
  | { kind: "change"; key: string; title: string; detail: string; change: NonNullable<NonNullable<StepDetails["changes"]>["messages"]>[number] }
  | { kind: "setting"; key: string; title: string; setting: { name: string; kind: string; spans?: { kind: "same" | "dropped" | "added"; text: string }[] } }
  | { kind: "message"; key: string; index: number; message: ContextMessage | null }
  | { kind: "result"; key: string };

type Json = Record<string, unknown>;

/** Return the parts of a message in the order in which a model reads them. Accepts any JSON. */
export function readBlocks(message: Json): Block[] {
  const blocks: Block[] = [];
  const { content } = message;
  const calls = (Array.isArray(message.tool_calls) ? message.tool_calls : []).filter(isObject);
  const placed = new Set<unknown>();
  if (typeof content === "string") {
    if (content) blocks.push(block("text", null, content, message.content_length));
  } else if (Array.isArray(content)) {
    for (const [position, part] of content.entries()) {
      if (!isObject(part)) continue;
      if (part.type === "call") {
        const call = calls.find((one) => one.id === part.id);
        if (call) {
          placed.add(call);
          blocks.push({ ...callBlock(call), part: position });
        }
      } else blocks.push({ ...partBlock(part), part: position });
    }
  }
  for (const call of calls) if (!placed.has(call)) blocks.push(callBlock(call));
  return blocks;
}

/** Return who a message is from, as a heading. */
export function describeRole(message: Json): string {
  const role = String(message.role ?? "message");
  const name = typeof message.name === "string" ? ` ${message.name}` : "";
  return `${role}${name}${message.is_error ? ", error" : ""}`;
}

/** Return what is known of the tokens that a call read: all, and those from a cache. */
export function inputTokens(step: RequestStep): { all: number; cached: number } {
  const number = (name: string) => {
    const value = step.usage?.[name];
    return typeof value === "number" && Number.isFinite(value) ? value : 0;
  };
  return { all: number("input_tokens"), cached: number("cache_read_tokens") };
}

function partBlock(part: Json): Block {
  const text = typeof part.text === "string" ? part.text : "";
  switch (part.type) {
    case "text":
      return block("text", null, text, part.text_length);
    case "thinking":
      return block("thinking", "thinking", text, part.text_length);
    case "image":
      return block("image", null, `<image ${String(part.media_type ?? part.url ?? "")}>`, undefined);
    default:
      return block("other", String(part.kind ?? part.type ?? "other"), String(part.data ?? ""), part.data_length);
  }
}

function callBlock(call: Json): Block {
  const called = isObject(call.function) ? call.function : {};
  const text = String(called.arguments ?? "");
  return block("call", String(called.name ?? "call"), text, called.arguments_length);
}

function block(kind: Block["kind"], title: string | null, text: string, length: unknown): Block {
  return { kind, title, text, length: typeof length === "number" ? length : text.length, part: null };
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
