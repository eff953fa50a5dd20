/** The walk through the sessions of the mock. */

export async function walk({ visit, step, shot, shots, expect, page }) {
  await step("sessions", async () => {
    await visit("#/");
    await page.locator("a.row").first().waitFor();
    expect((await page.locator("a.row").count()) < 60, "the list is virtualized");
    await shots("sessions");
  });
  await step("sessions by keyboard", async () => {
    await page.keyboard.press("j");
    await page.keyboard.press("j");
    await page.locator("a.row.current").waitFor();
    await page.keyboard.press("Enter");
    await page.locator("article").first().waitFor();
    expect(page.url().includes("2026-03-02-parser"), page.url());
    await page.goBack();
    await page.locator("a.row").first().waitFor();
  });
  await step("search", async () => {
    await page.keyboard.press("/");
    await page.keyboard.type("parser");
    await page.locator(".hits li").first().waitFor();
    await page.getByText("nobody heard this").waitFor();
    await shot("search-1280-light");
    await page.locator("input[type=search]").fill("zzznothing");
    await page.getByText("No session matches").waitFor();
    await shot("no-match-1280-light");
    await visit("#/");
  });
  await step("scroll position after back", async () => {
    await page.locator("a.row").first().waitFor();
    await page.locator(".scroller").evaluate((node) => void (node.scrollTop = 4000));
    await page.waitForTimeout(200);
    const row = page.locator("a.row").nth(12);
    await row.click();
    await page.locator("article").first().waitFor();
    await page.goBack();
    await page.locator("a.row").first().waitFor();
    await page.waitForTimeout(100);
    const top = await page.locator(".scroller").evaluate((node) => node.scrollTop);
    expect(Math.abs(top - 4000) < 40, `scrolled to ${top}`);
  });
  await step("session", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.locator("article").first().waitFor();
    await page.waitForTimeout(300);
    await shots("session");
  });
  await step("session, further down", async () => {
    await page.locator(".panel .scroller").evaluate((node) => void (node.scrollTop = 1100));
    await page.waitForTimeout(300);
    await shot("session-middle-1280-light");
    await page.locator(".panel .scroller").evaluate((node) => void (node.scrollTop = 1e6));
    await page.waitForTimeout(300);
    await shots("session-end");
  });
  await step("details of a message", async () => {
    await visit("#/session/2026-03-02-parser?agent=agent_001&m=msg_011&d=msg_011");
    await page.locator("aside h3").first().waitFor();
    await page.waitForTimeout(300);
    await page.locator("aside .readers a").first().waitFor();
    expect((await page.locator("aside .readers a").first().getAttribute("href")).includes("/step/3?agent=agent_001"), "a link to the model call that read it");
    await shots("details");
    await page.getByRole("button", { name: "Graph" }).click();
    await page.waitForTimeout(500);
    await shot("graph-1280-light");
  });
  await step("panels side by side", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.locator("[data-agent=agent_002]").click({ modifiers: ["Control"] });
    await page.locator(".slot").nth(1).waitFor();
    await page.getByRole("button", { name: "Dialog" }).click();
    await page.locator(".slot").nth(2).waitFor();
    expect(page.url().includes("agent=agent_001&agent=agent_002&agent=agent_001,agent_002"), page.url());
    await page.setViewportSize({ width: 2560, height: 1440 });
    await page.waitForTimeout(300);
    await shot("panels-2560-light");
    await page.setViewportSize({ width: 1280, height: 800 });
    await page.waitForTimeout(300);
    await shot("panels-1280-light");
    await page.goBack();
    expect(page.url().endsWith("agent=agent_001&agent=agent_002"), page.url());
  });
  await step("keys", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.locator("article").first().waitFor();
    await page.keyboard.press("?");
    await page.getByRole("heading", { name: "Keys" }).waitFor();
    await shot("help-1280-light");
    await page.keyboard.press("Escape");
    for (const key of ["j", "j", "j", "j"]) await page.keyboard.press(key);
    await page.locator("article.current").waitFor();
    await page.keyboard.press("Enter");
    await page.locator("aside").waitFor();
    await page.keyboard.press("Escape");
    await page.locator("aside").waitFor({ state: "detached" });
  });
  await step("calls with a diff, and those that a hook changed", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.locator("article").first().waitFor();
    await page.locator(".panel .scroller").evaluate((node) => void (node.scrollTop = 1100));
    await page.getByText("This difference lacks changes").waitFor();
    await page.getByText("1234567890123456789").waitFor();
    await page.locator(".call", { hasText: "rm -rf build" }).locator("button.line").click();
    await page.getByText("What ran: bash").waitFor();
    await page.waitForTimeout(200);
    await shot("calls-1280-light");
    await page.getByRole("button", { name: /Show the arguments as called/ }).click();
    await page.locator("dialog pre").first().waitFor();
    await page.keyboard.press("Escape");
  });
  await step("texts as written", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.locator("article .markdown").first().waitFor();
    expect((await page.locator("article.label-heard .markdown").count()) === 0, "what an agent heard is as written");
    await page.keyboard.press("r");
    await page.locator("article .markdown").first().waitFor({ state: "detached" });
    expect(await page.evaluate(() => localStorage.getItem("harken.text")) === "written", "the choice is kept");
    await shot("as-written-1280-light");
    await page.keyboard.press("r");
    await page.locator("article .markdown").first().waitFor();
  });
  await step("a long session", async () => {
    await visit("#/session/big?agent=agent_001&m=msg_7777");
    await page.locator("article.target").waitFor();
    await page.waitForTimeout(200);
    const box = await page.locator("article.target").boundingBox();
    expect(box && box.y > 0 && box.y < 800, "the message is in view");
    expect((await page.locator("article").count()) < 80, "the list is virtualized");
    await shot("big-1280-light");
    await page.keyboard.press("End");
    await page.locator("[aria-posinset='10000']").waitFor();
  });
  await step("live", async () => {
    await visit("#/session/live");
    await page.locator("article").first().waitFor();
    await page.getByText("Live message 42.").waitFor({ timeout: 8000 });
    await page.locator(".panel .scroller").evaluate((node) => void (node.scrollTop = 0));
    await page.locator(".pill").waitFor({ timeout: 5000 });
    await page.waitForTimeout(200);
    expect((await page.locator(".panel .scroller").evaluate((node) => node.scrollTop)) < 100, "reading is not disturbed");
    await shot("live-pill-1280-light");
    await page.locator(".pill").click();
    await page.waitForTimeout(9000);
    const last = await page.locator("article").last().getAttribute("aria-posinset");
    const total = await page.locator("article").last().getAttribute("aria-setsize");
    expect(last === total, `follows after a reconnect: ${last} of ${total}`);
    expect(Number(total) > 48, `${total} messages after a reconnect`);
  });
  await step("hostile text", async () => {
    await visit("#/session/hostile%20%3Cscript%3E");
    await page.locator("article").first().waitFor();
    await page.waitForTimeout(500);
    const found = await page.evaluate(() => ({
      attacked: window.attacked ?? null,
      elements: document.querySelectorAll("article :is(script, img, style, iframe), .markdown svg").length,
      links: [...document.querySelectorAll(".markdown a")].map((link) => [link.protocol, link.rel]),
      bidi: /[\u202a-\u202e\u2066-\u2069]/.test(document.body.textContent),
    }));
    expect(found.attacked === null && found.elements === 0 && !found.bidi, JSON.stringify(found));
    expect(found.links.every(([protocol, rel]) => /^(https?|mailto):/.test(protocol) && rel === "noopener noreferrer nofollow"), JSON.stringify(found.links));
    await shot("hostile-1280-light");
    await page.locator(".panel .scroller").evaluate((node) => void (node.scrollTop = 1e6));
    await page.locator(".call .line").click();
    const began = Date.now();
    await page.getByRole("button", { name: /Show all 10.0M/ }).click();
    await page.locator("dialog pre").first().waitFor();
    expect(Date.now() - began < 3000, `10 MB took ${Date.now() - began} ms`);
    await shot("long-text-1280-light");
    await page.keyboard.press("Escape");
  });
  await step("model calls", async () => {
    await visit("#/session/2026-03-02-parser/step/6");
    await page.locator(".context .message").first().waitFor();
    await page.waitForTimeout(500);
    await shots("step");
  });
  await step("timeline", async () => {
    await visit("#/session/2026-03-02-parser/timeline");
    await page.locator(".timeline .event").first().waitFor();
    await page.waitForTimeout(300);
    expect((await page.locator(".timeline .arrow").count()) > 0, "deliveries have arrows");
    await shots("timeline");
    const before = await page.locator(".lanes .lane").count();
    await page.getByText(/^Agents: /).click();
    await page.getByRole("checkbox", { name: "Explorer" }).uncheck();
    expect((await page.locator(".lanes .lane").count()) === before - 1, "an agent that is not chosen has no lane");
    await shot("timeline-agents-1280-light");
    await page.getByRole("button", { name: "All agents" }).click();
    expect((await page.locator(".lanes .lane").count()) === before, "all agents have a lane again");
  });
  await step("agents on a phone", async () => {
    await page.setViewportSize({ width: 390, height: 844 });
    await visit("#/session/2026-03-02-parser");
    await page.getByRole("button", { name: "Agents" }).click();
    await page.waitForTimeout(300);
    await shot("agents-390-light");
    await page.locator("[data-agent=agent_002]").click();
    await page.getByText("You watch the main agent").waitFor();
    await page.setViewportSize({ width: 1280, height: 800 });
  });
  await step("commands that continue a session", async () => {
    await visit("#/session/2026-03-02-parser");
    await page.getByText("Continue in").click();
    await page.getByText("harken chat --resume").waitFor();
    await shot("continue-1280-light");
    await page.keyboard.press("Escape");
  });
  await step("a message without an agent", async () => {
    await visit("#/session/2026-03-02-parser?m=msg_015");
    await page.locator("article.target").waitFor();
    expect(page.url().includes("agent=agent_002"), page.url());
  });
  await step("a home without sessions, and a server that is gone", async () => {
    await page.route("**/api/sessions?*", (route) => route.fulfill({ json: { sessions: [], next: null, runtimes: [], projects: [] } }));
    await visit("#/?since=1h");
    await page.getByText("No session matches").waitFor();
    await visit("#/");
    await page.getByText("No sessions yet").waitFor();
    await shots("empty");
    await page.unroute("**/api/sessions?*");
    await page.route("**/api/**", (route) => route.abort());
    await visit("#/?since=7d");
    await page.getByText("No connection").waitFor();
    await shot("no-connection-1280-light");
    await page.unroute("**/api/**");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator("a.row").first().waitFor();
  });
  await step("errors", async () => {
    await visit("#/session/no-such-session");
    await page.getByText("Not found").waitFor();
    await shot("not-found-1280-light");
  });
}
