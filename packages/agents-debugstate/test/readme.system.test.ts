import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode, temporaryFolder } from '@x/internal/testing'
import { expect, test } from 'vitest'

const example = fileURLToPath(new URL('example.ts', import.meta.url))

test('shows the example of the next test in the README', async () => {
  const readme = await readFile(new URL('../README.md', import.meta.url), 'utf8')
  expect(readme).toContain(`\`\`\`ts\n${await readFile(example, 'utf8')}\`\`\``)
})

test('runs the example, which finds the session of its last run', async () => {
  await using folder = await temporaryFolder()
  const args = ['--conditions=mcp-source', '--no-warnings', example]
  const run = (): Promise<{ stdout: string }> =>
    promisify(execFile)(sourceNode, args, { cwd: folder.path })
  expect((await run()).stdout).toBe('session of the last process: undefined\n')
  expect((await run()).stdout).toMatch(/^session of the last process: opened-by-\d+\n$/)
})
