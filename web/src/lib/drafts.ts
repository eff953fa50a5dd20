/** Texts that a person types and has not sent, by session. They survive a reload of the tab. */

const key = (session: string) => `harken.draft.${session}`;

export function readDraft(session: string): string {
  try {
    return sessionStorage.getItem(key(session)) ?? "";
  } catch {
    return "";
  }
}

export function writeDraft(session: string, text: string): void {
  try {
    if (text) sessionStorage.setItem(key(session), text);
    else sessionStorage.removeItem(key(session));
  } catch {
    // A browser without storage forgets the text with the page.
  }
}

/** Put texts that were not sent before what is typed now. */
export function joinDrafts(returned: string[], draft: string): string {
  return [...returned, draft].filter((text) => text.trim()).join("\n\n");
}
