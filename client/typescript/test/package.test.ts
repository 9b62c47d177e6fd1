import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(__dirname, "../..");
const PRINT = "console.log([a.AckerError === b.AckerError, a.current === b.current, typeof w.webhookReceiver].join())";

/** Run a program in a folder that has the built package. */
function run(program: string, kind: "module" | "commonjs"): string {
  const folder = mkdtempSync(join(tmpdir(), "acker-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(ROOT, join(folder, "node_modules/acker-client"), "dir");
    const written = execFileSync("node", [`--input-type=${kind}`, "-e", program], { cwd: folder, encoding: "utf8" });
    return written.trim();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("the package is loaded as an ES module and as CommonJS, and both are one", () => {
  const module = [
    'import { createRequire } from "node:module"; import * as a from "acker-client"; import * as w from "acker-client/webhook";',
    `const b = createRequire(process.cwd() + "/x.js")("acker-client"); ${PRINT}`,
  ].join("\n");
  assert.equal(run(module, "module"), "true,true,function");
  const common = `const a = require("acker-client"); const w = require("acker-client/webhook"); const b = a; ${PRINT}`;
  assert.equal(run(common, "commonjs"), "true,true,function");
});
