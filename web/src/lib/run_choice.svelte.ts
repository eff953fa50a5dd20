/** The sessions that are chosen to be compared. They stay chosen while other pages are shown. */

import { MAX_RUNS } from "../api/compare";

class RunChoice {
  names = $state.raw<string[]>([]);

  has(name: string): boolean {
    return this.names.includes(name);
  }
  get isFull(): boolean {
    return this.names.length >= MAX_RUNS;
  }
  toggle(name: string): void {
    if (this.has(name)) this.names = this.names.filter((chosen) => chosen !== name);
    else if (!this.isFull) this.names = [...this.names, name];
  }
  clear(): void {
    this.names = [];
  }
}

export const runChoice = new RunChoice();

/** Return the address of the comparison of sessions, and of an agent of each. */
export function compareHref(sessions: readonly string[], agents: readonly string[] = []): string {
  const params = new URLSearchParams();
  for (const session of sessions) params.append("session", session);
  for (const agent of agents) params.append("agent", agent);
  return `#/compare?${params.toString()}`;
}
