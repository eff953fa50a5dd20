/** Requests to the server of `harken ui`. */

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

/** The server that the page is from. */
export class HttpTransport implements Transport {
  readonly #token: () => string | null;
  readonly #onRefused: (token: string | null) => string | null;

  /** `onRefused` gets the token that the server refused, and returns another one to try, or null. */
  constructor(token: () => string | null, onRefused: (token: string | null) => string | null) {
    this.#token = token;
    this.#onRefused = onRefused;
  }

  async send(request: ApiRequest, signal?: AbortSignal): Promise<Response> {
    const token = this.#token();
    let response = await this.#fetch(request, token, signal);
    if (response.status === 401) {
      const other = this.#onRefused(token);
      if (other !== null) {
        response = await this.#fetch(request, other, signal);
        if (response.status === 401) this.#onRefused(other);
      }
    }
    if (response.ok) return response;
    const body = (await response.json().catch(() => null)) as {
      error?: { code?: string; message?: string };
    } | null;
    throw new ApiError(
      response.status,
      body?.error?.code ?? "error",
      body?.error?.message ?? `The server answered with status ${response.status}.`,
    );
  }

  async #fetch(request: ApiRequest, token: string | null, signal?: AbortSignal): Promise<Response> {
    const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
    const init: RequestInit = { credentials: "omit", cache: "no-store", signal: signal ?? null, headers };
    if (request.body !== undefined) {
      init.method = "POST";
      init.body = JSON.stringify(request.body);
      headers["Content-Type"] = "application/json";
    }
    try {
      return await fetch(address(request.path, request.params), init);
    } catch (error) {
      if (signal?.aborted) throw error;
      throw new ApiError(0, "unreachable", "The server does not answer. Is `harken ui` running?");
    }
  }
}
