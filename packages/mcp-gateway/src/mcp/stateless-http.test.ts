import {
  classifyInboundRequest,
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from '@modelcontextprotocol/server'
import { describe, expect, test, vi } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { modern } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { AgentCall } from '../agents/agent.ts'
import { GatewayHandlers, type McpHandlers } from './handlers.ts'
import { classifyRequest } from './stateless-http.ts'
import { acceptFilter } from './subscriptions.ts'
import { anonymousPrincipal } from '../internal/principal.ts'

const REVISION = 'io.modelcontextprotocol/protocolVersion'
const LEVEL = 'io.modelcontextprotocol/logLevel'
const SERVER_INFO = 'io.modelcontextprotocol/serverInfo'
interface Changed {
  readonly method?: string
  readonly name?: string
  readonly meta?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

const NAME = 'echo'

function called({
  method = 'tools/call',
  name = NAME,
  meta = {},
  headers = {},
  signal,
}: Changed = {}): Request {
  const params = { name, arguments: { message: 'Hi' }, _meta: meta }
  const request = modern(method, params, { 'mcp-name': NAME, ...headers })
  return signal ? new Request(request, { signal }) : request
}

test.each<[string, Changed, object]>([
  [
    'names its tool in Base64',
    { headers: { 'mcp-name': `=?base64?${btoa(NAME)}?=` } },
    { result: {} },
  ],
  [
    'has a progress token that is an object',
    { meta: { progressToken: {} } },
    { error: { code: -32_600 } },
  ],
  [
    'asks for log messages of an unknown level',
    { meta: { [LEVEL]: 'loud' } },
    { error: { code: -32_602 } },
  ],
  [
    'names another tool in its header',
    { headers: { 'mcp-name': 'other' } },
    { error: { code: -32_020 } },
  ],
  [
    'names another method in its header',
    { headers: { 'mcp-method': 'tools/list' } },
    { error: { code: -32_020 } },
  ],
  ['is of an unknown method', { method: 'tools/none' }, { error: { code: -32_601 } }],
  [
    'is of another revision',
    { meta: { [REVISION]: '2027-01-01' }, headers: { 'mcp-protocol-version': '2027-01-01' } },
    { error: { code: -32_022, data: { supported: ['2026-07-28'] } } },
  ],
  [
    'describes its client without a version',
    { meta: { 'io.modelcontextprotocol/clientInfo': { name: 'test' } } },
    { error: { code: -32_602 } },
  ],
  [
    'declares a capability that is not an object',
    { meta: { 'io.modelcontextprotocol/clientCapabilities': { elicitation: true } } },
    { error: { code: -32_602 } },
  ],
])('answers a request that %s', async (_, changed, answer) => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })], log: false })
  const response = await gateway.fetch(called(changed))
  expect(await response.json()).toMatchObject({ id: 1, ...answer })
})

test('returns 404 for a method that the revision does not have', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })], log: false })
  const other = { method: 'resources/subscribe' }
  expect((await gateway.fetch(called(other))).status).toBe(404)
})

/** The messages of a response. All runs get one name. */
async function messagesOf(response: Response): Promise<readonly unknown[]> {
  const text = (await response.text()).replace(/run_[0-9a-f]+/, 'run')
  if (response.headers.get('content-type') === 'application/json') return [JSON.parse(text)]
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data) as unknown)
}

test.each<[string, object, readonly string[]]>([
  ['its result', {}, []],
  ['progress', { progressToken: 'p' }, ['notifications/progress']],
  ['log messages', { [LEVEL]: 'info' }, ['notifications/message']],
  ['log messages of a higher level', { [LEVEL]: 'error' }, []],
  [
    'both',
    { progressToken: 0, [LEVEL]: 'debug' },
    ['notifications/progress', 'notifications/message'],
  ],
])('answers on a stream a client that asks for %s', async (_, meta, methods) => {
  const streaming = { channel: 'both' } as const
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })], streaming })
  const response = await gateway.fetch(called({ meta }))
  const isStream = methods.length > 0
  expect(response.status).toBe(200)
  const type = isStream ? 'text/event-stream' : 'application/json'
  expect(response.headers.get('content-type')).toBe(type)
  const messages = await messagesOf(response)
  expect(messages.slice(0, methods.length)).toMatchObject(methods.map((method) => ({ method })))
  expect(messages.at(-1)).toEqual({
    jsonrpc: '2.0',
    id: 1,
    result: {
      content: [{ type: 'text', text: 'Hi' }],
      resultType: 'complete',
      _meta: expect.objectContaining({ [SERVER_INFO]: expect.anything() }),
    },
  })
})

test('cancels a call when its client leaves the stream', async () => {
  let call: AgentCall | undefined
  const source = new AgentsAtHand({
    echo(each) {
      call = each
      return endless(each)
    },
  })
  await using gateway = createGateway({ sources: [source] })
  const response = await gateway.fetch(called({ meta: { progressToken: 1 } }))
  const reader = response.body?.getReader()
  const { value } = (await reader?.read()) ?? {}
  expect(new TextDecoder().decode(value)).toContain('notifications/progress')
  await expect.poll(() => call?.signal.aborted).toBe(false)
  await reader?.cancel()
  await expect.poll(() => call?.signal.aborted).toBe(true)
})

test('returns a JSON-RPC error for an unknown tool', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const response = await gateway.fetch(called({ name: 'none', headers: { 'mcp-name': 'none' } }))
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ id: 1, error: { code: -32_602 } })
})

test.each<[string, McpHandlers['handle']]>([
  ['an error that was not expected', () => Promise.reject(new Error('password 1234'))],
  ['a result that JSON cannot express', () => ({ content: [], count: 1n })],
])('returns an error without details for %s, and logs it', async (_, handle) => {
  const warnings: string[] = []
  const log = { warn: (message: string) => void warnings.push(message), error: () => undefined }
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })], log })
  using spied = vi.spyOn(GatewayHandlers.prototype, 'handle').mockImplementation(handle)
  const response = await gateway.fetch(called())
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({
    jsonrpc: '2.0',
    id: 1,
    error: { code: -32_603, message: 'Internal error' },
  })
  expect(spied).toHaveBeenCalledOnce()
  expect(warnings).toEqual(['A call could not be answered'])
})

test('cancels a call when its client leaves, and when the gateway closes', async () => {
  const begun: AgentCall[] = []
  let bothBegan = (): void => undefined
  const underWay = new Promise<void>((resolve) => {
    bothBegan = resolve
  })
  const source = new AgentsAtHand({
    endless: (call) => {
      if (begun.push(call) === 2) bothBegan()
      return endless(call)
    },
  })
  await using gateway = createGateway({ sources: [source], http: { shutdownGraceMs: 0 } })
  const request = { name: 'endless', headers: { 'mcp-name': 'endless' } }
  const client = new AbortController()
  const left = gateway.fetch(called({ ...request, signal: client.signal }))
  const kept = gateway.fetch(called(request))
  await underWay
  client.abort()
  expect((await left).status).toBe(499)
  expect(begun.filter(({ signal }) => signal.aborted)).toHaveLength(1)
  await gateway.close()
  expect(await (await kept).json()).toMatchObject({ result: { isError: true } })
})

const caller = { principal: anonymousPrincipal() }
const listed = { listChanged: true }
const capabilities = { tools: listed, resources: { ...listed, subscribe: true } }
const resources = {
  followed: async (_: unknown, uri: string) =>
    uri.startsWith('a:own') ? uri.split('?')[0] : undefined,
}

test('subscribes a listener to its own resources only, each once and by its name in notifications', async () => {
  const resourceSubscriptions = ['a:own/1?version=2', 'a:other/1', 'a:own/1', 'no uri']
  const asked = { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions }
  expect(await acceptFilter(asked, caller, { capabilities, resources })).toEqual({
    toolsListChanged: true,
    resourceSubscriptions: ['a:own/1'],
  })
})

test('subscribes a listener to nothing if there are no resources', async () => {
  const asked = { resourceSubscriptions: ['a:own/1'] }
  const parts = { capabilities, resources: undefined }
  expect(await acceptFilter(asked, caller, parts)).toEqual({})
})

test.each([
  [null],
  [[]],
  [undefined],
  [{ resourceSubscriptions: 'a:own/1' }],
  [{ resourceSubscriptions: [1, 'a:other/1'] }],
])('refuses a malformed filter: %j', async (asked) => {
  await expect(acceptFilter(asked, caller, { capabilities, resources })).rejects.toMatchObject({
    code: -32_602,
  })
})

describe('classifyRequest()', () => {
  const info = { name: 'client', version: '1' }
  const envelope = {
    [PROTOCOL_VERSION_META_KEY]: '2026-07-28',
    [CLIENT_INFO_META_KEY]: info,
    [CLIENT_CAPABILITIES_META_KEY]: { elicitation: {} },
  }
  const anonymous = { ...envelope, [CLIENT_INFO_META_KEY]: undefined }
  const callWith = (meta: object | undefined, more: object = {}) => {
    const params = { name: 'echo', ...(meta && { _meta: meta }) }
    return { jsonrpc: '2.0', id: 1, method: 'tools/call', params, ...more }
  }
  const handshake = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: info }

  test.each<[string, unknown, Readonly<Record<string, string>>]>([
    ['a valid request', callWith(envelope), { version: '2026-07-28', method: 'tools/call' }],
    [
      'a progress token',
      callWith({ ...envelope, progressToken: 1 }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'a wrong token',
      callWith({ ...envelope, progressToken: {} }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    ['no client', callWith(anonymous), { version: '2026-07-28', method: 'tools/call' }],
    [
      'null as the client',
      callWith({ ...envelope, [CLIENT_INFO_META_KEY]: null }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'wrong capabilities',
      callWith({ ...envelope, [CLIENT_CAPABILITIES_META_KEY]: 1 }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'a wrong level',
      callWith({ ...envelope, [LOG_LEVEL_META_KEY]: 'loud' }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'another version',
      callWith({ ...envelope, [PROTOCOL_VERSION_META_KEY]: '2026-08-01' }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'another version in the header',
      callWith(envelope),
      { version: '2025-11-25', method: 'tools/call' },
    ],
    [
      'another method in the header',
      callWith(envelope),
      { version: '2026-07-28', method: 'tools/list' },
    ],
    ['no headers', callWith(envelope), {}],
    [
      'a result too',
      callWith(envelope, { result: {} }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    [
      'a wrong id',
      callWith(envelope, { id: null }),
      { version: '2026-07-28', method: 'tools/call' },
    ],
    ['no envelope', callWith(undefined), { version: '2026-07-28', method: 'tools/call' }],
    ['a session', callWith(undefined), { version: '2025-11-25' }],
    ['a session without a version', callWith(undefined), {}],
    ['a session and a wrong id', callWith(undefined, { id: {} }), { version: '2025-11-25' }],
    [
      'a handshake',
      { jsonrpc: '2.0', id: 1, method: 'initialize', params: handshake },
      { version: '2025-11-25' },
    ],
    ['a notification', { jsonrpc: '2.0', method: 'a' }, { version: '2025-11-25' }],
    ['a response', { jsonrpc: '2.0', id: 1, result: {} }, { version: '2025-11-25' }],
  ])('decides as the SDK does, also the second time: %s', (_, body, { version, method }) => {
    const valid = new Headers({ 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' })
    for (const meta of [envelope, anonymous]) {
      classifyRequest(
        { method: 'POST', headers: valid },
        JSON.parse(JSON.stringify(callWith(meta))),
      )
    }
    const parsed: unknown = JSON.parse(JSON.stringify(body))
    const headers = new Headers({
      ...(version !== undefined && { 'mcp-protocol-version': version }),
      ...(method !== undefined && { 'mcp-method': method }),
    })
    const expected = classifyInboundRequest({
      httpMethod: 'POST',
      ...(version !== undefined && { protocolVersionHeader: version }),
      ...(method !== undefined && { mcpMethodHeader: method }),
      body: parsed,
    })
    expect(classifyRequest({ method: 'POST', headers }, parsed)).toEqual(expected)
    expect(classifyRequest({ method: 'POST', headers }, parsed)).toEqual(expected)
  })
})
