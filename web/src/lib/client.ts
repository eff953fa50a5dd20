import { Api, HttpTransport, type Transport } from "../api";
import { WhyApi } from "../api/why";
import { readToken, refuseToken } from "./router.svelte";

let transport: Transport = new HttpTransport(readToken, refuseToken);

/** Answer all later requests of the page by another transport than the server: by a file. */
export function setTransport(next: Transport): void {
  transport = next;
}

export const api = new Api({ send: (request, signal) => transport.send(request, signal) });
export const whyApi = new WhyApi(api);
