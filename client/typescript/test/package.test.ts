import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";

const ROOT = join(__dirname, "../..");
const PRINT = "console.log([a.AckerError === b.AckerError, a.current === b.current, typeof w.webhookReceiver].join())";

/** Call a function with a folder that has the built package. */
function inFolder<T>(call: (folder: string) => T): T {
  const folder = mkdtempSync(join(tmpdir(), "acker-"));
  try {
    mkdirSync(join(folder, "node_modules"));
    symlinkSync(ROOT, join(folder, "node_modules/acker-client"), "dir");
    return call(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Run a program in such a folder. */
function run(program: string, kind: "module" | "commonjs"): string {
  return inFolder((cwd) => {
    const written = execFileSync("node", [`--input-type=${kind}`, "-e", program], { cwd, encoding: "utf8" });
    return written.trim();
  });
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

test("a program can read which version of the package it has", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  assert.equal(run('console.log(require("acker-client/package.json").version)', "commonjs"), version);
});

for (const resolution of ["node10", "node16", "bundler"]) {
  test(`the types of each module are found by ${resolution}`, () => {
    const modules = ["acker-client", "acker-client/http", "acker-client/webhook", "acker-client/testing"];
    const program = modules.map((name, at) => `import * as m${at} from "${name}"; export const a${at} = m${at};`);
    const kind = { node10: "commonjs", node16: "node16", bundler: "es2022" }[resolution] as string;
    const types = ["--types", "node", "--typeRoots", join(ROOT, "node_modules/@types"), "--skipLibCheck"];
    const options = ["--noEmit", "--strict", "--target", "es2022", "--moduleResolution", resolution, "--module", kind];
    inFolder((cwd) => {
      writeFileSync(join(cwd, "program.ts"), program.join("\n"));
      const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
      execFileSync("node", [compiler, ...options, ...types, "program.ts"], { cwd, encoding: "utf8" });
    });
  });
}
