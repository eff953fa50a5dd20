/** Return whether a key press belongs to a control that the user types in, or to an open dialog. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.target as Element | null;
  return (
    event.ctrlKey ||
    event.metaKey ||
    event.altKey ||
    Boolean(target?.closest?.("input:not([type=checkbox]), textarea, select, dialog, [contenteditable]"))
  );
}
