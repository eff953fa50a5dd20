import { Api } from "../api";
import { readToken, refuseToken } from "./router.svelte";

export const api = new Api(readToken, refuseToken);
