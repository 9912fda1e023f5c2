// Checks the Dockerfiles of the examples: their instructions, flags and forms.
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { validate } from 'dockerfile-utils'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

for (const path of globSync('examples/*/Dockerfile', { cwd: ROOT })) {
  for (const { message, range } of validate(readFileSync(join(ROOT, path), 'utf8'))) {
    const text = typeof message === 'string' ? message : message.value
    console.error(`${path}:${range.start.line + 1}:${range.start.character + 1}: ${text}`)
    process.exitCode = 1
  }
}
