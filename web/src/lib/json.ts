/** Indent JSON without reading its values. */

const TOKEN = /\s*("(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[{}[\],:])/y;
const MAX_DEPTH = 200;

/** Return a text of JSON with one member on each line. Numbers, escapes and repeated members stay
 * as they are. Return the text itself if it is not JSON, or is cut. */
export function indentJson(text: string): string {
  const pieces: string[] = [];
  const open: string[] = [];
  const end = text.trimEnd().length;
  let previous = "";
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const token = TOKEN.exec(text)?.[1];
    if (token === undefined) return text;
    // Two values side by side: without the white space between them they would be another one.
    if (!/^[}\],:]$/.test(token) && !/^(?:[{[,:]|)$/.test(previous)) return text;
    if (token === "}" || token === "]") {
      if (open.pop() !== (token === "}" ? "{" : "[")) return text;
      if (previous !== "{" && previous !== "[") pieces.push(newLine(open.length));
    } else if (previous === "{" || previous === "[" || previous === ",") pieces.push(newLine(open.length));
    pieces.push(token === ":" ? ": " : token);
    if (token === "{" || token === "[") open.push(token);
    if (open.length > MAX_DEPTH) return text;
    previous = token;
  }
  return open.length ? text : pieces.join("");
}

function newLine(depth: number): string {
  return `\n${"  ".repeat(depth)}`;
}
