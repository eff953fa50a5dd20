/** Highlighted code as lines of tokens, which a view shows as text nodes. */

export interface Token {
  text: string;
  /** A class of the highlighter, or empty. */
  kind: string;
}

const PIECE = /<span class="([^"]*)">|<\/span>|[^<]+|</g;
const ENTITIES: Record<string, string> = { "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&amp;": "&" };

/** Split the output of the highlighter into lines. What it does not write stays text. */
export function splitHighlighted(html: string): Token[][] {
  const lines: Token[][] = [[]];
  const open: string[] = [];
  for (const [piece, kind] of html.matchAll(PIECE)) {
    if (kind !== undefined) open.push(kind);
    else if (piece === "</span>") open.pop();
    else addText(lines, decode(piece), open.at(-1) ?? "");
  }
  return lines;
}

function addText(lines: Token[][], text: string, kind: string): void {
  for (const [index, part] of text.split("\n").entries()) {
    if (index > 0) lines.push([]);
    if (part) lines.at(-1)?.push({ text: part, kind });
  }
}

function decode(text: string): string {
  return text.replace(/&(?:lt|gt|quot|#x27|amp);/g, (entity) => ENTITIES[entity] ?? entity);
}

/** Return the name by which the highlighter may know the language of a file. */
export function languageOf(path: string): string {
  const name = path.split("/").at(-1)?.toLowerCase() ?? "";
  if (name === "dockerfile") return name;
  const dot = name.lastIndexOf(".");
  const ending = dot > 0 ? name.slice(dot + 1) : "";
  const names: Record<string, string> = { pyi: "python", h: "c", hh: "cpp", mts: "typescript", cts: "typescript", toml: "ini", cfg: "ini" };
  return names[ending] ?? ending;
}
