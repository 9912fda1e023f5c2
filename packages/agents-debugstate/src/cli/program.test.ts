import { startTestServer } from '@x/mcp-testing'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { debugState, runDebugState } from '../../test/run-debugstate.ts'
import { temporaryFolder } from '../../test/temporary-folder.ts'
import { createDebugStateServer } from '../server/create-debug-state-server.ts'
import type { DebugStateServer } from '../server/create-debug-state-server.ts'
import { MemoryDebugStateStore } from '../server/memory-debug-state-store.ts'

const TOKEN = 'token-of-the-agent'
const KEY = 'mcpsession:f1:shop'
const NOW = Date.parse('2026-11-01T10:00:00.000Z')

afterEach(() => vi.useRealTimers())

interface World extends AsyncDisposable {
  readonly env: Record<string, string>
  readonly server: DebugStateServer
}

/** Starts a service with one session of `agent`, written three minutes ago. */
async function startWorld(): Promise<World> {
  vi.setSystemTime(NOW)
  const store = new MemoryDebugStateStore()
  const tokens = [{ token: TOKEN, agentIds: ['agent', 'empty'] }]
  const server = createDebugStateServer({ store, tokens })
  const address = { agentId: 'agent', key: KEY }
  await store.put(address, Buffer.from('session-1'), { ttlMs: 86_400_000 })
  vi.setSystemTime(NOW + 185_000)
  const env = { DEBUGSTATE_URL: await server.listen(), DEBUGSTATE_TOKEN: TOKEN }
  return { env, server, [Symbol.asyncDispose]: () => server.close() }
}

describe('help', () => {
  test.each([['--help'], ['-h'], ['help']])('%s lists the commands', async (arg) => {
    const { exitCode, out, err } = await debugState([arg])
    expect([exitCode, err]).toEqual([0, ''])
    for (const name of ['serve', 'list', 'get', 'delete', '--version']) expect(out).toContain(name)
  })

  test.each(['serve', 'list', 'get', 'delete'])('of %s fits on a terminal', async (name) => {
    const { exitCode, out } = await debugState([name, '--help'])
    expect(exitCode).toBe(0)
    expect(out).toMatch(new RegExp(`^Usage: debugstate ${name} `))
    expect(out).toContain('--help')
    expect(out.split('\n').filter((line) => line.length > 104)).toEqual([])
    expect((await debugState(['help', name])).out).toBe(out)
  })

  test('--version prints the version of the package', async () => {
    expect((await debugState(['--version'])).out).toMatch(/^\d+\.\d+\.\d+\S*\n$/)
  })
})

describe('a wrong command line', () => {
  test.each([
    [[], 'A command is missing (see debugstate --help)'],
    [['lst'], "unknown command 'lst' (Did you mean list?) (see debugstate --help)"],
    [['--bogus'], "unknown option '--bogus' (see debugstate --help)"],
    [['list', 'agent', '--bogus'], "unknown option '--bogus' (see debugstate list --help)"],
    [['list', 'agent', '--tokn=secret'], "unknown option '--tokn' (see debugstate list --help)"],
    [['list'], "missing required argument 'agentId' (see debugstate list --help)"],
    [['get', 'agent'], "missing required argument 'key' (see debugstate get --help)"],
    [['get', 'agent', 'a', 'b'], 'Expected 2 arguments but got 3: agent, a, b.'],
    [['list', '-agent'], "unknown option '-agent'"],
    [['list', 'a/b'], "value 'a/b' is invalid for argument 'agentId'. An agent id has 1 to 128"],
    [['list', 'agent'], 'The address of the service is missing: add --url or set DEBUGSTATE_URL'],
    [['list', 'agent', '--url', 'ftp://host'], '--url must be an http(s) URL'],
    [['list', 'agent', '--url', 'http://user:secret@host'], '--url must be an http(s) URL'],
    [
      ['serve', '--port', '70000'],
      "'--port <n>' argument '70000' is invalid. It must be a whole number from 0 to 65535.",
    ],
    [
      ['serve', '--ttl', '3 weeks'],
      "'--ttl <time>' argument '3 weeks' is invalid. It must be a time such as 90s",
    ],
    [
      ['serve', '--store', 'files'],
      "'--store <kind>' argument 'files' is invalid. Allowed choices are sqlite, redis, memory.",
    ],
    [['serve', '--store', 'memory', '--db', 'x'], '--db needs --store sqlite, not memory'],
    [['serve', '--store', 'redis'], '--store redis needs --redis-url or DEBUGSTATE_REDIS_URL'],
    [['serve', '--redis-url', 'http://user:secret@host'], '--redis-url must be redis://host:port'],
    [['serve', '--host', '0.0.0.0'], 'on this machine only, not on 0.0.0.0: add --token-file'],
    [['serve', 'here'], 'Expected 0 arguments but got 1: here.'],
  ])('%j ends with exit code 2 and one line on standard error', async (args, message) => {
    const { exitCode, out, err } = await debugState(args)
    expect([exitCode, out]).toEqual([2, ''])
    expect(err).toContain(message)
    expect(err).toMatch(/^debugstate: .+\n$/)
    expect(err).not.toContain('secret')
  })
})

test('a wrong level in DEBUGSTATE_LOG_LEVEL ends with exit code 2', async () => {
  const { exitCode, err } = await debugState(['serve', '--store=memory', '--port=0'], {
    env: { DEBUGSTATE_LOG_LEVEL: 'loud' },
  })
  expect(exitCode).toBe(2)
  expect(err).toBe(
    'debugstate: DEBUGSTATE_LOG_LEVEL must be debug, info, warn, error, silent, not "loud"\n',
  )
})

describe('list', () => {
  test('prints a table, without values', async () => {
    await using world = await startWorld()
    const { env } = world
    const { exitCode, out } = await debugState(['list', 'agent'], { env })
    expect(exitCode).toBe(0)
    expect(out).toBe(
      [
        'KEY                 SIZE    AGE  EXPIRES IN\n',
        'mcpsession:f1:shop   9 B  3 min        23 h\n',
      ].join(''),
    )
    expect((await debugState(['list', 'empty'], { env })).out).toBe(
      'Nothing is stored for empty.\n',
    )
  })

  test('prints JSON for programs, without values', async () => {
    await using world = await startWorld()
    const json = await debugState(['list', 'agent', '--json'], { env: world.env })
    expect(JSON.parse(json.out)).toEqual({
      agentId: 'agent',
      keys: [
        {
          key: KEY,
          bytes: 9,
          ageMs: 185_000,
          updatedAt: '2026-11-01T10:00:00.000Z',
          expiresAt: '2026-11-02T10:00:00.000Z',
        },
      ],
      truncated: false,
    })
  })

  test('escapes control characters of keys, and shows a message for a truncated list', async () => {
    const entry = { bytes: 1, ageMs: 0, updatedAt: '2026-11-01', expiresAt: '2026-11-02' }
    await using service = await startTestServer((_request, response) => {
      const keys = [{ key: 'a\u001B[2J', ...entry }]
      response.end(JSON.stringify({ agentId: 'a', keys, truncated: true }))
    })
    const { out } = await debugState(['list', 'a', '--url', new URL(service.url).origin])
    expect(out).toContain('a\\u{1b}[2J')
    expect(out).toContain('Note: there are more keys than the list contains.\n')
  })
})

describe('get and delete', () => {
  test('print a value as it is stored, and delete it', async () => {
    await using world = await startWorld()
    const { env } = world
    expect(await debugState(['get', 'agent', KEY], { env })).toEqual({
      exitCode: 0,
      out: 'session-1',
      err: '',
    })
    expect((await debugState(['get', 'agent', KEY], { env, isTTY: true })).out).toBe('session-1\n')
    expect((await debugState(['delete', 'agent', KEY], { env })).out).toBe(`Deleted ${KEY}\n`)
    for (const name of ['get', 'delete']) {
      const { exitCode, out, err } = await debugState([name, 'agent', KEY], { env })
      expect([exitCode, out]).toEqual([1, ''])
      expect(err).toBe(
        `debugstate: Nothing is stored for agent under "${KEY}": see debugstate list agent\n`,
      )
    }
  })

  test('escape control characters of a value on a terminal', async () => {
    await using service = await startTestServer((_request, response) => {
      response.end('a\u001B[2Jb\u009Bc\n')
    })
    const { origin } = new URL(service.url)
    const args = ['get', 'agent', 'key', '--url', origin]
    expect((await debugState(args, { isTTY: true })).out).toBe('a\\u{1b}[2Jb\\u{9b}c\n')
    expect((await debugState(args)).out).toBe('a\u001B[2Jb\u009Bc\n')
  })
})

describe('an error is one line that says what to do', () => {
  test('for a token that the service refuses', async () => {
    await using world = await startWorld()
    const wrong = { env: { ...world.env, DEBUGSTATE_TOKEN: 'token-that-is-wrong' } }
    const unknown = await debugState(['list', 'agent'], wrong)
    expect(unknown.exitCode).toBe(1)
    expect(unknown.err).toContain('answered 401: Send a known token')
    expect(unknown.err).toMatch(/set DEBUGSTATE_TOKEN\n$/)
    expect(unknown.err).not.toContain('token-that')
    const other = await debugState(['list', 'other'], { env: world.env })
    expect(other.err).toContain('answered 403: The token is not for this agent: use a token for')
  })

  test('for a service that cannot be reached', async () => {
    const { exitCode, err } = await debugState(['list', 'a', '--url', 'http://127.0.0.1:1'])
    expect(exitCode).toBe(1)
    expect(err).toMatch(
      /^debugstate: The connection to the debug-state service at http:\/\/127\.0\.0\.1:1 failed: check --url \(.*ECONNREFUSED.*\)\n$/,
    )
  })

  test.each([
    [200, '<html>', 'did not answer with a list'],
    [200, '{"agentId":"a","keys":[{"key":1}],"truncated":false}', 'did not answer with a list'],
    [404, 'gone', 'answered 404: check --url and --path-prefix'],
    [500, '{"detail":"a\\nb"}', 'answered 500: a b'],
  ])('for a service of another kind: %i %s', async (status, body, message) => {
    await using service = await startTestServer((_request, response) => {
      response.writeHead(status).end(body)
    })
    const { exitCode, err } = await debugState(['list', 'a', '--url', new URL(service.url).origin])
    expect(exitCode).toBe(1)
    expect(err).toContain(message)
    expect(err).toMatch(/^debugstate: .+\n$/)
  })
})

describe('serve', () => {
  test('prints its address, serves, and stops with 0', async () => {
    await using folder = await temporaryFolder()
    const run = runDebugState(['serve', '--port=0', '--db', folder.file('state.db')])
    await run.stdout.has('\n')
    const url = run.stdout.text.trim()
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await debugState(['list', 'agent', '--url', url])).exitCode).toBe(0)
    run.signal('SIGTERM')
    expect(await run.exitCode).toBe(0)
    expect(run.stderr.text).toContain('"msg":"no tokens: every user of this machine may read')
  })

  test('prints one line for a port in use, and for a store that cannot be opened', async () => {
    await using folder = await temporaryFolder()
    await using world = await startWorld()
    const { port } = new URL(world.env['DEBUGSTATE_URL'] ?? '')
    const taken = await debugState(['serve', '--store=memory', '--port', port])
    expect(taken.exitCode).toBe(1)
    expect(taken.err).toContain(`127.0.0.1:${port} is in use: choose another port`)
    const bad = await debugState(['serve', '--port=0', '--db', folder.path])
    expect(bad.exitCode).toBe(1)
    expect(bad.err).toMatch(/^debugstate: .*cannot be used.*\n$/)
    const redis = ['serve', '--port=0', '--redis-url=redis://user:secret@127.0.0.1:1']
    const away = await debugState(redis)
    expect([away.exitCode, away.out]).toEqual([1, ''])
    expect(away.err).toMatch(/^debugstate: .*Redis.*\n$/)
    expect(away.err).not.toContain('secret')
  })

  test('does not start with a token file that cannot be read', async () => {
    await using folder = await temporaryFolder()
    const file = folder.file('no-such-file')
    const { exitCode, err } = await debugState(['serve', '--token-file', file])
    expect(exitCode).toBe(1)
    expect(err).toContain(`The token file ${file} cannot be read`)
    const both = ['serve', '--token-file', file]
    const twice = await debugState(both, { env: { DEBUGSTATE_TOKENS: `${TOKEN} *` } })
    expect([twice.exitCode, twice.err]).toEqual([2, expect.stringContaining('both set')])
  })
})
