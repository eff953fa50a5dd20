import { Api, HttpTransport } from "../api";
import { WhyApi } from "../api/why";
import { readToken, refuseToken } from "./router.svelte";

export const api = new Api(new HttpTransport(readToken, refuseToken));
export const whyApi = new WhyApi(api);
