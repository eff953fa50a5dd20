/** The walk through a home that `harken ui` shows: whatever sessions it has. */

export async function walk({ visit, step, shot, shots, expect, page }) {
  let names = [];
  await step("sessions", async () => {
    await visit("#/");
    await page.locator("a.row").first().waitFor();
    names = await page.locator("a.row").evaluateAll((rows) => rows.map((row) => row.getAttribute("href")));
    await shots("real-sessions");
  });
  await step("search", async () => {
    await page.keyboard.press("/");
    await page.keyboard.type("the");
    await page.locator(".hits li").first().waitFor({ timeout: 60_000 });
    await shot("real-search");
    const href = await page.locator(".hits a").first().getAttribute("href");
    await visit(href);
    await page.locator("article").first().waitFor();
    await page.waitForTimeout(300);
    await shot("real-hit");
  });
  for (const href of names) {
    const name = decodeURIComponent(href.split("/").pop());
    const slug = name.replaceAll(/\W+/g, "-").slice(0, 24);
    await step(`session ${name}`, async () => {
      await visit(href);
      await page.locator("article, .panel .empty").first().waitFor();
      await page.waitForTimeout(250);
      await shot(`real-${slug}-session`);
      if (!(await page.locator("article").count())) return;
      for (let press = 0; press < 4; press += 1) await page.keyboard.press("j");
      await page.keyboard.press("Enter");
      await page.locator("aside h3").first().waitFor();
      await page.waitForTimeout(150);
      await shot(`real-${slug}-details`);
      await page.keyboard.press("Escape");
      await page.keyboard.press("End");
      await page.waitForTimeout(300);
      const last = page.locator("article").last();
      expect((await last.getAttribute("aria-posinset")) === (await last.getAttribute("aria-setsize")), "End shows the last message");
    });
    await step(`model calls ${name}`, async () => {
      await visit(`${href}/step`);
      await page.locator(".context .message, .empty h2, .problem").first().waitFor();
      await page.waitForTimeout(500);
      await shot(`real-${slug}-step`);
      expect((await page.locator(".problem[role=alert]").count()) === 0, await page.locator(".problem").first().textContent({ timeout: 100 }).catch(() => "problem"));
    });
    await step(`timeline ${name}`, async () => {
      await visit(`${href}/timeline`);
      await page.locator(".event .text").first().waitFor();
      await page.waitForTimeout(900);
      await shot(`real-${slug}-timeline`);
    });
  }
}
