import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

async function run(...args: readonly string[]) {
  const child = spawn(sourceNode, ['--conditions=mcp-source', main, ...args])
  const ended = once(child, 'exit')
  const [[exitCode], stdout, stderr] = await Promise.all([
    ended,
    text(child.stdout),
    text(child.stderr),
  ])
  const last: unknown = JSON.parse(stdout.trim().split('\n').at(-1) || 'null')
  return { exitCode, last, stderr }
}

test('runs the probes of one kind, and prints an object', async () => {
  const { exitCode, last } = await run('--only', 'tokens', '--json')
  expect({ exitCode, last }).toMatchObject({
    exitCode: 0,
    last: { ok: true, failed: 0, kinds: [{ name: 'tokens', failed: [] }] },
  })
})

test('rejects a kind that does not exist', async () => {
  const { exitCode, stderr } = await run('--only', 'none')
  expect({ exitCode, stderr }).toEqual({
    exitCode: 2,
    stderr: expect.stringContaining('--only must be one of bodies, '),
  })
})
