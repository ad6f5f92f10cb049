// Bundles what the page needs into the Python package. `--watch` keeps doing it.
import { context } from "esbuild";

const build = await context({
  entryPoints: [
    { in: "src/run-view/index.ts", out: "run-view" },
    { in: "style/run-view.css", out: "run-view" },
  ],
  outdir: "../vibe_jupyter/ui/static",
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  logLevel: "info",
});
if (process.argv.includes("--watch")) {
  await build.watch();
} else {
  await build.rebuild();
  await build.dispose();
}
