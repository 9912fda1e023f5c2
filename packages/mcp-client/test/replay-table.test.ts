// Which requests are sent again: each failure, under each policy, for each kind of request. The server counts how
// often it received a request, and how often it executed the tool.
import { freePort, lossForms } from '@x/mcp-testing'
import type { InjectedAction } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import { McpClientError } from '../src/index.ts'
import type { McpClient, McpClientOptions } from '../src/index.ts'
import { is, misled, startSetting, stopClock } from './setting.ts'
import type { Setting } from './setting.ts'

type ReplayPolicy = NonNullable<McpClientOptions['replay']>
const policies: readonly ReplayPolicy[] = ['session-loss', 'idempotent', 'never']

/** The kinds of requests, and how the server counts them. */
const requests = {
  /** A tool without annotations. */
  tool: { method: 'tools/call', send: (client: McpClient) => client.callTool('counter_add') },
  /** A call with `idempotent: true`. */
  allowed: {
    method: 'tools/call',
    send: (client: McpClient) => client.callTool('counter_add', {}, { idempotent: true }),
  },
  /** A tool with the annotation `readOnlyHint`. */
  declared: {
    method: 'tools/call',
    send: (client: McpClient) => client.callTool('echo', { text: 'x' }),
  },
  ping: { method: 'ping', send: (client: McpClient) => client.ping() },
  list: { method: 'resources/list', send: (client: McpClient) => client.listResources() },
} as const
type RequestKind = keyof typeof requests
const kinds = Object.keys(requests) as readonly RequestKind[]

/** `answered`, or the code or name of the error. */
type Expected = Readonly<Record<RequestKind, string>>

const all = (answer: string): Expected => ({
  tool: answer,
  allowed: answer,
  declared: answer,
  ping: answer,
  list: answer,
})
/** An ambiguous refusal without a retry. A tool has another code than a ping. */
const doubtful: Expected = { ...all('OUTCOME_UNKNOWN'), ping: 'SESSION_LOST', list: 'SESSION_LOST' }
const broken: Readonly<Record<ReplayPolicy, Expected>> = {
  'session-loss': { ...all('answered'), tool: 'OUTCOME_UNKNOWN', declared: 'OUTCOME_UNKNOWN' },
  idempotent: { ...all('answered'), tool: 'OUTCOME_UNKNOWN' },
  never: all('OUTCOME_UNKNOWN'),
}

interface Way {
  readonly fault: (setting: Setting, method: string) => void
  readonly expected: Readonly<Record<ReplayPolicy, Expected>>
  /** True if the server executed the failed attempt. */
  readonly runs: boolean
  /** True if the client opens another session. */
  readonly heals: boolean
}

function once(action: InjectedAction): Way['fault'] {
  return ({ proxy }, method) => {
    proxy.inject({ match: is.method(method), times: 1, action })
  }
}

const progress = {
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level: 'info', data: 1 },
}

const ways: Readonly<Record<string, Way>> = {
  'the server refused the session, and nothing else': {
    fault: ({ server }) => server.forgetSessions(),
    expected: {
      'session-loss': all('answered'),
      idempotent: all('answered'),
      never: all('SESSION_LOST'),
    },
    runs: false,
    heals: true,
  },
  'a refusal that proves nothing': {
    fault: once(lossForms['200-32001']),
    expected: {
      'session-loss': { ...all('answered'), tool: 'OUTCOME_UNKNOWN', declared: 'OUTCOME_UNKNOWN' },
      idempotent: { ...all('answered'), tool: 'OUTCOME_UNKNOWN' },
      never: doubtful,
    },
    runs: false,
    heals: true,
  },
  'a refusal after another message of the request had come': {
    fault: once({
      status: 200,
      headers: { 'content-type': 'text/event-stream' },
      body: `data: ${JSON.stringify(progress)}\n\ndata: {"error":"Session not found"}\n\n`,
    }),
    expected: {
      'session-loss': { ...all('answered'), tool: 'OUTCOME_UNKNOWN', declared: 'OUTCOME_UNKNOWN' },
      idempotent: { ...all('answered'), tool: 'OUTCOME_UNKNOWN' },
      never: doubtful,
    },
    runs: false,
    heals: true,
  },
  'the connection broke before the answer': {
    fault: once('reset-after'),
    expected: broken,
    runs: true,
    heals: false,
  },
  'the answer broke off': {
    fault: once('cut-stream'),
    expected: broken,
    runs: true,
    heals: false,
  },
  'no connection': {
    fault: () => {}, // see `startUnreachable`
    expected: {
      'session-loss': { ...all('UNREACHABLE'), allowed: 'answered' },
      idempotent: all('answered'),
      never: all('UNREACHABLE'),
    },
    runs: false,
    heals: false,
  },
  'an error of the server': {
    fault: once({
      status: 200,
      body: (id) => JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32000, message: 'No' } }),
    }),
    expected: {
      'session-loss': all('McpError'),
      idempotent: all('McpError'),
      never: all('McpError'),
    },
    runs: false,
    heals: false,
  },
  'an error of HTTP': {
    fault: once({ status: 500, body: 'on fire' }),
    expected: {
      'session-loss': all('REJECTED'),
      idempotent: all('REJECTED'),
      never: all('REJECTED'),
    },
    runs: false,
    heals: false,
  },
}

const cases = Object.entries(ways).flatMap(([way, how]) =>
  policies.flatMap((policy) =>
    kinds.map((kind) => ({ way, how, policy, kind, expected: how.expected[policy][kind] })),
  ),
)

describe('the outcome of a request, and how often it was executed', () => {
  test.each(cases)(
    "$way, '$policy', $kind: $expected",
    async ({ way, how, policy, kind, expected }) => {
      const wrongPort = await freePort()
      let isUnreachable = false
      await using dispatcher = misled(() => {
        const origin = isUnreachable ? `http://127.0.0.1:${wrongPort}` : undefined
        isUnreachable = false
        return origin
      })
      await using setting = await startSetting({
        client: { replay: policy, dispatcher: dispatcher.value },
      })
      const { client, server, proxy } = setting
      await client.listTools() // shows what tools declare
      const { method, send } = requests[kind]
      how.fault(setting, method)
      isUnreachable = way === 'no connection'
      const answer = await send(client).then(() => 'answered', nameOf)
      expect(answer).toBe(expected)

      const attempts = proxy.count({ rpcMethod: method })
      const isRepeated = expected === 'answered'
      expect(attempts).toBe((isRepeated ? 2 : 1) - (way === 'no connection' ? 1 : 0))
      const ran = Number(isRepeated) + Number(how.runs)
      const runs = server.executions('counter_add') + server.executions('echo')
      expect(runs).toBe(method === 'tools/call' ? ran : 0)
      await client.ping()
      expect(server.count('initialize')).toBe(how.heals ? 2 : 1)
    },
  )

  test.each(policies)(
    "never sends a request again after a time-out or an abort, policy '%s'",
    async (replay) => {
      await using setting = await startSetting({ client: { replay } })
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
