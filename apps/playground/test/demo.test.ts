import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { sourceNode } from '@x/internal/testing'
import { freePort, startLegacyServer, startTestServer } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'

const MAIN = fileURLToPath(new URL('../src/main.ts', import.meta.url))
const SAMPLE = fileURLToPath(new URL('../src/story/agent.json', import.meta.url))
const SLOW = 120_000

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

/** Runs the command as a user does, with the Node.js of the project. */
function demo(...args: readonly string[]): Promise<Ended> {
  return demoWith({}, ...args)
}

/** Settings of a machine without `redis-server`. */
const WITHOUT_REDIS = { PATH: '/nowhere', REQUIRE_REDIS: '' }

function demoWith(
  settings: Readonly<Record<string, string>>,
  ...args: readonly string[]
): Promise<Ended> {
  return new Promise((resolve) => {
    const command = ['--conditions=mcp-source', MAIN, ...args]
    const env = { ...process.env, ...settings }
    execFile(sourceNode, command, { env }, (error, stdout, stderr) => {
      resolve({
        code: typeof error?.code === 'number' ? error.code : error ? -1 : 0,
        stdout,
        stderr,
      })
    })
  })
}

interface Folder extends AsyncDisposable {
  write(name: string, content: string): Promise<string>
}

async function temporaryFolder(): Promise<Folder> {
  const folder = await mkdtemp(join(tmpdir(), 'demo-test-'))
  return {
    async write(name, content) {
      await writeFile(join(folder, name), content)
      return join(folder, name)
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}

test('the whole story, with the result as the last line', { timeout: SLOW }, async () => {
  const { code, stdout, stderr } = await demo('--json', '--no-color')
  const result = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  expect(result.steps.filter(({ ok }: { ok: boolean }) => !ok)).toEqual([])
  expect(result).toMatchObject({ ok: true })
  expect(result.steps).toContainEqual(
    expect.objectContaining({
      name: 'resume in a new process',
      figures: expect.objectContaining({ POSTs: 1, 'old session id': true, counter: 11 }),
    }),
  )
  expect(result.steps).toContainEqual(
    expect.objectContaining({
      name: 'sub-agent in the same run',
      figures: expect.objectContaining({ initialize: 1, 'session ids': 1, DELETE: 1, counter: 5 }),
    }),
  )
  expect(result.steps).toContainEqual(
    expect.objectContaining({
      name: 'caller with a session',
      figures: expect.objectContaining({ revision: '2025-11-25', tools: 1, counter: 13 }),
    }),
  )
  expect(result.steps).toContainEqual(
    expect.objectContaining({
      name: 'caller without a session',
      figures: expect.objectContaining({ revision: '2026-07-28', tools: 1, counter: 15 }),
    }),
  )
  expect(result.steps).toContainEqual(
    expect.objectContaining({
      name: 'end of the offer',
      figures: { runs: 3, 'open requests': 0, listens: false, 'exit code': 0 },
    }),
  )
  const hasRedis = !stderr.includes('no redis-server')
  expect(result.steps.at(-1)).toMatchObject({
    name: 'call that outlives processes',
    figures: {
      'processes killed': hasRedis ? 2 : 1,
      'tools/call': 1,
      'runs of prepare': 1,
      'runs of write': hasRedis ? 2 : 1,
      answer: 'Report about tides: high water at 06:14',
    },
  })
  expect(stdout).not.toContain('\u001B[')
  expect(code).toBe(0)
})

test('ends sessions with the process for --execution-type runtime', { timeout: SLOW }, async () => {
  const args = ['--json', '--no-color', '--execution-type', 'runtime']
  const { code, stdout } = await demoWith(WITHOUT_REDIS, ...args)
  const { ok, steps } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  expect(steps.filter((step: { ok: boolean }) => !step.ok)).toEqual([])
  expect(steps).toContainEqual(
    expect.objectContaining({
      name: 'new session in a new process',
      figures: expect.objectContaining({ initialize: 1, counter: 1 }),
    }),
  )
  // Without Redis, only the agent process is killed.
  expect(stdout).toContain('With Redis, the call would also outlive the gateway process.')
  expect(steps.at(-1)).toMatchObject({
    name: 'call that outlives processes',
    figures: { 'processes killed': 1, 'tools/call': 1, 'runs of write': 1 },
  })
  expect(ok).toBe(true)
  expect(code).toBe(0)
})

test('a figure that is wrong is told, and the exit code is 1', { timeout: SLOW }, async () => {
  await using folder = await temporaryFolder()
  await using shop = await startLegacyServer({ assignSessions: false })
  const file = await folder.write('servers.json', JSON.stringify({ shop: shop.url }))
  const args = ['--json', '--no-color', '--servers', file]
  const { code, stdout } = await demoWith(WITHOUT_REDIS, ...args)
  const { ok, steps } = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
  expect(ok).toBe(false)
  expect(steps).toContainEqual(expect.objectContaining({ name: 'session loss', ok: false }))
  expect(stdout).toContain('counter is 17 and must be 10')
  expect(code).toBe(1)
})

async function expectRefused(args: readonly string[], ...parts: readonly string[]): Promise<void> {
  const { code, stderr } = await demo(...args)
  expect(stderr.trim().split('\n')).toHaveLength(1)
  for (const part of parts) expect(stderr).toContain(part)
  expect(stderr).not.toMatch(/\n\s+at /)
  expect(code).toBe(1)
}

describe('bad input is one line that names it, exit code 1, and no stack trace', () => {
  test('an agent.json that does not fit its schema', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    const resources = [{ $resourceType: 'mcp', name: 'Shop', slug: 'shop', isEnabled: 'yes' }]
    const file = await folder.write('agent.json', JSON.stringify({ resources }))
    await expectRefused(['--agent', file], file, '$.resources[0].isEnabled', 'expected boolean')
  })

  test('an unknown execution type', { timeout: SLOW }, async () => {
    await expectRefused(['--execution-type', 'prod'], '"prod"', 'playground, runtime, eval')
  })

  test('a file that is not JSON', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    const file = await folder.write('agent.json', 'nonsense')
    await expectRefused(['--agent', file], file, 'not JSON')
  })

  test('an unknown slug', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    const sample = await readFile(SAMPLE, 'utf8')
    const file = await folder.write('agent.json', sample.replace('"shop"', '"shopp"'))
    await expectRefused(['--agent', file], file, '"shopp"', 'known: shop, everything, calculator')
  })

  test('a server that is not there', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    const url = `http://127.0.0.1:${await freePort()}/mcp`
    const file = await folder.write('servers.json', JSON.stringify({ shop: url }))
    await expectRefused(['--servers', file], '"shop"', url, 'ECONNREFUSED')
  })

  test('a server URL that answers HTML', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    await using server = await startTestServer((_request, response) => {
      response.setHeader('content-type', 'text/html').end('<html><body>Welcome</body></html>')
    })
    const file = await folder.write('servers.json', JSON.stringify({ shop: server.url }))
    await expectRefused(['--servers', file], '"shop"', server.url, 'HTML')
  })

  test('a damaged SQLite file, which stays as it is', { timeout: SLOW }, async () => {
    await using folder = await temporaryFolder()
    const file = await folder.write('state.db', 'this is no database')
    await expectRefused(['--db', file], file, 'move it away')
    expect(await readFile(file, 'utf8')).toBe('this is no database')
  })
})
