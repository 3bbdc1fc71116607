import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  plugins: [svelte()],
  // The description of the API is a page of its own, and most of the bytes.
  build: { target: "es2022", rollupOptions: { input: ["index.html", "docs.html"], checks: { pluginTimings: false } }, chunkSizeWarningLimit: 2000 },
});
