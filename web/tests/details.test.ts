import { flushSync, mount, unmount } from "svelte";
import { expect, it } from "vitest";
import { setTransport } from "../src/lib/client";
import MessageDetails from "../src/components/MessageDetails.svelte";

it("details claim no more than that there is no explicit link, and name the calls that read a message", async () => {
  const details = { message: { message_id: "msg_1", role: "user" }, agent: "agent_001", origins: [], hearers: [], effects: [], interventions: [], readers: { agent: "agent_001", steps: [2, 5], is_more: true } };
  setTransport({ send: async () => Response.json(details) });
  const shown = mount(MessageDetails, { target: document.body, props: { session: "s", message: "msg_1", agents: new Map(), onClose: () => {}, onMessage: () => {}, goTo: () => {} } });
  await new Promise((resolve) => setTimeout(resolve, 20));
  flushSync();
  expect(document.body.textContent?.match(/No explicit link/g)?.length).toBe(3);
  expect(document.body.textContent).not.toMatch(/No other agent heard|Nothing in the log/);
  expect([...document.querySelectorAll(".readers a")].map((link) => link.getAttribute("href"))).toEqual(["#/session/s/step/2?agent=agent_001", "#/session/s/step/5?agent=agent_001"]);
  await unmount(shown);
});
