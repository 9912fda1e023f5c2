import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo, endless } from '../../test/agents-at-hand.ts'
import { post } from '../../test/rpc-requests.ts'
import { createGateway } from '../gateway.ts'
import type { AgentCall } from '../agents/agent-call.ts'
import { inboundRoute } from './inbound-route.ts'
import { loneRouteFrom } from './lone-call.ts'

const REVISION = 'io.modelcontextprotocol/protocolVersion'
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

describe('a call is alone', () => {
  test('if it is plainly right', () => {
    expect(loneRouteFrom(inboundRoute(called(), bodyOf({})), called())).toBeDefined()
  })

  test.each<[string, Changed]>([
    ['asks for progress', { meta: { progressToken: 1 } }],
    ['asks for logs', { meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }],
    ['is of another method', { method: 'tools/list' }],
    ['names another tool in its header', { headers: { 'mcp-name': 'other' } }],
    ['names its tool in Base64', { headers: { 'mcp-name': '=?base64?ZWNobw==?=' } }],
    ['names another method in its header', { headers: { 'mcp-method': 'tools/list' } }],
    ['is of another revision', { meta: { [REVISION]: '2027-01-01' } }],
  ])('not if it %s', (_, changed) => {
    const request = called(changed)
    expect(loneRouteFrom(inboundRoute(request, bodyOf(changed)), request)).toBeUndefined()
  })
})

/** The last message that came; all runs have one name. */
async function messageOf(response: Response): Promise<unknown> {
  const text = (await response.text()).replace(/run_[0-9a-f]+/, 'run')
  const at = text.lastIndexOf('data: {')
  return JSON.parse(at < 0 ? text : text.slice(at + 6))
}

test('is answered as all others are', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const alone = await gateway.fetch(called())
  const other = await gateway.fetch(called({ meta: { progressToken: 1 } }))
  expect([alone.status, alone.headers.get('content-type')]).toEqual([200, 'application/json'])
  const [first, second] = [await messageOf(alone), await messageOf(other)]
  expect(first).toEqual(second)
  expect(first).toMatchObject({ id: 7, result: { content: [{ text: 'Hi' }] } })
})

test('of a tool that is not there is an error of the protocol', async () => {
  await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
  const response = await gateway.fetch(called({ name: 'none', headers: { 'mcp-name': 'none' } }))
  expect(response.status).toBe(200)
  expect(await response.json()).toMatchObject({ id: 7, error: { code: -32_602 } })
})

test('ends when its client leaves, and when the gateway is closed', async () => {
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
