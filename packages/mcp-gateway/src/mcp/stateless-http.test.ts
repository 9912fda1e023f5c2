import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { post } from '../../test/rpc-requests.ts'
import { Runtime } from '../gateway/runtime.ts'
import { createGateway } from '../gateway.ts'
import type { AgentCall } from '../agents/agent.ts'
import { GatewayHandlers, type McpHandlers } from './handlers.ts'
import { classifyRequest, ownFilter, parseCall } from './stateless-http.ts'

const REVISION = 'io.modelcontextprotocol/protocolVersion'
const LEVEL = 'io.modelcontextprotocol/logLevel'
const META = {
  [REVISION]: '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
  'io.modelcontextprotocol/clientCapabilities': {},
}

interface Changed {
  readonly method?: string
  readonly name?: string
  readonly meta?: object
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

const NAME = 'echo'

function bodyOf({ method = 'tools/call', name = NAME, meta }: Changed): object {
  const params = { name, arguments: { message: 'Hi' }, _meta: { ...META, ...meta } }
  return { jsonrpc: '2.0', id: 7, method, params }
}

function called(changed: Changed = {}): Request {
  const { method = 'tools/call', headers, signal } = changed
  const own = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method, 'mcp-name': NAME }
  const request = post(bodyOf(changed), { ...own, ...headers })
  return signal ? new Request(request, { signal }) : request
}

describe('a call is answered without a server of the SDK', () => {
  test.each<[string, Changed]>([
    ['is valid', {}],
    ['asks for progress', { meta: { progressToken: 1 } }],
    ['asks for log messages', { meta: { [LEVEL]: 'debug' } }],
  ])('if it %s', (_, changed) => {
    const request = called(changed)
    expect(parseCall(classifyRequest(request, bodyOf(changed)), request)).toBeDefined()
  })

  test.each<[string, Changed]>([
    ['has a progress token that is an object', { meta: { progressToken: {} } }],
    ['asks for log messages of an unknown level', { meta: { [LEVEL]: 'loud' } }],
    ['is of another method', { method: 'tools/list' }],
    ['names another tool in its header', { headers: { 'mcp-name': 'other' } }],
    ['names its tool in Base64', { headers: { 'mcp-name': '=?base64?ZWNobw==?=' } }],
    ['names another method in its header', { headers: { 'mcp-method': 'tools/list' } }],
    ['is of another revision', { meta: { [REVISION]: '2027-01-01' } }],
    [
      'describes its client without a version',
      { meta: { 'io.modelcontextprotocol/clientInfo': { name: 'test' } } },
    ],
    [
      'declares a capability that is not an object',
      { meta: { 'io.modelcontextprotocol/clientCapabilities': { elicitation: true } } },
    ],
  ])('not if it %s', (_, changed) => {
    const request = called(changed)
    expect(parseCall(classifyRequest(request, bodyOf(changed)), request)).toBeUndefined()
  })
})

/** The messages of a response. All runs get one name. */
async function messagesOf(response: Response): Promise<readonly unknown[]> {
  const text = (await response.text()).replace(/run_[0-9a-f]+/, 'run')
  if (response.headers.get('content-type') === 'application/json') return [JSON.parse(text)]
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data = '']) => JSON.parse(data) as unknown)
}

/** The name of the tool in Base64 is valid, and makes the SDK serve the call. */
const SDK_HEADERS = { 'mcp-name': `=?base64?${btoa(NAME)}?=` }

test.each<[string, object]>([
  ['its result', {}],
  ['progress', { progressToken: 'p' }],
  ['log messages', { [LEVEL]: 'info' }],
  ['log messages of a higher level', { [LEVEL]: 'error' }],
  ['both', { progressToken: 0, [LEVEL]: 'debug' }],
])(
  'sends the same messages as a server of the SDK to a client that asks for %s',
  async (_, meta) => {
    const streaming = { channel: 'both' } as const
    const sources = [new AgentsAtHand({ echo })]
    await using gateway = createGateway({ sources, streaming })
    const own = await gateway.fetch(called({ meta }))
    const sdk = await gateway.fetch(called({ meta, headers: SDK_HEADERS }))
    expect(own.status).toBe(sdk.status)
    expect(own.headers.get('content-type')).toBe(sdk.headers.get('content-type'))
    const messages = await messagesOf(own)
    expect(messages).toEqual(await messagesOf(sdk))
    expect(messages.at(-1)).toMatchObject({ id: 7, result: { content: [{ text: 'Hi' }] } })
  },
)

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
  expect(await response.json()).toMatchObject({ id: 7, error: { code: -32_602 } })
})

test.each<[string, McpHandlers['handle']]>([
  ['an error that was not expected', () => Promise.reject(new Error('password 1234'))],
  ['a result that JSON cannot express', () => ({ content: [], count: 1n })],
])('returns an error without details for %s, and logs it', async (_, handle) => {
  const warnings: string[] = []
  await using assembly = new Runtime(
    { logger: { warn: (message) => void warnings.push(message), error: () => undefined } },
    (parts) => {
      const { serverInfo, instructions, methods } = new GatewayHandlers(parts)
      return { serverInfo, instructions, methods, capabilities: () => ({ tools: {} }), handle }
    },
  )
  const response = await assembly.fetch(called())
  expect(response.status).toBe(200)
  expect(await response.json()).toEqual({
    jsonrpc: '2.0',
    id: 7,
    error: { code: -32_603, message: 'Internal error' },
  })
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

function listening(resourceSubscriptions: unknown): object {
  const notifications = { toolsListChanged: true, resourceSubscriptions }
  return { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen', params: { notifications } }
}

const own = async (uri: string): Promise<string | undefined> =>
  uri.startsWith('a:own') ? uri.split('?')[0] : undefined

test('subscribes a listener to its own resources only, each once and by its name in notifications', async () => {
  const uris = ['a:own/1?version=2', 'a:other/1', 'a:own/1', 'no uri']
  const { body, followed } = await ownFilter(listening(uris), own)
  expect(body).toEqual(listening(['a:own/1']))
  expect(followed).toEqual(['a:own/1'])
})

test('subscribes a listener to nothing if there are no resources', async () => {
  expect(await ownFilter(listening(['a:own/1']), () => undefined)).toMatchObject({ followed: [] })
})

test.each([[null], [{}], [listening('a:own/1')], [listening([1, 'a:other/1'])], [{ params: [] }]])(
  'does not change another body: %j',
  async (body) => {
    expect(await ownFilter(body, own)).toEqual({ body, followed: [] })
  },
)
