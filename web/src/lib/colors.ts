/** A color for each agent, the same in all views.
 *
 * Ids of agents have the number of their appearance in the session, so the first agents differ. Every
 * row of the server that names an agent has its id, or null where it is not known.
 *
 * The colors are those of Okabe and Ito, which people with color blindness can tell apart; app.css
 * has a darker and a lighter form of each for text. An agent also has initials, so that no fact is
 * in the color alone. */

export const COLORS = 7;

/** Return the class of an agent's color: gray for the user, and for an agent whose id is not known. */
export function colorClass(agent: string | null | undefined): string {
  if (!agent || agent === "user") return "agent-user";
  const number = /^agent_(\d{1,9})$/.exec(agent)?.[1];
  const index = number === undefined ? hash(agent) : Number(number) + COLORS - 1;
  return `agent-${index % COLORS}`;
}

/** Return the letters of an agent's badge: one or two, or the first and the number at the end of the name. */
export function initials(name: string | null | undefined): string {
  const words = (name ?? "").match(/[\p{L}\p{N}]+/gu) ?? [];
  if (words.length === 0) return "?";
  const [first = "", second] = words;
  // Agents that were made together are told apart by their numbers.
  const number = /(?<!\d)\d{1,3}$/.exec(words.at(-1) ?? "")?.[0];
  if (number !== undefined && number !== words[0]) return number.length > 2 ? number : ([...first][0] ?? "") + number;
  if (second !== undefined) return ([...first][0] ?? "") + ([...second][0] ?? "");
  return [...first].slice(0, 2).join("");
}

function hash(text: string): number {
  let value = 0;
  for (const character of text) value = (value * 31 + (character.codePointAt(0) ?? 0)) >>> 0;
  return value;
}
