import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { expect, test, vi } from 'vitest'

const AGENTS = 6
const main = fileURLToPath(new URL('../src/main.ts', import.meta.url))

function start(...args: readonly string[]) {
  const child = spawn(sourceNode, ['--conditions=mcp-source', main, ...args, '--json'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const end = Promise.all([once(child, 'exit'), text(child.stdout), text(child.stderr)])
  const ended = end.then(([[exitCode], stdout, stderr]) => {
    const json: unknown = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
    return { exitCode, json, stderr }
  })
  return { child, ended }
}

test('ends all child processes on Ctrl-C', async () => {
  const { child, ended } = start('--minutes', '5', '--era', 'modern')
  const children = (): number[] => {
    const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,args='], { encoding: 'utf8' }).split('\n')
    const rows = lines.map((line) => line.trim().split(/\s+/))
    return rows.flatMap(([pid, parent, ...args]) =>
      parent === String(child.pid) && !args.includes('ps') ? [Number(pid)] : [],
    )
  }
  await vi.waitUntil(() => children().length > AGENTS, { timeout: 300_000, interval: 100 })
  const pids = children()
  child.kill('SIGINT')
  const { exitCode, json } = await ended
  expect({ exitCode, json }).toEqual({
    exitCode: 130,
    json: { ok: false, error: 'Ended by SIGINT' },
  })
  await vi.waitUntil(() => pids.every(isGone), { timeout: 300_000 })
})

function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

test.each([
  ['--seed', '0', '--seed must be a number above 0, not "0"'],
  ['--era', 'new', '--era must be legacy, modern or both, not "new"'],
  ['--scenario', 'none', '--scenario must be killed-tasks or replicas, not "none"'],
  ['--seconds', '0', '--seconds must be a number above 0, not "0"'],
])('rejects %s %s', async (option, value, message) => {
  const { exitCode, stderr } = await start(option, value).ended
  expect({ exitCode, stderr }).toEqual({ exitCode: 2, stderr: expect.stringContaining(message) })
})
