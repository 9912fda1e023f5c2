import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { afterEach, expect, test, vi } from 'vitest'

import { initialize } from './rpc-requests.ts'

afterEach(() => {
  vi.unstubAllEnvs()
})

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the example about files is in its page, and works', async () => {
  const example = await readFile(here('example-files.ts'), 'utf8')
  expect(await readFile(here('../../../docs/gateway-files.md'), 'utf8')).toContain(
    `\`\`\`ts\n${example}\`\`\``,
  )
  const args = ['--conditions=mcp-source', here('example-files.ts')]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  expect(stdout).toMatch(
    /^By wishes\.txt \(11 bytes\)\.\nartifact:\/\/\w{26}\/circles\.svg\?version=1\n$/,
  )
}, 15_000)

test('the example with a graph is in the README as it is, and lets in who has the token', async () => {
  const example = await readFile(here('example-graph.ts'), 'utf8')
  expect(await readFile(here('../README.md'), 'utf8')).toContain(`\`\`\`ts\n${example}\`\`\``)
  vi.stubEnv('MCP_TOKEN', 'a-token-of-some-length')
  const { app } = await import('./example-graph.ts')
  const statusWith = async (token: string): Promise<number> => {
    const request = initialize({ authorization: `Bearer ${token}` })
    const response = await app.request(request)
    await response.text()
    return response.status
  }
  expect(await statusWith('wrong')).toBe(401)
  expect(await statusWith('a-token-of-some-length')).toBe(200)
})
