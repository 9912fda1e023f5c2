import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const MAIN = fileURLToPath(new URL('../src/demo/main.ts', import.meta.url))

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command as a user does, with the Node.js of the project. */
function demo(...args: readonly string[]): Promise<Ended> {
  return new Promise((resolve) => {
    const command = ['--conditions=mcp-source', MAIN, ...args]
    execFile(sourceNode, command, (error, stdout, stderr) => {
      const code = typeof error?.code === 'number' ? error.code : error ? -1 : 0
      resolve({ code, stdout, stderr })
    })
  })
}

test('tells the whole story, with the figures as the last line', { timeout: 120_000 }, async () => {
  const { code, stdout, stderr } = await demo('--json')
  const lines = stdout.trimEnd().split('\n')
  const { ok, steps } = JSON.parse(lines.at(-1) ?? '')
  expect(steps.filter((step: { ok: boolean }) => !step.ok)).toEqual([])
  const figures = Object.fromEntries(
    steps.map((step: { name: string; figures: object }) => [step.name, step.figures]),
  )
  const hasRedis = !stderr.includes('no redis-server')
  expect(figures).toMatchObject({
    'first call': { initialize: 1, 'tools/call': 1, POSTs: 4 },
    'shared session': { initialize: 0, 'tools/call': 2, 'session ids': 1 },
    'lost session': { initialize: 1, refused: 1, 'tools/call': 2, basket: '1 × plum' },
    'server from npm': { 'content type': 'text/event-stream', 'initialize after the restart': 1 },
    'server over stdio': { 'HTTP exchanges': 0, remembers: true },
    'resume in a new process': { initialize: 0, POSTs: 1, resumed: 1, basket: '1 × plum' },
    'parallel calls': { initialize: 1, answered: 50 },
    'stateless server': { revision: '2026-07-28', initialize: 0, 'session ids': 0 },
    'question to a person': { answer: expect.stringMatching(/^Ordered 2 × apple for Ada/) },
    'sessions of the run': { initialize: 1, 'tools/call': 2, 'session ids': 1, DELETE: 1 },
    'caller without the token': { requests: 1, refused: 1 },
    'caller with a session': { revision: '2025-11-25', initialize: 1, basket: '2 × figs' },
    'caller without a session': { revision: '2026-07-28', initialize: 0, basket: '2 × figs' },
    'given-up call': { outcome: 'given up', cancelled: 'everything' },
    'call that outlives processes': {
      'processes killed': hasRedis ? 2 : 1,
      'tools/call': 1,
      'parts of the report': '1 2 3 4 5',
    },
  })
  expect(ok).toBe(true)
  expect(code).toBe(0)
  expect(stdout).not.toContain('\u001B[')
  expect(lines.slice(0, -1).filter((line) => line.length > 80)).toEqual([])
})

test('refuses a wrong option with one line that names it', { timeout: 60_000 }, async () => {
  const [type, option] = await Promise.all([demo('--execution-type', 'prod'), demo('--bogus')])
  expect(type.stderr).toMatch(
    /^demo: option '--execution-type <type>' argument 'prod' is invalid.*playground, runtime, eval.*\n$/,
  )
  expect(option.stderr).toMatch(/^demo: unknown option '--bogus'.*--help\)\n$/)
  expect([type.code, option.code]).toEqual([2, 2])
})
