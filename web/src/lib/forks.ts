/** The command of a fork, as a person would type it. */

import type { ForkRequest } from "../api/forks";

/** Quote a word for a shell if that is needed. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

/** Add the changes of a fork to the command that forks without any. */
export function forkCommand(command: string, request: ForkRequest): string {
  const words: string[] = [];
  if (request.before) words.push("--before");
  if (request.edit) words.push("--edit", request.edit);
  if (request.model) words.push("--model", request.model);
  for (const hook of request.without_hooks ?? []) words.push("--without-hook", hook);
  if (request.name) words.push("--name", request.name);
  return [command, ...words.map(quote)].join(" ");
}

/** Return the text of a message if a fork can give it another one, and the whole of it is here. */
export function editableText(message: Record<string, unknown>): string | null {
  if (message.event_type !== "transcript_entry") return null;
  const { content } = message;
  if (typeof content === "string") return "content_length" in message ? null : content;
  if (!Array.isArray(content)) return null;
  const texts = (content as Record<string, unknown>[]).filter((part) => part.type === "text");
  const [only] = texts;
  return texts.length === 1 && only && typeof only.text === "string" && !("text_length" in only) ? only.text : null;
}
