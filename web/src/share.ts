/** The page in one file: `harken view SESSION --html FILE`. Its data is in a block of the file. */

import { mount } from "svelte";
import "./app.css";
import { decodeBase64, FileTransport } from "./api/file";
import type { Params } from "./api/http";
import { api, setTransport } from "./lib/client";
import type { PackedDocument } from "./lib/packing";
import { startRouter } from "./lib/router.svelte";
import { applyTheme } from "./lib/settings.svelte";
import { shared } from "./lib/shared";
import Shared from "./Shared.svelte";

interface Contents {
  session: PackedDocument;
  licenses: string;
}

async function readContents(): Promise<Contents> {
  const data = document.getElementById("contents")?.textContent ?? "";
  const bytes = new Blob([decodeBase64(data)]);
  const text = await new Response(bytes.stream().pipeThrough(new DecompressionStream("gzip"))).text();
  return JSON.parse(text) as Contents;
}

async function start(target: HTMLElement): Promise<void> {
  target.textContent = "Reading the session…";
  try {
    const contents = await readContents();
    const file = new FileTransport(contents.session);
    shared.copy = file.copy;
    shared.licenses = contents.licenses;
    setTransport(file);
    // For people and programs at the console: the answers, as the routes of `harken ui` give them.
    Object.assign(window, { harken: { get: (path: string, params?: Params) => api.get(path, params) } });
  } catch (error) {
    const isOld = typeof DecompressionStream === "undefined";
    target.textContent = isOld
      ? "This browser is too old for this file. Open it in a newer one."
      : `This file is incomplete or damaged: ask for it again. (${String(error)})`;
    return;
  }
  target.textContent = "";
  startRouter();
  mount(Shared, { target });
}

applyTheme();
const target = document.getElementById("app");
if (target) void start(target);
