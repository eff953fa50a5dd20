/** Drive the page in a browser, check what it must do, and write screenshots.
 *
 *   node e2e/walk.mjs FOLDER [LINK]
 *
 * LINK is what `harken ui` printed. Without it, the built page is served with the sessions of the
 * mock. Needs a Chromium: its path is in CHROMIUM, by default /usr/bin/chromium. */

import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { preview } from "vite";

const [folder, link] = process.argv.slice(2);
if (!folder) {
  console.error("usage: node e2e/walk.mjs FOLDER [LINK]");
  process.exit(2);
}
await mkdir(folder, { recursive: true });
const server = link ? null : await preview({ mode: "mock", preview: { port: 0, host: "127.0.0.1" }, logLevel: "error" });
const mockAddress = server ? `http://127.0.0.1:${server.httpServer.address().port}/` : null;
const start = link ?? `${mockAddress}#token=mock`;
const origin = new URL(start).origin + new URL(start).pathname;

const profile = await mkdtemp(join(tmpdir(), "harken-walk-"));
const context = await chromium.launchPersistentContext(profile, {
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  headless: true,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
  ],
  viewport: { width: 1280, height: 800 },
});
const page = context.pages()[0] ?? (await context.newPage());
const problems = [];
const failures = [];
const requests = [];
page.on("console", (message) => {
  if (["error", "warning"].includes(message.type()) && !/status of (401|404)|ERR_FAILED/.test(message.text())) problems.push(message.text());
});
page.on("pageerror", (error) => problems.push(String(error)));
page.on("request", (request) => requests.push(request.url()));

const only = process.env.ONLY ? new RegExp(process.env.ONLY) : null;
async function step(name, run) {
  if (only && !only.test(name)) return;
  const began = Date.now();
  try {
    await run();
    console.log(`ok    ${name} (${Date.now() - began} ms)`);
  } catch (error) {
    failures.push(name);
    console.log(`FAIL  ${name}: ${String(error.message ?? error).split("\n").slice(0, 6).join("\n      ")}`);
    await shot(`fail-${name.replaceAll(/\W+/g, "-")}`).catch(() => {});
  }
}
function expect(condition, what) {
  if (!condition) throw new Error(what);
}
const shot = (name) => page.screenshot({ path: join(folder, `${name}.png`) });
async function visit(hash) {
  await page.evaluate((next) => void (location.hash = next), hash);
  await page.waitForTimeout(60);
}
async function shots(name) {
  for (const [width, height, label] of [[1280, 800, "1280"], [2560, 1440, "2560"], [390, 844, "390"]]) {
    await page.setViewportSize({ width, height });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(180);
      await shot(`${name}-${label}-${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.emulateMedia({ colorScheme: "light" });
}

await step("without a token", async () => {
  if (link) return;
  await page.goto(origin);
  await page.getByText("needs the link that").waitFor();
  await shot("refused");
});
await step("token leaves the address bar", async () => {
  await page.goto("about:blank");
  await page.goto(start);
  await page.locator("a.row").first().waitFor();
  expect(!page.url().includes("token"), `the address is ${page.url()}`);
});
const { walk } = link ? await import("./real.mjs") : await import("./mock.mjs");
await walk({ visit, step, shot, shots, expect, page });

await step("no errors, no policy violations, no foreign requests", async () => {
  expect(problems.length === 0, [...new Set(problems)].slice(0, 5).join("\n"));
  const foreign = requests.filter((url) => !url.startsWith(new URL(origin).origin) && !/^(about|blob|data):/.test(url));
  expect(foreign.length === 0, `requests to ${foreign.slice(0, 3)}`);
});

await context.close();
await server?.close();
await rm(profile, { recursive: true, force: true });
console.log(failures.length ? `${failures.length} failed` : "all passed");
process.exit(failures.length ? 1 : 0);
