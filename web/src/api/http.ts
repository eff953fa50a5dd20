/** Requests to the server of `harken ui`. */

import { findProvenToken, makeNonce } from "./proof";

export class ApiError extends Error {
  readonly status: number;
  readonly kind: string;

  constructor(status: number, kind: string, message: string) {
    super(message);
    this.name = "ApiError";
    this.status = status;
    this.kind = kind;
  }
}

export type Params = Record<string, string | number | null | undefined>;

/** Return the address of a route, relative to the page. */
export function address(path: string, params: Params = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params)) {
    if (value !== null && value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `api/${path}${text ? `?${text}` : ""}`;
}

/** What answers the requests of the page. */
export interface Transport {
  /** Send a request. Raises ApiError for every answer but a success. */
  send(request: ApiRequest, signal?: AbortSignal): Promise<Response>;
}

export interface ApiRequest {
  /** The path below `api/`. */
  path: string;
  params?: Params | undefined;
  /** A value to send as JSON; with it the method is POST. */
  body?: unknown;
}

/** The tokens of links to this page. */
export interface Tokens {
  /** All that may be the one of the server, the most probable first. */
  candidates(): string[];
  /** The server has proven that it has this token. */
  accept(token: string): void;
  /** The server has none of the tokens. */
  refuse(): void;
}

/** The server that the page is from. Nothing is sent to it before it has proven that it has the token:
 * each time again, since another program may listen at the port by then. */
export class HttpTransport implements Transport {
  readonly #tokens: Tokens;
  /** The proof that all requests wait for which were made since it was asked for. */
  #proof: Promise<string> | null = null;

  constructor(tokens: Tokens) {
    this.#tokens = tokens;
  }

  async send(request: ApiRequest, signal?: AbortSignal): Promise<Response> {
    let response = await this.#fetch(request, await this.#getToken(), signal);
    if (response.status === 401) {
      // The viewer was started again in between.
      response = await this.#fetch(request, await this.#getToken(), signal);
    }
    await raiseForStatus(response);
    return response;
  }

  /** Return the token that the server has. Raises ApiError if it has none of this page's. */
  #getToken(): Promise<string> {
    this.#proof ??= this.#prove().finally(() => (this.#proof = null));
    return this.#proof;
  }

  async #prove(): Promise<string> {
    const nonce = makeNonce();
    const tokens = this.#tokens.candidates();
    const response = await fetchFromServer(address("proof", { nonce }), { credentials: "omit", cache: "no-store" });
    await raiseForStatus(response);
    const answer = (await response.json().catch(() => null)) as { proof?: unknown } | null;
    const token = await findProvenToken(tokens, nonce, String(answer?.proof ?? ""));
    if (token !== null) {
      this.#tokens.accept(token);
      return token;
    }
    this.#tokens.refuse();
    throw new ApiError(401, "unauthorized", "This page needs the link that `harken ui` printed.");
  }

  #fetch(request: ApiRequest, token: string, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = { Authorization: `Bearer ${token}` };
    const init: RequestInit = { credentials: "omit", cache: "no-store", signal: signal ?? null, headers };
    if (request.body !== undefined) {
      init.method = "POST";
      init.body = JSON.stringify(request.body);
      headers["Content-Type"] = "application/json";
    }
    return fetchFromServer(address(request.path, request.params), init);
  }
}

/** Raises ApiError if nothing answers. */
async function fetchFromServer(url: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(url, init);
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError(0, "unreachable", "The server does not answer. Is `harken ui` running?");
  }
}

/** Raises ApiError for every answer but a success. */
async function raiseForStatus(response: Response): Promise<void> {
  if (response.ok) return;
  const body = (await response.json().catch(() => null)) as {
    error?: { code?: string; message?: string };
  } | null;
  throw new ApiError(
    response.status,
    body?.error?.code ?? "error",
    body?.error?.message ?? `The server answered with status ${response.status}.`,
  );
}
