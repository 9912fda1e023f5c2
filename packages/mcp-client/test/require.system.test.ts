import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

/** Prints the exports, in a process without a current directory. */
const SCRIPT = `
process.cwd = () => { throw new Error('The current directory is read') }
const all = [require('@x/mcp-client'), require('@x/mcp-transport'), require('@x/mcp-transport/auth')]
process.stdout.write(JSON.stringify(all.map((one) => Object.keys(one))))
`

test('require() loads the packages: they have no top-level await, and do not read the current directory', async () => {
  const args = ['--conditions=mcp-source', '--input-type=commonjs', '-e', SCRIPT]
  const cwd = fileURLToPath(new URL('..', import.meta.url))
  const { stdout } = await promisify(execFile)(sourceNode, args, { cwd })
  expect(JSON.parse(stdout)).toEqual([
    expect.arrayContaining(['McpClient', 'httpDirectory']),
    expect.arrayContaining(['StreamableHttpTransport']),
    expect.arrayContaining(['bearer']),
  ])
})
