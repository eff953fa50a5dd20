import { Api, HttpTransport, type Transport } from "../api";
import { WhyApi } from "../api/why";
import { tokens } from "./router.svelte";

let transport: Transport = new HttpTransport(tokens);

/** Answer all later requests of the page by another transport than the server: by a file. */
export function setTransport(next: Transport): void {
  transport = next;
}

export const api = new Api({ send: (request, signal) => transport.send(request, signal) });
export const whyApi = new WhyApi(api);
