import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { sourceNode, startRedisServer } from '@x/internal/testing'
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

test('tells the whole story, with the figures as the last line', async () => {
  const { code, stdout } = await demo('--json')
  const lines = stdout.trimEnd().split('\n')
  const { ok, steps } = JSON.parse(lines.at(-1) ?? '')
  expect(steps.filter((step: { ok: boolean }) => !step.ok)).toEqual([])
  const redis = await startRedisServer() // as the demo does
  await redis?.[Symbol.asyncDispose]()
  expect(steps).toHaveLength(15)
  expect(steps.at(-1)).toMatchObject({ figures: { 'processes killed': redis ? 2 : 1 } })
  expect(ok).toBe(true)
  expect(code).toBe(0)
  expect(stdout).not.toContain('\u001B[')
  expect(lines.slice(0, -1).filter((line) => line.length > 80)).toEqual([])
})

test('refuses a wrong option with one line that names it', async () => {
  const [type, option] = await Promise.all([demo('--execution-type', 'prod'), demo('--bogus')])
  expect(type.stderr).toMatch(
    /^demo: option '--execution-type <type>' argument 'prod' is invalid.*playground, runtime, eval.*\n$/,
  )
  expect(option.stderr).toMatch(/^demo: unknown option '--bogus'.*--help\)\n$/)
  expect([type.code, option.code]).toEqual([2, 2])
})
