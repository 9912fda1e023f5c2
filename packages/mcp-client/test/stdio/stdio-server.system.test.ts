import { execFile } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { inspect, promisify } from 'node:util'
import { everythingStdioCommand, sourceNode, temporaryFolder } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClientError, StaticServerDirectory } from '../../src/index.ts'
import type { McpClient } from '../../src/index.ts'
import { rejectionOf, statesOf, stopClock, recordEvents, textOf } from '../setting.ts'
import { isRunning, misbehaving, patientClient } from './misbehaving.ts'

const pidOf = async (client: McpClient): Promise<number> =>
  Number(textOf(await client.callTool('pid')))

/** Resolves with the first log message that contains the text. */
function logged(client: McpClient, what: string): Promise<string> {
  const found = deferred<string>()
  client.on('log', ({ message }) => {
    if (message.includes(what)) found.resolve(message)
  })
  return found.promise
}

/** The server as a child of a shell. It exits only after a signal. */
const lingering = misbehaving('linger')
const wrapped = {
  command: 'sh',
  args: ['-c', 'exec 3<&0; "$@" <&3 & wait', 'sh', lingering.command, ...(lingering.args ?? [])],
}

describe('a server on stdio', () => {
  test('starts at the first call, serves all calls, and ends at dispose()', async () => {
    const client = patientClient(everythingStdioCommand())
    const observed = recordEvents(client)
    expect(client.isClientInitialized).toBe(false)
    const [tools, result] = await Promise.all([
      client.listTools(),
      client.callTool('echo', { message: 'hello' }),
    ])
    expect(tools.map(({ name }) => name)).toContain('echo')
    expect(textOf(result)).toBe('Echo: hello')
    expect(await client.getSessionId()).toBeUndefined()
    expect(await client.listResources()).not.toEqual([])
    expect(await client.getPrompt('simple-prompt')).toHaveProperty('messages')
    await client.dispose()
    expect(statesOf(observed)).toEqual([
      'created>connecting',
      'connecting>handshaking',
      'handshaking>active',
      'active>disposing',
      'disposing>created',
    ])
    expect(textOf(await client.callTool('echo', { message: 'again' }))).toBe('Echo: again')
    await client.dispose()
  })

  test('creates no session store, and is not asked for its era', async () => {
    const createSession = (): never => {
      throw new Error('There is no session to keep')
    }
    const sessionInfoFactory = { createSession }
    await using client = patientClient(misbehaving(), { sessionInfoFactory })
    await client.ping()
    expect(client.status()).toMatchObject({ state: 'active', era: 'legacy', epoch: 1 })
  })

  test('gets the allowed variables, its env, and no other variable of this process', async () => {
    process.env['MCP_CLIENT_TEST_SECRET'] = 'of this process'
    try {
      const { command, args } = misbehaving()
      const env = { MODE: 'test', WHO: 'config' }
      await using client = patientClient({ command, args, env })
      const environment = JSON.parse(textOf(await client.callTool('env')))
      expect(environment).toMatchObject(env)
      expect(environment.PATH).toBe(process.env['PATH'])
      expect(environment).not.toHaveProperty('MCP_CLIENT_TEST_SECRET')
    } finally {
      delete process.env['MCP_CLIENT_TEST_SECRET']
    }
  })

  test('is found in a directory', async () => {
    const { command, args } = misbehaving()
    const server = { command, arguments: args, environmentVariables: { MODE: 'found' } }
    const directory = new StaticServerDirectory({ shop: server })
    await using client = patientClient({ slug: 'shop' }, { directory })
    expect(JSON.parse(textOf(await client.callTool('env')))).toMatchObject({ MODE: 'found' })
  })

  test('runs in its cwd, else in the folder of this process', async () => {
    await using folder = await temporaryFolder()
    const { command, args } = misbehaving()
    await using placed = patientClient({ command, args, cwd: folder.path })
    expect(textOf(await placed.callTool('cwd'))).toBe(folder.path)
    await using unplaced = patientClient({ command, args })
    expect(textOf(await unplaced.callTool('cwd'))).toBe(process.cwd())
  })

  test('gets the trace context of the caller, and no instructions for the transport', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    await using client = patientClient(misbehaving(), { traceContext: () => ({ traceparent }) })
    const result = await client.callTool('meta', {}, { meta: { a: 1 }, inputRequired: 'surface' })
    expect(JSON.stringify(result)).toContain(traceparent)
    const resume = { requestState: 'x', inputResponses: {} }
    await expect(client.callTool('meta', {}, { resume })).rejects.toThrow('2026-07-28')
  })
})

describe('a server on stdio that does not start', () => {
  /** On Windows, `cmd.exe` starts a command, and `cross-spawn` reports its exit as this error. */
  function reportMissingAtExit(message: unknown): void {
    const { process: child } = message as { process: ChildProcess }
    const emit = child.emit.bind(child)
    const error = Object.assign(new Error('spawn nothing ENOENT'), { code: 'ENOENT' })
    child.emit = (name: string, ...args: unknown[]) =>
      name === 'exit' ? emit('error', error) : emit(name, ...args)
  }

  test('says that a command was not found when the shell of Windows has exited', async () => {
    subscribe('child_process', reportMissingAtExit)
    try {
      await using client = patientClient({
        command: process.execPath,
        args: ['-e', 'process.exit(1)'],
      })
      const error = await rejectionOf(client.callTool('pid'))
      expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'not-executed' })
      expect(String(error)).toMatch(/not found \(ENOENT\)/)
    } finally {
      unsubscribe('child_process', reportMissingAtExit)
    }
  })

  test.each([
    [{ command: '/nonexistent/server', args: ['secret-arg'] }, /not found \(ENOENT\)/],
    [{ command: 'no-such-command-anywhere' }, /not found \(ENOENT\)/],
    [{ command: import.meta.filename, args: ['secret-arg'] }, /cannot be executed \(EACCES\)/],
    [
      { command: process.execPath, args: ['secret-arg'.repeat(20_000)] },
      /not be started \(E2BIG\)/,
    ],
    [{ command: process.execPath, cwd: '/nonexistent' }, /cwd \/nonexistent is not a folder/],
    [{ command: process.execPath, cwd: import.meta.filename }, /is not a folder/],
  ])('rejects the call with the reason of the operating system: %o', async (config, reason) => {
    await using client = patientClient(config)
    const error = await rejectionOf(client.callTool('pid'))
    expect(error).toMatchObject({ code: 'UNREACHABLE', outcome: 'not-executed' })
    expect(String(error)).toMatch(reason)
    expect(inspect(error, { depth: 9 })).not.toContain('secret-arg')
    expect(client.isClientInitialized).toBe(false)
  })

  test('reports exit code and standard error of a crash, without secrets', async () => {
    const { command, args } = misbehaving('crash-at-start', 'bad token: sk-12345678')
    await using client = patientClient({ command, args, env: { API_KEY: 'sk-12345678' } })
    const observed = recordEvents(client)
    const error = await rejectionOf(client.callTool('pid'))
    expect(error).toMatchObject({
      code: 'UNREACHABLE',
      outcome: 'not-executed',
      stderr: 'bad token: [removed]',
    })
    expect(String(error)).toContain('its process ended with exit code 3')
    expect(statesOf(observed).at(-1)).toBe('handshaking>created')
    const everything = inspect({ observed, error, status: client.status() }, { depth: 20 })
    expect(everything).toContain('node: bad token: [removed]')
    expect(everything).not.toMatch(/sk-12345678/)
  })

  test('has an invalid line as the cause of the error', async () => {
    await using client = patientClient(misbehaving('garbage'))
    const error = await rejectionOf(client.ping())
    if (!McpClientError.is(error) || !(error.cause instanceof Error)) throw error
    expect(error.code).toBe('UNREACHABLE')
    expect(String(error.cause.cause)).toContain(
      'not JSON-RPC (Unexpected token \'L\', "Listening "... is not valid JSON): it must write its logs to standard error',
    )
  })

  test('rejects the call at the time limit of the handshake, with its standard error, and leaves no process', async () => {
    stopClock()
    await using client = patientClient(misbehaving('silent'), { handshakeMs: 5000 })
    const said = logged(client, 'licence')
    const call = rejectionOf(client.ping())
    await said
    vi.advanceTimersByTime(5000)
    expect(await call).toMatchObject({
      code: 'TIMEOUT',
      outcome: 'not-executed',
      stderr: 'waiting for a licence', // only once: the client must not cancel `initialize`
    })
    expect(client.isClientInitialized).toBe(false)
  })

  test('rejects a stateless revision without starting the process', async () => {
    await using client = patientClient(misbehaving(), { era: 'modern' })
    expect(await rejectionOf(client.ping())).toMatchObject({ code: 'CONFIG' })
  })
})

describe('a server on stdio that exits', () => {
  test.each([
    ['crash', 'exit code 7', expect.stringContaining('Error: out of cheese')],
    ['kill', 'SIGKILL', undefined],
  ])(
    'rejects calls in flight with OUTCOME_UNKNOWN after %s, and sends nothing again to the next process',
    async (tool, how, stderr) => {
      await using client = patientClient(misbehaving())
      const observed = recordEvents(client)
      const before = await pidOf(client)
      const [error, other] = await Promise.all([
        rejectionOf(client.callTool(tool)),
        rejectionOf(client.callTool('hang')),
      ])
      expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown', tool, stderr })
      expect(String(error)).toContain(how)
      expect(other).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown', tool: 'hang' })
      expect(client.status().state).toBe('idle')
      expect(client.isClientInitialized).toBe(true)
      expect(await pidOf(client)).not.toBe(before)
      const replaced = observed.filter(({ event }) => event === 'sessionReplaced')
      expect(replaced.map(({ payload }) => payload)).toEqual([
        expect.objectContaining({ oldEpoch: 1, newEpoch: 2, reason: expect.stringContaining(how) }),
      ])
    },
  )

  test('is started again by the next call if it exited between calls', async () => {
    await using client = patientClient(misbehaving())
    const before = await pidOf(client)
    const idle = deferred()
    client.on('state', ({ to }) => {
      if (to === 'idle') idle.resolve()
    })
    process.kill(before, 'SIGKILL')
    await idle.promise
    expect(await pidOf(client)).not.toBe(before)
  })

  test('gets the log level of the client again before any call', async () => {
    await using client = patientClient(misbehaving())
    await client.setLoggingLevel('warning')
    const replaced = deferred()
    client.on('sessionReplaced', () => replaced.resolve())
    expect(await rejectionOf(client.callTool('crash'))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(textOf(await client.callTool('level'))).toBe('warning')
    await replaced.promise
  })

  test('gets an idempotent call again if replay allows it', async () => {
    await using client = patientClient(misbehaving(), { maxRetries: 3 })
    await client.ping()
    const error = await rejectionOf(client.callTool('crash', {}, { idempotent: true }))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(client.status().state).toBe('idle')
  })

  test.each([
    ['', '\n'],
    [', which has no line break', ''],
  ])('has its last response delivered%s', async (_, end) => {
    await using client = patientClient(misbehaving())
    expect(textOf(await client.callTool('answer-and-exit', { end }))).toBe('last words')
  })

  test('ends the session by closing its output', async () => {
    await using client = patientClient(misbehaving())
    const before = await pidOf(client)
    const error = await rejectionOf(client.callTool('close-output'))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await client.dispose()
    expect(isRunning(before)).toBe(false)
  })

  test('is ended after a line above the limit, and all calls in flight reject with LIMIT', async () => {
    await using client = patientClient(misbehaving(), { limits: { eventBytes: 50_000 } })
    const before = await pidOf(client)
    expect(await rejectionOf(client.callTool('huge'))).toMatchObject({
      code: 'LIMIT',
      outcome: 'unknown',
    })
    expect(await pidOf(client)).not.toBe(before)
  })
})

describe('output of a server on stdio', () => {
  test('delivers progress that arrives in one chunk with the response', async () => {
    await using client = patientClient(misbehaving())
    const observed: number[] = []
    const onProgress = ({ progress }: { progress: number }): void => void observed.push(progress)
    const result = await client.callTool('progress-and-answer', {}, { onProgress })
    expect(textOf(result)).toBe('done')
    expect(observed).toEqual([1, 2, 3])
  })

  test('logs and skips lines that are not messages', async () => {
    await using client = patientClient(misbehaving('chatty'))
    const said = logged(client, 'Server starting')
    await client.ping()
    expect(await said).toContain(
      'node: skipped a line that is not a JSON-RPC message (Unexpected token',
    )
  })

  test('does not block on a long standard error, and keeps its end', async () => {
    await using client = patientClient(misbehaving())
    const end = logged(client, 'the end')
    expect(textOf(await client.callTool('flood'))).toBe('ok')
    expect(await end).toBe('node: the end')
  })
})

describe('dispose()', () => {
  test.concurrent('rejects calls at once, and kills a server that ignores SIGTERM', async () => {
    const client = patientClient(misbehaving('ignore-end'))
    const pid = await pidOf(client)
    const isSent = logged(client, 'hanging')
    const error = rejectionOf(client.callTool('hang'))
    await isSent
    const disposing = client.dispose()
    expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'unknown' })
    expect(isRunning(pid)).toBe(true)
    await disposing
    expect(isRunning(pid)).toBe(false)
  })

  test.concurrent('ends processes that a server has started, also if the server has exited', async () => {
    const client = patientClient(misbehaving('grandchild'))
    const said = logged(client, 'grandchild ')
    await client.ping()
    const grandchild = Number((await said).split(' ').at(-1))
    expect(isRunning(grandchild)).toBe(true)
    await client.dispose()
    expect(await isGone(grandchild)).toBe(true)
  })

  test.concurrent('ends the server behind a wrapper such as npx, which passes no signals on', async () => {
    const client = patientClient(wrapped)
    const server = await pidOf(client)
    expect(await parentOf(server)).not.toBe(process.pid)
    await client.dispose()
    expect(await isGone(server)).toBe(true)
  })

  test.concurrent('ends the server behind a wrapper that was killed during a call', async () => {
    const client = patientClient(wrapped)
    const server = await pidOf(client)
    const isSent = logged(client, 'hanging')
    const call = rejectionOf(client.callTool('hang'))
    await isSent
    process.kill(await parentOf(server), 'SIGKILL')
    expect(await call).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
    await client.dispose()
    expect(await isGone(server)).toBe(true)
  })

  test.concurrent('ends processes that a crashed server left behind', async () => {
    const client = patientClient(misbehaving('grandchild'))
    const said = logged(client, 'grandchild ')
    await client.ping()
    const grandchild = Number((await said).split(' ').at(-1))
    expect(await rejectionOf(client.callTool('crash'))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await client.dispose()
    expect(await isGone(grandchild)).toBe(true)
  })

  test('ends the process during the handshake', async () => {
    const client = patientClient(misbehaving('silent'))
    const said = logged(client, 'licence')
    const error = rejectionOf(client.ping())
    await said
    await client.dispose()
    expect(await error).toMatchObject({ code: 'CLOSED', outcome: 'not-executed' })
  })

  test('leaves no process, handle or listener after 20 sessions', async () => {
    const count = (kind: string): number =>
      process.getActiveResourcesInfo().filter((one) => one === kind).length
    const cycle = async (): Promise<number> => {
      await using client = patientClient(misbehaving())
      return await pidOf(client)
    }
    await cycle() // creates objects that are created only once
    // Handles close shortly after the process or pipe.
    await expect.poll(() => count('ProcessWrap')).toBe(0)
    const pipes = count('PipeWrap')
    const exitListeners = process.listenerCount('exit')
    const timers = count('Timeout')
    const pids: number[] = []
    for (let turn = 0; turn < 20; turn++) pids.push(await cycle())
    expect(pids.filter(isRunning)).toEqual([])
    await expect.poll(() => count('ProcessWrap')).toBe(0)
    await expect.poll(() => count('PipeWrap')).toBeLessThanOrEqual(pipes)
    expect(process.listenerCount('exit')).toBe(exitListeners)
    expect(count('Timeout')).toBeLessThanOrEqual(timers)
  })
})

test('a process that exits without dispose() leaves no server behind', async () => {
  const script = fileURLToPath(new URL('exiting-process.ts', import.meta.url))
  const args = ['--conditions=mcp-source', script]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  const [{ text = '' } = {}] = JSON.parse(stdout) as { text?: string }[]
  await expect.poll(() => isGone(Number(text))).toBe(true)
})

async function parentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/stat`, 'utf8')
  return Number(status.slice(status.lastIndexOf(')')).split(' ')[2])
}

/** Counts a zombie as gone: without an init process, the zombie of a grandchild stays. */
async function isGone(pid: number): Promise<boolean> {
  if (!isRunning(pid)) return true
  const status = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => ') Z')
  return /\) [ZX]/.test(status)
}
