/** Make text from a log safe to show: terminal sequences are removed, invisible characters shown. */

// CSI, OSC and two-byte escape sequences, also with 8-bit introducers.
const TERMINAL_SEQUENCES =
  // eslint-disable-next-line no-control-regex
  /(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?|\x1b[PX^_][^\x1b]*(?:\x1b\\)?|\x1b[ -/]*[0-~]/g;

// Bidirectional controls, tag characters and other characters that hide or reorder text.
// Joiners (U+200D) and variation selectors stay: emoji need them.
const INVISIBLE =
  // eslint-disable-next-line no-control-regex
  /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|\u{e0001}|[\u{e0020}-\u{e007f}]/gu;

/** Return text without terminal sequences and with every invisible character named. */
export function cleanText(text: string): string {
  return text
    .replaceAll("\r\n", "\n")
    .replace(TERMINAL_SEQUENCES, "")
    .replace(INVISIBLE, nameCharacter);
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
    for (let start = 0; start < line.length; start += limit) {
      rows.push(line.slice(start, start + limit));
    }
  }
  return rows;
}

export type DiffLineKind = "added" | "dropped" | "hunk" | "file" | "same";

/** Return the lines of a unified diff with their kinds. */
export function parseDiff(diff: string): { kind: DiffLineKind; text: string }[] {
  const lines = cleanText(diff).replace(/\n$/, "").split("\n");
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
  if (character === "\u2028" || character === "\u2029") return "\n";
  if (character === "\ufeff") return "";
  const code = character.codePointAt(0) ?? 0;
  return `⟨U+${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
