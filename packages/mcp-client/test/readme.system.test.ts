import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const readme = await readFile(here('../README.md'), 'utf8')

test('the README contains the example file, and what it prints', async () => {
  const example = await readFile(here('example.ts'), 'utf8')
  const args = ['--conditions=mcp-source', '--no-warnings', here('example.ts')]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  const shown = `\`\`\`ts\n${example}\`\`\`\n\n\`\`\`console\n$ node example.ts\n${stdout}\`\`\``
  expect(readme).toContain(shown)
})
