// Builds the files of dist/ from src/ and vendor/. With --check, writes nothing and fails if the
// checked-in files are out of date. The packages of package-lock.json must be in REPORT_TOOLS, or here after `npm ci`.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const tools = process.env.REPORT_TOOLS ?? here;
const { build } = createRequire(join(tools, "package.json"))("esbuild");
const check = process.argv.includes("--check");
const fail = (text) => {
  console.error(`report/build.mjs: ${text}`);
  process.exit(1);
};

for (const line of readFileSync(join(here, "vendor/uplot/SHA256SUMS"), "utf8").trim().split("\n")) {
  const [sum, name] = line.split(/\s+/);
  const found = createHash("sha256").update(readFileSync(join(here, "vendor/uplot", name))).digest("hex");
  if (found !== sum) fail(`vendor/uplot/${name} does not match SHA256SUMS; restore the original file of uPlot`);
}

const types = spawnSync(process.execPath, [join(tools, "node_modules/typescript/bin/tsc"), "-p", here], { stdio: "inherit" });
if (types.status !== 0) fail("type check failed; fix the errors above");

for (const [entry, out] of [
  ["src/main.ts", "dist/report.js"],
  ["src/index.ts", "dist/index.js"],
  ["src/page.css", "dist/report.css"],
]) {
  const built = await build({
    entryPoints: [join(here, entry)],
    bundle: true,
    minify: true,
    format: "iife",
    target: "es2022",
    charset: "utf8",
    legalComments: "none",
    write: false,
    logLevel: "warning",
    absWorkingDir: here,
    banner: out === "dist/report.js" ? { js: "/* uPlot 1.6.32, (c) Leon Sorokin, MIT licence */" } : {},
  });
  const text = built.outputFiles[0].text;
  if (text.includes("</script")) fail(`${out} contains </script, which would close its element; remove it from the source`);
  const file = join(here, out);
  if (!check) {
    writeFileSync(file, text);
    console.log(`${out}: ${text.length} bytes`);
    continue;
  }
  let known = "";
  try {
    known = readFileSync(file, "utf8");
  } catch {
    // A missing file is out of date.
  }
  if (known !== text) fail(`${out} is out of date with ${entry}; run \`make report\` and commit the result`);
}
