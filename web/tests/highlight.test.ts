import { expect, it } from "vitest";
import { highlightBlocks, takeTurn } from "../src/lib/highlight";

it("each block of code is colored in a task of its own", async () => {
  const root = document.createElement("div");
  root.innerHTML = '<pre><code class="language-python">return 1</code></pre>'.repeat(4);
  document.body.append(root);
  await import("../src/lib/languages");
  highlightBlocks(root);
  const counts: number[] = [];
  while (counts.length < 60 && (counts.at(-1) ?? 0) < 4) {
    await new Promise((resolve) => setTimeout(resolve));
    counts.push([...root.querySelectorAll("code")].filter((code) => code.querySelector("span")).length);
  }
  expect(counts.at(-1)).toBe(4);
  counts.reduce((before, count) => (expect(count - before).toBeLessThanOrEqual(1), count), 0);
});

it("turns follow each other", async () => {
  const order: number[] = [];
  await Promise.all([1, 2, 3].map((number) => takeTurn().then(() => order.push(number))));
  expect(order).toEqual([1, 2, 3]);
});
