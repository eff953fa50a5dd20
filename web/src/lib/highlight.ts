/** Highlight code. The highlighter and its languages are a chunk that loads with the first code. */

import { sanitizeSpans } from "./markdown";

const MAX_HIGHLIGHTED_CHARS = 40_000;

/** The blocks that wait for their turn. */
let turns: Promise<void> = Promise.resolve();

/** Wait for a task of its own: many blocks that scroll into view together would hold up a frame. */
export function takeTurn(): Promise<void> {
  turns = turns.then(() => new Promise((resolve) => setTimeout(resolve)));
  return turns;
}

/** Color the code of an element, if its language is known. It shows plain text until then. */
export async function highlight(element: HTMLElement, language: string): Promise<void> {
  const text = element.textContent ?? "";
  if (text.length > MAX_HIGHLIGHTED_CHARS) return;
  const { hljs } = await import("./languages");
  await takeTurn();
  if (!hljs.getLanguage(language) || !element.isConnected) return;
  const html = hljs.highlight(text, { language, ignoreIllegals: true }).value;
  element.replaceChildren(sanitizeSpans(html));
}

/** Color all code blocks of rendered Markdown. */
export function highlightBlocks(root: ParentNode): void {
  for (const code of root.querySelectorAll<HTMLElement>("pre > code[class]")) {
    const language = /(?:^|\s)language-(\S+)/.exec(code.className)?.[1];
    if (language) void highlight(code, language.toLowerCase());
  }
}
