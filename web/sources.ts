/** The hashes of the sources, beside the built files: a test without Node compares them with the sources. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

/** Files and folders of which the built files are made. */
const SOURCES = [
  "index.html",
  "package-lock.json",
  "package.json",
  "public",
  "share.ts",
  "sources.ts",
  "src",
  "svelte.config.js",
  "vite.config.ts",
];

/** Write `sources.txt` in the form of sha256sum. */
export function listSources(): Plugin {
  let root = "";
  return {
    name: "harken-sources",
    apply: "build",
    configResolved(config) {
      root = config.root;
    },
    generateBundle() {
      const lines = SOURCES.flatMap((path) => listFiles(root, path))
        .sort()
        .map((path) => `${hash(join(root, path))}  ${path}\n`);
      this.emitFile({ type: "asset", fileName: "sources.txt", source: lines.join("") });
    },
  };
}

function listFiles(root: string, path: string): string[] {
  if (!statSync(join(root, path)).isDirectory()) return [path];
  return readdirSync(join(root, path)).flatMap((name) => listFiles(root, `${path}/${name}`));
}

function hash(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}
