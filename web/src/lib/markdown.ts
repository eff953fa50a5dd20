/** Markdown from a log as safe nodes.
 *
 * HTML in the text stays text. Links lead to the web or to mail only; images are not loaded, since
 * a request for one would tell its server that somebody reads this: they are shown as links. */

import DOMPurify from "dompurify";
import MarkdownIt from "markdown-it";
import { cleanText } from "./text";

const ALLOWED_LINK = /^(?:https?:|mailto:)/i;

const markdown = new MarkdownIt({ html: false, linkify: true, breaks: true, maxNesting: 40 });
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
  const html = markdown.render(cleanText(text));
  const fragment = DOMPurify.sanitize(html, { ...PURIFY, RETURN_DOM_FRAGMENT: true });
  for (const link of fragment.querySelectorAll("a")) {
    if (!ALLOWED_LINK.test(link.getAttribute("href") ?? "")) {
      link.replaceWith(...link.childNodes);
      continue;
    }
    link.target = "_blank";
    link.rel = "noopener noreferrer nofollow";
  }
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
