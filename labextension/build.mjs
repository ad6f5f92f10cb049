// Bundles what the page needs into the Python package: the run view and the form that connects a model, which anywidget
// draws, and the extension that JupyterLab and Notebook 7 load. `--watch` keeps doing what anywidget draws.
import { execFileSync } from "node:child_process";
import { rmSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import { build, context } from "esbuild";

const common = {
  bundle: true, format: "esm", target: "es2022", charset: "utf8", logLevel: "warning",
  plugins: [{ name: "styles", setup: (bundler) => bundler.onLoad({ filter: /\.css$/ }, textOfStyles) }],
};

const widgets = await context({
  ...common,
  entryPoints: [
    { in: "src/run-view/index.ts", out: "run-view" },
    { in: "src/connect-form/index.ts", out: "connect-form" },
  ],
  outdir: "../vibe_jupyter/ui/static",
  minify: true,
});
if (process.argv.includes("--watch")) {
  await widgets.watch();
} else {
  await widgets.rebuild();
  await widgets.dispose();
  await buildExtension();
}

/** View and extension put their styles into the page by themselves: one text of all the sheets that this one imports. */
async function textOfStyles({ path }) {
  const { metafile, outputFiles } = await build({
    entryPoints: [path], bundle: true, minify: true, write: false, metafile: true, logLevel: "warning",
  });
  return { contents: outputFiles[0].text, loader: "text", watchFiles: Object.keys(metafile.inputs).map((name) => resolve(name)) };
}

/** JupyterLab's own builder decides what the page shares with us; it takes JavaScript. */
async function buildExtension() {
  rmSync("lib", { recursive: true, force: true });
  await build({ ...common, entryPoints: ["src/index.ts"], outdir: "lib", splitting: true, packages: "external" });
  rmSync("../vibe_jupyter/labextension", { recursive: true, force: true });
  const require = createRequire(import.meta.url);
  const builder = require.resolve("@jupyter/builder/lib/build-labextension.js");
  const core = require.resolve("@jupyterlab/core-meta/core.package.json");
  execFileSync(process.execPath, [builder, "--core-package-file", core, "."], { stdio: ["ignore", "pipe", "inherit"] });
}
