/** Markdown from a log as safe nodes.
 *
 * HTML in the text stays text. Links lead to the web or to mail only; images are not loaded, since
 * a request for one would tell its server that somebody reads this: they are shown as links. */

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { cleanText } from "./text";

const ALLOWED_LINK = /^(?:https?:|mailto:)/i;

/** The deepest nesting that is rendered; the parser leaves out what is deeper. */
const MAX_NESTING = 60;

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: MAX_NESTING });
// A definition of a reference would be read and not shown.
markdown.disable("reference");
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
markdown.validateLink = (url) => ALLOWED_LINK.test(url.trim());

markdown.renderer.rules.image = (tokens, index) => {
  const token = tokens[index];
  const source = String(token?.attrGet("src") ?? "");
  const text = `image: ${token?.content || source}`;
  const escape = markdown.utils.escapeHtml;
  return `<a class="remote-image" href="${escape(source)}">${escape(text)}</a>`;
};
// markdown-it aligns cells with style attributes, which the content security policy forbids.
for (const rule of ["th_open", "td_open"]) {
  markdown.renderer.rules[rule] = (tokens, index, options, _env, self) => {
    const token = tokens[index];
    const align = /text-align:(left|center|right)/.exec(String(token?.attrGet("style") ?? ""))?.[1];
    if (token && align) token.attrs = [["class", `align-${align}`]];
    return self.renderToken(tokens, index, options);
  };
}

// The title of a link and what follows the language of a block of code would not be shown either.
markdown.core.ruler.push("show_titles", (state) => {
  for (const block of state.tokens) {
    if (!block.children) continue;
    const titles: string[] = [];
    block.children = block.children.flatMap((token) => {
      const title = token.type === "image" ? token.attrGet("title") : null;
      if (token.type === "link_open") titles.push(String(token.attrGet("title") ?? ""));
      const after = token.type === "link_close" ? titles.pop() : title;
      if (!after) return [token];
      const text = new state.Token("text", "", 0);
      text.content = ` "${after}"`;
      return [token, text];
    });
  }
});
const renderFence = markdown.renderer.rules.fence;
markdown.renderer.rules.fence = (tokens, index, options, env, self) => {
  const info = (tokens[index]?.info ?? "").trim();
  const code = renderFence?.(tokens, index, options, env, self) ?? "";
  return /^[\w+#.-]{0,20}$/.test(info) ? code : `<p><code>${markdown.utils.escapeHtml(info)}</code></p>${code}`;
};

const PURIFY = {
  ALLOWED_TAGS: (
    "a blockquote br code del em h1 h2 h3 h4 h5 h6 hr li ol p pre s strong table tbody td th " +
    "thead tr ul"
  ).split(" "),
  ALLOWED_ATTR: ["href", "class", "start"],
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  ALLOWED_URI_REGEXP: ALLOWED_LINK,
};

/** Render Markdown into a fragment of safe nodes. */
export function renderMarkdown(text: string): DocumentFragment {
  const source = cleanText(text);
  const env = {};
  const tokens = markdown.parse(source, env);
  if (tokens.some((token) => token.level >= MAX_NESTING - 1)) return asWritten(source);
  const html = markdown.renderer.render(tokens, markdown.options, env);
  const fragment = DOMPurify.sanitize(html, { ...PURIFY, RETURN_DOM_FRAGMENT: true });
  for (const link of fragment.querySelectorAll("a")) {
    if (!ALLOWED_LINK.test(link.getAttribute("href") ?? "")) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
  cleanNodes(fragment);
  return fragment;
}

/** Clean the texts of nodes: Markdown names characters by entities, too. */
function cleanNodes(root: DocumentFragment): void {
  root.normalize();
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode as Text;
    const clean = cleanText(node.data);
    if (clean !== node.data) node.data = clean;
  }
}

function asWritten(source: string): DocumentFragment {
  const fragment = document.createDocumentFragment();
  const pre = document.createElement("pre");
  pre.textContent = source;
  fragment.append(pre);
  return fragment;
}

/** Sanitize the output of the highlighter, which has spans with classes only. */
export function sanitizeSpans(html: string): DocumentFragment {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: ["span"],
    ALLOWED_ATTR: ["class"],
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_DOM_FRAGMENT: true,
  });
}
