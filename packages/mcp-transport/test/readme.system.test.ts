import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode } from '@x/internal/testing'
import { startLegacyServer } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { resolveLimits, resolveReconnect, resolveTimeouts } from '../src/transport-options.ts'

const example = fileURLToPath(new URL('example.ts', import.meta.url))
const readme = (): Promise<string> => readFile(new URL('../README.md', import.meta.url), 'utf8')

test('shows in the README the example that the next test runs', async () => {
  expect(await readme()).toContain(`\`\`\`ts\n${await readFile(example, 'utf8')}\`\`\``)
})

// A busy machine needs long to start two processes.
test('continues the session of the last run in the example', async () => {
  await using server = await startLegacyServer()
  const cwd = await mkdtemp(join(tmpdir(), 'mcp-transport-'))
  const env = { ...process.env, SHOP_URL: server.url }
  const args = ['--conditions=mcp-source', '--no-warnings', example]
  try {
    const outputs: string[] = []
    for (let run = 0; run < 2; run++) {
      const { stdout } = await promisify(execFile)(sourceNode, args, { cwd, env })
      outputs.push(stdout)
    }
    expect(outputs).toEqual(['a new session\n', 'the session goes on\n'])
    expect(server.count('initialize')).toBe(1)
    expect(server.sessions).toHaveLength(1)
    expect(server.count('tools/list')).toBe(2)
  } finally {
    await rm(cwd, { recursive: true })
  }
})

test('has the defaults of the code in the page of all options', async () => {
  const page = new URL('../../../docs/reference/transport-options.md', import.meta.url)
  const text = await readFile(page, 'utf8')
  const { responseBytes, eventBytes, ...limits } = resolveLimits()
  expect([responseBytes, eventBytes]).toEqual([16 * 1024 * 1024, 16 * 1024 * 1024])
  const groups = { timeouts: resolveTimeouts(), limits, reconnect: resolveReconnect() }
  for (const [group, defaults] of Object.entries(groups)) {
    for (const [name, value] of Object.entries(defaults)) {
      expect(text).toMatch(new RegExp(`\\| \`${group}\\.${name}\` +\\| ${value} +\\|`))
    }
  }
})
