// The tests of what needs no page: each is bundled and run by node's own test runner.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buildSync } from "esbuild";

const folder = mkdtempSync(join(tmpdir(), "vibe-jupyter-test-"));
try {
  const entryPoints = readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => join("test", name));
  buildSync({
    entryPoints, outdir: folder, outExtension: { ".js": ".cjs" }, bundle: true, platform: "node", format: "cjs",
  });
  const { status } = spawnSync(process.execPath, ["--test", "--test-reporter=dot", folder], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
