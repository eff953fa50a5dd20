/** Make text from a log safe to show: colors of a terminal are removed, invisible characters named. */

// Sequences that set colors or move the cursor, and those that choose a character set. None spans lines.
const TERMINAL_SEQUENCES =
  // eslint-disable-next-line no-control-regex
  /(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,4}[@-~]|\x1b[()*+][0-9A-Z]|\x1b[78=>]/g;

// Sequences with a text of their own: titles, links and other strings for a terminal.
const TERMINAL_STRINGS =
  // eslint-disable-next-line no-control-regex
  /(?:\x1b([\]PX^_])|([\x90\x98\x9d-\x9f]))([^\x00-\x08\x0a-\x1f\x7f-\x9f]*)(?:\x07|\x1b\\|\x9c)/g;

// Bidirectional controls, what Unicode calls default ignorable, and other characters that hide or reorder text.
// Joiners (U+200D) and variation selectors (U+FE0F) stay within emoji, which need them.
const INVISIBLE =
  // eslint-disable-next-line no-control-regex
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}]|(?<!\p{Extended_Pictographic}\ufe0f?|\p{Emoji_Modifier})\u200d|\u200d(?!\p{Extended_Pictographic})|(?<!\p{Extended_Pictographic}|[0-9#*](?=\ufe0f\u20e3))\ufe0f/gu;

/** Return text without colors of a terminal, and with every invisible character named. */
export function cleanText(text: string): string {
  return nameInvisible(text.replace(TERMINAL_SEQUENCES, "").replace(TERMINAL_STRINGS, nameString));
}

/** Return text with every invisible character named, also those that begin terminal sequences. */
export function nameInvisible(text: string): string {
  return text.replaceAll("\r\n", "\n").replace(INVISIBLE, nameCharacter);
}

/** Return the first line of a text that has letters, shortened. */
export function firstLine(text: string, limit = 160): string {
  const start = cleanText(text.slice(0, 4 * limit + 200)).trimStart();
  const line = start.split("\n", 1)[0] ?? "";
  return line.length > limit ? `${line.slice(0, limit)}…` : line;
}

/** Split text into rows for a list: its lines, and pieces of lines that are too long to lay out. */
export function splitRows(text: string, limit = 2_000): string[] {
  const rows: string[] = [];
  for (const line of text.split("\n")) {
    if (line.length <= limit) {
      rows.push(line);
      continue;
    }
    for (let start = 0; start < line.length; ) {
      const end = endOfPiece(line, start + limit);
      rows.push(line.slice(start, end));
      start = end;
    }
  }
  return rows;
}

/** Count the characters of a text as the server does: one of two code units is one. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at += 1) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00) count -= 1;
  }
  return count;
}

/** Return a position at which a text can be cut: not within a character of two code units. */
export function endOfPiece(text: string, end: number): number {
  const code = text.charCodeAt(end - 1);
  return end < text.length && code >= 0xd800 && code < 0xdc00 ? end - 1 : end;
}

export type DiffLineKind = "added" | "dropped" | "hunk" | "file" | "same";

/** Return the lines of a unified diff with their kinds. No character is left out: it may be approved. */
export function parseDiff(diff: string): { kind: DiffLineKind; text: string }[] {
  const lines = nameInvisible(diff).replace(/\n$/, "").split("\n");
  let inHunk = false;
  return lines.map((text) => {
    if (text.startsWith("@@")) inHunk = true;
    else if (/^(diff|index|---|\+\+\+) /.test(text) && (!inHunk || text.startsWith("diff "))) {
      inHunk = false;
      return { kind: "file", text };
    }
    return { kind: kindOf(text), text };
  });
}

/** Return how many lines a unified diff adds and drops. */
export function countDiff(diff: string): { added: number; dropped: number } {
  let added = 0;
  let dropped = 0;
  for (const { kind } of parseDiff(diff)) {
    if (kind === "added") added += 1;
    else if (kind === "dropped") dropped += 1;
  }
  return { added, dropped };
}

function kindOf(line: string): DiffLineKind {
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  if (line.startsWith("-")) return "dropped";
  return "same";
}

function nameCharacter(character: string): string {
  if (character === "\x0c" || character === "\x0b") return "\n";
  if (character === "\r" || character === "\u2028" || character === "\u2029") return "\n";
  const code = character.codePointAt(0) ?? 0;
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}

function nameString(_all: string, seven: string | undefined, eight: string | undefined, text: string): string {
  return `⟨ESC ${seven ?? String.fromCharCode((eight ?? "").charCodeAt(0) - 0x40)}${text}⟩`;
}
