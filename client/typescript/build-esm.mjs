// Writes the ES modules of the package: each gives the names of the CommonJS module beside it, so that a program
// which loads both ways has one current tuple, and one class of each error.
import { writeFile } from "node:fs/promises";

for (const name of ["index", "http", "webhook", "testing"]) {
  const text = `export * from "./${name}.js";\n`;
  await writeFile(new URL(`dist/${name}.mjs`, import.meta.url), text);
  await writeFile(new URL(`dist/${name}.d.mts`, import.meta.url), text);
}
