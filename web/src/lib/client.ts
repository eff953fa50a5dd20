import { Api } from "../api";
import { access, readToken } from "./router.svelte";

export const api = new Api(readToken, () => (access.isRefused = true));
