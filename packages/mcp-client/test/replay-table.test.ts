// Which requests are sent again: each failure × each retry setting × each kind of request × era. The server counts how
// often it received a request, and how often it executed the tool.
import { freePort, lossForms, startRecordingProxy, startReplaceableServer } from '@x/mcp-testing'
import type { InjectedAction, RecordingProxy, ReplaceableServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClient, McpClientError } from '../src/index.ts'
import type { McpClientOptions } from '../src/index.ts'
import { is, misled, startSetting, stopClock } from './setting.ts'

/** Retry settings. Without a retry, each failure is reported, but its session is replaced. */
const settings = {
  'session-loss': { replay: 'session-loss' },
  idempotent: { replay: 'idempotent' },
  never: { replay: 'never' },
  'no retries': { replay: 'idempotent', maxRetries: 0 },
} as const satisfies Readonly<Record<string, McpClientOptions>>
type SettingName = keyof typeof settings
const settingNames = Object.keys(settings) as readonly SettingName[]

/** The kinds of requests, and how the server counts them. */
const requests = {
  /** A tool without annotations. */
  tool: { method: 'tools/call', send: (client: McpClient) => client.callTool('fail') },
  /** A call with `idempotent: true`. */
  allowed: {
    method: 'tools/call',
    send: (client: McpClient) => client.callTool('fail', {}, { idempotent: true }),
  },
  /** A tool with the annotation `readOnlyHint`. */
  declared: {
    method: 'tools/call',
    send: (client: McpClient) => client.callTool('echo', { text: 'x' }),
  },
  list: {
    method: 'tools/list',
    send: (client: McpClient) => client.listTools({ forceRefresh: true }),
  },
} as const
type RequestKind = keyof typeof requests
const kinds = Object.keys(requests) as readonly RequestKind[]

/** `answered`, or the code or name of the error. */
type Expected = Readonly<Record<RequestKind, string>>

const all = (answer: string): Expected => ({
  tool: answer,
  allowed: answer,
  declared: answer,
  list: answer,
})
/** An ambiguous refusal that is not sent again. A tool has another code than a list. */
const refused: Expected = { ...all('OUTCOME_UNKNOWN'), list: 'SESSION_LOST' }
const broken: Expected = all('OUTCOME_UNKNOWN')
const answered: Expected = all('answered')
const unlessDoubtful = (unanswered: Expected): Readonly<Record<SettingName, Expected>> => ({
  'session-loss': { ...answered, tool: 'OUTCOME_UNKNOWN', declared: 'OUTCOME_UNKNOWN' },
  idempotent: { ...answered, tool: 'OUTCOME_UNKNOWN' },
  never: unanswered,
  'no retries': unanswered,
})
const always = (answer: Expected): Readonly<Record<SettingName, Expected>> => ({
  'session-loss': answer,
  idempotent: answer,
  never: answer,
  'no retries': answer,
})

interface Fault {
  readonly proxy: RecordingProxy
  readonly server: ReplaceableServer
  /** Leads the next POST to a port where no server listens. */
  readonly mislead: () => void
}

interface Failure {
  readonly eras: readonly ('legacy' | 'modern')[]
  readonly cause: (fault: Fault, method: string) => void
  readonly expected: Readonly<Record<SettingName, Expected>>
  /** True if the server executed the failed attempt. */
  readonly runs?: boolean
  /** True if the client opens another session. */
  readonly heals?: boolean
}

const bothEras = ['legacy', 'modern'] as const

function once(action: InjectedAction): Failure['cause'] {
  return ({ proxy }, method) => void proxy.inject({ match: is.method(method), times: 1, action })
}

const message = {
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level: 'info', data: 1 },
}

const failures: Readonly<Record<string, Failure>> = {
  'the server refused the session, and nothing else': {
    eras: ['legacy'],
    cause: ({ server }) => server.legacy.forgetSessions(),
    expected: {
      'session-loss': answered,
      idempotent: answered,
      never: all('SESSION_LOST'),
      'no retries': all('SESSION_LOST'),
    },
    heals: true,
  },
  'a refusal that proves nothing': {
    eras: ['legacy'],
    cause: once(lossForms['200-32001']),
    expected: unlessDoubtful(refused),
    heals: true,
  },
  'a refusal after another message of the request had come': {
    eras: ['legacy'],
    cause: once({
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      body: `data: ${JSON.stringify(message)}\n\ndata: {"error":"Session not found"}\n\n`,
    }),
    expected: unlessDoubtful(refused),
    heals: true,
  },
  'the connection broke before the answer': {
    eras: bothEras,
    cause: once('reset-after'),
    expected: unlessDoubtful(broken),
    runs: true,
  },
  'the answer broke off': {
    eras: bothEras,
    cause: once('cut-stream'),
    expected: unlessDoubtful(broken),
    runs: true,
  },
  'no connection': {
    eras: bothEras,
    cause: ({ mislead }) => mislead(),
    expected: {
      'session-loss': { ...all('UNREACHABLE'), allowed: 'answered' },
      idempotent: answered,
      never: all('UNREACHABLE'),
      'no retries': all('UNREACHABLE'),
    },
  },
  'the server was busy, and read nothing': {
    eras: bothEras,
    cause: once({ status: 429, headers: { 'retry-after': '1' } }),
    expected: {
      'session-loss': answered,
      idempotent: answered,
      never: all('REJECTED'),
      'no retries': all('REJECTED'),
    },
  },
  'the server was busy': {
    eras: bothEras,
    cause: once({ status: 503, headers: { 'retry-after': '1' } }),
    expected: {
      'session-loss': { ...answered, tool: 'REJECTED', declared: 'REJECTED' },
      idempotent: { ...answered, tool: 'REJECTED' },
      never: all('REJECTED'),
      'no retries': all('REJECTED'),
    },
  },
  'the server was busy for longer than the call may take': {
    eras: bothEras,
    cause: once({ status: 429, headers: { 'retry-after': '3600' } }),
    expected: always(all('REJECTED')),
  },
  'the server was busy, and named no time': {
    eras: bothEras,
    cause: once({ status: 429 }),
    expected: always(all('REJECTED')),
  },
  'an error of the server': {
    eras: bothEras,
    cause: once({
      status: 200,
      body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: 'No' } }),
    }),
    expected: always(all('McpError')),
  },
  'an error of HTTP': {
    eras: bothEras,
    cause: once({ status: 500, body: 'on fire', headers: { 'retry-after': '1' } }),
    expected: always(all('REJECTED')),
  },
}

const cases = Object.entries(failures).flatMap(([name, failure]) =>
  failure.eras.flatMap((era) =>
    settingNames.flatMap((setting) =>
      kinds.map((kind) => {
        const expected = failure.expected[setting][kind]
        return { name, failure, era, setting, kind, expected }
      }),
    ),
  ),
)

describe('the outcome of a request, and how often it was executed', () => {
  test.each(cases)(
    "$name, $era, '$setting', $kind: $expected",
    async ({ name, failure, era, setting, kind, expected }) => {
      const { cause, runs = false, heals = false } = failure
      const wrongPort = await freePort()
      let isMisled = false
      await using dispatcher = misled(() => {
        const origin = isMisled ? `http://127.0.0.1:${wrongPort}` : undefined
        isMisled = false
        return origin
      })
      await using server = await startReplaceableServer(era)
      await using proxy = await startRecordingProxy(server.url)
      const retryTiming = { wait: async () => {}, random: () => 0 }
      await using client = new McpClient(
        { url: proxy.url },
        // Without a listening stream, which could be misled in place of the request.
        { ...settings[setting], dispatcher: dispatcher.value, retryTiming, listen: false },
      )
      await client.listTools() // shows what tools declare
      const { method, send } = requests[kind]
      const mark = proxy.mark()
      cause({ proxy, server, mislead: () => (isMisled = true) }, method)
      expect(await send(client).then(() => 'answered', nameOf)).toBe(expected)

      const isRepeated = expected === 'answered'
      const attempts = (isRepeated ? 2 : 1) - (name === 'no connection' ? 1 : 0)
      expect(mark.count({ rpcMethod: method })).toBe(attempts)
      const executions = server.ledger.executions('fail') + server.ledger.executions('echo')
      const expectedRuns = Number(isRepeated) + Number(runs)
      expect(executions).toBe(method === 'tools/call' ? expectedRuns : 0)
      await client.ping()
      expect(client.status().epoch).toBe(heals ? 2 : 1)
    },
  )

  test.each(settingNames)(
    'never sends a request again after a time-out or an abort: %s',
    async (name) => {
      await using setting = await startSetting({ client: settings[name] })
      const { client, proxy } = setting
      await client.listTools()
      proxy.inject({ match: is.method('ping'), action: 'hang' })
      stopClock()
      const late = client.ping({ timeoutMs: 30 }).catch(nameOf)
      await proxy.waitFor(is.method('ping'))
      vi.advanceTimersByTime(30)
      expect(await late).toBe('TIMEOUT')
      const caller = new AbortController()
      const left = client.ping({ signal: caller.signal }).catch(nameOf)
      await proxy.waitFor(() => proxy.count({ rpcMethod: 'ping' }) === 2)
      caller.abort(new RangeError('enough'))
      expect(await left).toBe('RangeError')
      expect(proxy.count({ rpcMethod: 'ping' })).toBe(2)
      expect(proxy.count({ rpcMethod: 'initialize' })).toBe(1)
    },
  )
})

function nameOf(error: unknown): string {
  if (McpClientError.is(error)) return error.code
  return error instanceof Error ? error.name : String(error)
}
