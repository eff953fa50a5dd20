import { createHmac, webcrypto } from "node:crypto";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { Api, HttpTransport } from "../src/api";
import { access, tokens } from "../src/lib/router.svelte";

/** A server with one token: its requests, and what it answers to them. */
class Server {
  requests: [string, string | null][] = [];
  isDown = false;
  constructor(public token: string, public prefix = "harken ui proof:") {}
  fetch = (async (url: string, init?: RequestInit) => {
    if (this.isDown) throw new TypeError("Failed to fetch");
    const bearer = new Headers(init?.headers).get("Authorization");
    this.requests.push([url.replace(/nonce=[0-9a-f]{64}$/, "nonce="), bearer]);
    const nonce = /proof\?nonce=(.*)/.exec(url)?.[1];
    if (nonce) return Response.json({ proof: createHmac("sha256", this.token).update(this.prefix + nonce).digest("hex") });
    if (bearer !== `Bearer ${this.token}`) return Response.json({ error: { code: "unauthorized", message: "Wrong token." } }, { status: 401 });
    return Response.json({ sessions: [] });
  }) as typeof fetch;
}

const PROOF: [string, null] = ["api/proof?nonce=", null];
const before = { fetch: globalThis.fetch, crypto: globalThis.crypto };
let api: Api;

function use(server: Server): Server {
  globalThis.fetch = server.fetch;
  return server;
}

beforeEach(() => {
  Object.defineProperty(globalThis, "crypto", { value: webcrypto, configurable: true });
  api = new Api(new HttpTransport(tokens));
  localStorage.setItem("harken.token", "good");
});

afterEach(() => {
  globalThis.fetch = before.fetch;
  Object.defineProperty(globalThis, "crypto", { value: before.crypto, configurable: true });
  sessionStorage.clear();
  localStorage.clear();
  access.isRefused = false;
});

describe("requests to the server", () => {
  it("have the token in a header, after one proof for all at once", async () => {
    const server = use(new Server("good"));
    await Promise.all([api.sessions({}), api.sessions({})]);
    expect(server.requests).toEqual([PROOF, ["api/sessions", "Bearer good"], ["api/sessions", "Bearer good"]]);
  });
  it("are not sent to one without the token, which gets neither token nor names", async () => {
    for (const fake of [new Server("other"), new Server("good", "")]) {
      use(fake);
      await expect(api.session("my secret")).rejects.toMatchObject({ status: 401 });
      expect(fake.requests).toEqual([PROOF]);
      expect([access.isRefused, localStorage.getItem("harken.token")]).toEqual([true, "good"]);
    }
  });
  it("are not sent to another one that took its port, at once or after a failure", async () => {
    const server = use(new Server("good"));
    await api.sessions({});
    const soon = use(new Server("other"));
    await expect(api.sessions({})).rejects.toMatchObject({ status: 401 });
    use(server);
    await api.sessions({});
    server.isDown = true;
    await expect(api.sessions({})).rejects.toMatchObject({ status: 0, kind: "unreachable" });
    const late = use(new Server("other"));
    await expect(api.sessions({})).rejects.toMatchObject({ status: 401 });
    expect([soon.requests, late.requests]).toEqual([[PROOF], [PROOF]]);
  });
  it("tell what the server answered", async () => {
    use(new Server("good"));
    globalThis.fetch = (async () => Response.json({ error: { code: "busy", message: "Too much." } }, { status: 503 })) as typeof fetch;
    await expect(api.session("a/b")).rejects.toMatchObject({ status: 503, kind: "busy", message: "Too much." });
    expect(access.isRefused).toBe(false);
  });
});

describe("the token of a link", () => {
  it("replaces the stored one if the server has it", async () => {
    use(new Server("newer"));
    sessionStorage.setItem("harken.link", "newer");
    await api.sessions({});
    expect([sessionStorage.getItem("harken.token"), localStorage.getItem("harken.token")]).toEqual(["newer", "newer"]);
  });
  it("replaces no stored one that works", async () => {
    const server = use(new Server("good"));
    sessionStorage.setItem("harken.link", "x");
    await api.sessions({});
    expect([localStorage.getItem("harken.token"), sessionStorage.getItem("harken.link")]).toEqual(["good", null]);
    expect(server.requests.at(-1)).toEqual(["api/sessions", "Bearer good"]);
  });
});
