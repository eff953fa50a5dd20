/** The current route, and the token that the link had. */

import type { Tokens } from "../api";
import { formatRoute, parseRoute, takeToken, type Route } from "./route";

const TOKEN_KEY = "harken.token";
/** The token of a link, until the server has proven that it has it. */
const LINK_KEY = "harken.link";

class Router {
  route = $state.raw<Route>(parseRoute(""));
  /** Grows with each navigation that asks for a message, also with one for the same message. */
  visits = $state(0);

  /** Show a route. `replace` adds no entry to the history of the browser. */
  go(route: Route, { replace = false } = {}): void {
    const hash = formatRoute(route);
    if (hash !== formatRoute(this.route)) {
      if (replace) history.replaceState(null, "", hash);
      else history.pushState(null, "", hash);
    }
    this.route = route;
    this.visits += 1;
  }
}

export const router = new Router();

/** Read the address, now and whenever the user changes it. */
export function startRouter(): void {
  readAddress();
  window.addEventListener("popstate", readAddress);
  window.addEventListener("hashchange", readAddress);
  window.addEventListener("storage", ({ key, newValue }) => {
    // Another tab has opened a link.
    if (key === TOKEN_KEY && newValue) access.isRefused = false;
  });
}

/** The tokens of the link that was opened, of this tab, and of the last link that any tab opened. */
export const tokens: Tokens = {
  candidates() {
    const stored = [sessionStorage.getItem(LINK_KEY), sessionStorage.getItem(TOKEN_KEY), localStorage.getItem(TOKEN_KEY)];
    return [...new Set(stored.filter((token) => token !== null))];
  },
  /** Keep the token for all tabs. One that a link has is kept only now: any page may have made that link. */
  accept(token) {
    for (const storage of [sessionStorage, localStorage]) {
      if (storage.getItem(TOKEN_KEY) !== token) storage.setItem(TOKEN_KEY, token);
    }
    sessionStorage.removeItem(LINK_KEY);
    access.isRefused = false;
  },
  refuse() {
    sessionStorage.removeItem(LINK_KEY);
    access.isRefused = true;
  },
};

function readAddress(): void {
  const { token, rest } = takeToken(location.hash);
  if (token) {
    sessionStorage.setItem(LINK_KEY, token);
    access.isRefused = false;
  }
  if (rest !== location.hash && location.hash) history.replaceState(null, "", rest);
  const route = parseRoute(rest);
  if (formatRoute(route) === formatRoute(router.route) && router.visits) return;
  router.route = route;
  router.visits += 1;
}

/** Whether the server has another token than the page. */
class Access {
  isRefused = $state(false);
}

export const access = new Access();
