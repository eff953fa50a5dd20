/** Sessions that the server runs. */

import { api } from "../lib/client";

export interface QuestionRow {
  id: string;
  kind: "approval" | "question";
  /** The name of the agent. */
  agent: string;
  time: string;
  text: string;
  options: string[];
  tool: string;
  subject: string;
  preview: string;
  preview_length?: number;
  is_diff: boolean;
  rules: string[];
  is_required: boolean;
  note: string;
}

export interface AgentRun {
  agent: string;
  is_running: boolean;
  queued: string[];
  returned: string[];
  error: string | null;
  can_continue: boolean;
  text: string;
  thinking: string;
}

export interface RunRow {
  name: string;
  state: "running" | "ending" | "failed";
  error: string | null;
  began: string;
  folder: string;
  permission: string;
  primary: string;
  agents: AgentRun[];
  questions: QuestionRow[];
  notices: string[];
  is_unused: boolean;
}

export interface RunChoices {
  folder: string;
  model: string | null;
  models: string[];
  templates: { name: string; description: string; model: string | null }[];
  permission: string;
  permissions: string[];
  obstacle: string | null;
}

export interface StartRequest {
  session?: string | null;
  model?: string | null;
  template?: string | null;
  folder?: string | null;
  permission?: string | null;
  name?: string | null;
}

export interface Decision {
  decision: "allow" | "always" | "deny" | "answer";
  rule?: string | null;
  text?: string;
}

const path = (name: string, action: string) => `runs/${encodeURIComponent(name)}/${action}`;

async function change(to: string, body: unknown): Promise<RunRow> {
  return (await api.post<{ run: RunRow }>(to, body)).run;
}

export const runs = {
  list: async (signal?: AbortSignal) => (await api.get<{ runs: RunRow[] }>("runs", {}, signal)).runs,
  choices: (folder: string | null, session: string | null, signal?: AbortSignal) =>
    api.get<RunChoices>("runs/choices", { folder, session }, signal),
  start: (request: StartRequest) => change("runs", request),
  /** Send a message. A request that is repeated with the same id sends no second one. */
  send: (name: string, id: string, agent: string | null, text: string | null) =>
    change(path(name, "messages"), { id, agent, text }),
  interrupt: (name: string, agent: string | null = null) => change(path(name, "interrupt"), { agent }),
  decide: (name: string, question: string, decision: Decision) =>
    change(path(name, `permissions/${encodeURIComponent(question)}`), decision),
  /** The whole preview of an action, of which the row of a question has the beginning. */
  preview: async (name: string, question: string) =>
    (await api.get<{ text: string }>(path(name, `permissions/${encodeURIComponent(question)}/preview`))).text,
  end: (name: string) => change(path(name, "end"), {}),
};
