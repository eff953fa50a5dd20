import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";
import { mockApi } from "./mock/plugin.ts";
import { buildShare } from "./share.ts";
import { listSources } from "./sources.ts";

export default defineConfig(({ mode }) => ({
  // The server may mount the page below any path.
  base: "./",
  plugins: [svelte(), listSources(), buildShare(), ...(mode === "mock" ? [mockApi()] : [])],
  resolve: { conditions: ["browser"] },
  build: {
    outDir: "../src/harken/web",
    emptyOutDir: true,
    target: "es2022",
    // The policy of the server forbids `data:` in everything but images, and inline code.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    license: { fileName: "licenses.txt" },
  },
  test: { environment: "jsdom", include: ["tests/**/*.test.ts"] },
}));
