/** Build the page in one file: one script and one style sheet, which Harken puts into an HTML file. */

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { join } from "node:path";
import { build, type Plugin } from "vite";

/** Build `share.js` and `share.css` after the page, into the same folder. */
export function buildShare(): Plugin {
  let root = "";
  let folder = "";
  return {
    name: "harken-share",
    apply: "build",
    configResolved(config) {
      root = config.root;
      folder = config.build.outDir;
    },
    async closeBundle() {
      await build({
        root,
        configFile: false,
        publicDir: false,
        logLevel: "warn",
        plugins: [svelte(), escapeMarkup()],
        resolve: { conditions: ["browser"] },
        build: {
          outDir: folder,
          emptyOutDir: false,
          target: "es2022",
          // The policy of the file allows `data:` in images only.
          assetsInlineLimit: 0,
          cssCodeSplit: false,
          modulePreload: false,
          reportCompressedSize: false,
          chunkSizeWarningLimit: 1000,
          rolldownOptions: {
            input: join(root, "src/share.ts"),
            checks: { pluginTimings: false },
            // Only Vite's loader of modules asks for it, and there are none.
            transform: { define: { "import.meta": "{}" } },
            output: {
              // A file from disk cannot load modules.
              format: "iife",
              codeSplitting: false,
              entryFileNames: "share.js",
              assetFileNames: "share[extname]",
            },
          },
        },
      });
    },
  };
}

/** Escape in a script what would end its element, or begin a comment there. They are in literals only. */
function escapeMarkup(): Plugin {
  return {
    name: "harken-escape-markup",
    generateBundle(_, bundle) {
      for (const file of Object.values(bundle)) {
        if (file.type === "chunk") file.code = file.code.replace(/<(?=!--|\/script)/gi, "\\x3C");
      }
    },
  };
}
