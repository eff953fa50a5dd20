/** The current route, and the token that the link had. */

import { formatRoute, parseRoute, takeToken, type Route } from "./route";

const TOKEN_KEY = "harken.token";

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

/** The token of this page's links: of this tab, else of the last link that any tab opened. */
export function readToken(): string | null {
  return sessionStorage.getItem(TOKEN_KEY) ?? localStorage.getItem(TOKEN_KEY);
}

/** Forget a token that the server refused. Return the one that another tab has stored since, or null. */
export function refuseToken(refused: string | null): string | null {
  for (const storage of [sessionStorage, localStorage]) {
    if (refused !== null && storage.getItem(TOKEN_KEY) === refused) storage.removeItem(TOKEN_KEY);
  }
  const other = readToken();
  if (other === null || other === refused) access.isRefused = true;
  return access.isRefused ? null : other;
}

function readAddress(): void {
  const { token, rest } = takeToken(location.hash);
  if (token) {
    sessionStorage.setItem(TOKEN_KEY, token);
    localStorage.setItem(TOKEN_KEY, token);
    access.isRefused = false;
  }
  if (rest !== location.hash && location.hash) history.replaceState(null, "", rest);
  const route = parseRoute(rest);
  if (formatRoute(route) === formatRoute(router.route) && router.visits) return;
  router.route = route;
  router.visits += 1;
}

/** Whether the server refused the token. */
class Access {
  isRefused = $state(false);
}

export const access = new Access();
