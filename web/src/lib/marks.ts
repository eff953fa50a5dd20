/** Mark a text in what is shown, without changing the nodes: the highlights of CSS. */

/** The most marks of one list: its rows in view have fewer. */
const MAX_MARKS = 2_000;

/** Return the ranges of a text in the text nodes of an element, upper and lower case alike. */
export function findRanges(root: Node, text: string): Range[] {
  const words = text.toLowerCase();
  const ranges: Range[] = [];
  if (!words) return ranges;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode() && ranges.length < MAX_MARKS) {
    const node = walker.currentNode as Text;
    const content = node.data.toLowerCase();
    // A letter may have another length in lower case: then the places do not fit.
    if (content.length !== node.data.length) continue;
    for (let at = content.indexOf(words); at >= 0 && ranges.length < MAX_MARKS; at = content.indexOf(words, at + words.length)) {
      const range = document.createRange();
      range.setStart(node, at);
      range.setEnd(node, at + words.length);
      ranges.push(range);
    }
  }
  return ranges;
}

/** Mark these ranges under a name of `::highlight()`. Without any, the marks are removed. */
export function setMarks(name: string, ranges: readonly Range[]): void {
  // Older browsers have no highlights: there the items are found, and the words are not marked.
  if (typeof CSS === "undefined" || !("highlights" in CSS)) return;
  if (ranges.length) CSS.highlights.set(name, new Highlight(...ranges));
  else CSS.highlights.delete(name);
}
