import { Api, HttpTransport } from "../api";
import { readToken, refuseToken } from "./router.svelte";

export const api = new Api(new HttpTransport(readToken, refuseToken));
