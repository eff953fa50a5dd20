/** Statistics of the home: the members of `harken stats --json`. */

import type { Api } from "./index";
import type { IndexState } from "./sessions";

export interface Usage {
  responses: number;
  input_tokens: number | null;
  cache_read_tokens: number | null;
  cache_write_tokens: number | null;
  output_tokens: number | null;
  reasoning_tokens: number | null;
  cost_usd: number | null;
  unpriced: number;
}

export interface Amplification {
  prompts: number;
  responses: number;
  tool_calls: number;
  input_characters: number;
  output_characters: number;
  responses_per_prompt: number | null;
  tool_calls_per_prompt: number | null;
  output_per_input: number | null;
}

export interface ToolStats {
  name: string;
  calls: number;
  errors: number;
  unanswered: number;
  untold: number;
  duration_s: number | null;
}

export interface TemplateTools {
  template: string;
  is_subagent: boolean;
  calls: number;
  tools: ToolStats[];
}

export interface Lifecycle {
  session: string;
  title: string;
  project: string;
  runtime: string;
  began: string | null;
  ended: string | null;
  duration_s: number | null;
  outcome: string | null;
  compactions: number;
  prompts: number;
  responses: number;
  tool_calls: number;
  output_tokens: number | null;
  cost_usd: number | null;
  unpriced: number;
}

export interface Band {
  from_s: number;
  below_s: number | null;
  sessions: number;
  compactions: number;
  per_session: number | null;
}

export interface Day {
  day: string;
  sessions: number;
  prompts: number;
  responses: number;
  messages: number;
}

export type ActivityName = "prompt" | "response" | "thinking" | "tool" | "compaction" | "idle";

export interface Profile {
  began: string | null;
  ended: string | null;
  bin_s: number;
  bins: { began: string; events: Record<string, number>; seconds: Record<ActivityName, number> }[];
  events: Record<string, number>;
  seconds: Record<ActivityName, number>;
}

export type AgentUsage = Usage & { agent: string; template: string };

interface Common {
  since: string | null;
  until: string | null;
  folders: string[] | null;
  runtime: string | null;
  amplification: Amplification;
  usage: Usage;
  models: (Usage & { model: string })[];
  tools: { calls: number; tools: ToolStats[]; templates: TemplateTools[] };
  /** The lengths of the lists, by their paths: an answer has their first rows. */
  totals: Record<string, number>;
  index: IndexState;
}

export interface Overview extends Common {
  session?: undefined;
  activity: { messages: number[][]; prompts: number[][]; days: Day[] };
  concurrency: {
    open: number;
    open_at: string | null;
    open_until: string | null;
    at_work: number;
    at_work_at: string | null;
  };
  days: (Usage & { day: string | null })[];
  projects: (Usage & { project: string; sessions: number })[];
  runtimes: (Usage & { runtime: string; sessions: number })[];
  compactions: {
    compactions: number;
    sessions: number;
    max_per_session: number;
    correlation: number | null;
    bands: Band[];
  };
  outcomes: { outcome: string | null; sessions: number; median_duration_s: number | null; compactions: number }[];
  sessions: Lifecycle[];
}

export interface OneSession extends Common {
  session: Lifecycle;
  profile: Profile;
  agents: AgentUsage[];
}

export type Statistics = Overview | OneSession;

export interface StatisticsScope {
  session: string;
  since: string;
  until: string;
  project: string;
  runtime: string;
}

export function loadStatistics(api: Api, scope: StatisticsScope, signal?: AbortSignal): Promise<Statistics> {
  return api.get<Statistics>("stats", { ...scope }, signal);
}

/** Load a range of a list of the statistics. */
export function loadRows<T>(api: Api, scope: StatisticsScope, list: string, from: number, signal?: AbortSignal) {
  return api.get<{ total: number; rows: T[] }>("stats/rows", { ...scope, list, from }, signal);
}
