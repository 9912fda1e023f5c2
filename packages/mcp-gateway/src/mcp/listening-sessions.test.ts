import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { settled } from '../../test/manual-clock.ts'
import { connect } from '../../test/mcp-clients.ts'
import { get, inSession, openSession } from '../../test/rpc-requests.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { Runtime } from '../gateway/runtime.ts'
import type { GatewayOptions } from '../options.ts'

const TOKEN = 'the-token-of-ada-0123456789'
const sources = [new AgentsAtHand({ echo })]
const here = '192.0.2.1'
const elsewhere = '192.0.2.2'

/** Returns a gateway that allows one listening stream for each address. */
function world(options: Partial<GatewayOptions> = {}) {
  const http = { proxies: 1 }
  const gateway = new Runtime({ sources, http, ...options }, { streamsPerAddress: 1 })
  const fetch = (request: Request): Promise<Response> => gateway.fetch(request)
  return {
    ask: (id: string, address: string) => fetch(get(inSession(id, { 'x-forwarded-for': address }))),
    listen: async (address: string, more: Readonly<Record<string, string>> = {}) => {
      const from = { 'x-forwarded-for': address, ...more }
      return fetch(get(inSession(await openSession(fetch, from), from)))
    },
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

test('limits the streams of anonymous sessions by address', async () => {
  await using w = world()
  for (let round = 0; round < 3; round++) {
    const one = await w.listen(here)
    expect(one.status).toBe(200)
    const refused = await w.listen(here)
    expect(refused.status).toBe(429)
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    const other = await w.listen(elsewhere)
    expect(other.status).toBe(200)
    await Promise.all([one.body?.cancel(), other.body?.cancel()])
    await settled()
  }
})

test('does not count requests that open no stream', async () => {
  await using w = world()
  for (let n = 0; n < 3; n++) expect((await w.ask('nobody-has-this', here)).status).toBe(404)
  const stream = await w.listen(here)
  expect(stream.status).toBe(200)
  await stream.body?.cancel()
})

test('limits the streams of a named caller by its sessions, not by address', async () => {
  await using w = world({ auth: bearerAuth(TOKEN) })
  const authorization = `Bearer ${TOKEN}`
  const streams = [await w.listen(here, { authorization }), await w.listen(here, { authorization })]
  expect(streams.map(({ status }) => status)).toEqual([200, 200])
  for (const { body } of streams) await body?.cancel()
})

test.each(['v1', 'v2 legacy'] as const)(
  'serves the calls of a client that may not listen (%s)',
  async (kind) => {
    await using gateway = new Runtime({ sources }, { streamsPerAddress: 1 })
    const { url } = await gateway.listen({ port: 0 })
    const id = await openSession((request) => gateway.fetch(request))
    const headers = { ...inSession(id), accept: 'text/event-stream' }
    const listening = await fetch(url, { headers })
    expect(listening.status).toBe(200)
    await using client = await connect(kind, url)
    const { content } = await client.callTool('echo', 'Hello')
    expect(content).toEqual([{ type: 'text', text: 'Hello' }])
    await listening.body?.cancel()
  },
)
