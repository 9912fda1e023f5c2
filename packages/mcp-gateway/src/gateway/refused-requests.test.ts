import { expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../../test/agents-at-hand.ts'
import { initialize } from '../../test/rpc-requests.ts'
import { bearerAuth } from '../http/auth/bearer.ts'
import { createGateway } from '../gateway.ts'
import type { GatewayOptions } from '../options.ts'
import { gatewayLog, auditObserver } from './logger.ts'
import type { GatewayLogger } from '../internal/logger.ts'
import { allObservers, type RefusedRequest } from '../internal/observer.ts'

const TOKEN = 'the-token-of-ada-0123456789'
const WRONG = 'a-token-that-somebody-guessed'
const auth = bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } })
const authorization = `Bearer ${TOKEN}`
const clientAddress = (): string => '192.0.2.1'

interface Told {
  readonly refused: readonly RefusedRequest[]
  readonly log: string
  readonly metrics: string
}

/** Sends these one after the other. @returns what was told of them */
async function toldOf(
  requests: readonly Request[],
  options: Partial<GatewayOptions> = { auth },
): Promise<Told> {
  const refused: RefusedRequest[] = []
  let log = ''
  const output = { write: (line: string) => void (log += line) }
  const requestRefused = (refusal: RefusedRequest): void => void refused.push(refusal)
  const observer = allObservers([auditObserver(gatewayLog('info', output)), { requestRefused }])
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo })],
    observer,
    ...options,
    clientAddress,
    http: { metricsPath: '/metrics', ...options.http },
  })
  for (const request of requests) await (await gateway.fetch(request)).text()
  const metrics = await (await gateway.fetch(new Request('http://localhost/metrics'))).text()
  return { refused, log, metrics }
}

const address = '192.0.2.1'

test.each<[RefusedRequest['reason'], number, Request]>([
  ['no_credential', 401, initialize()],
  ['bad_credential', 401, initialize({ authorization: `Bearer ${WRONG}` })],
  ['bad_credential', 400, initialize({ authorization: `Bearer ${WRONG} ${WRONG}` })],
  ['origin', 403, initialize({ authorization, origin: 'https://evil.example' })],
])('reports a request that is refused for %s (%i)', async (reason, status, request) => {
  const { refused, log, metrics } = await toldOf([request])
  expect(refused).toEqual([{ reason, status, address }])
  expect(metrics).toContain(`mcp_gateway_refused_requests_total{reason="${reason}"} 1`)
  expect(log).not.toContain(WRONG)
})

test('reports no request that is accepted', async () => {
  const { refused, metrics } = await toldOf([initialize({ authorization })])
  expect(refused).toEqual([])
  expect(metrics).not.toContain('mcp_gateway_refused_requests_total{')
})

test('reports a credential that cannot be checked as unavailable', async () => {
  const away = { authenticate: async () => new Response(null, { status: 503 }) }
  const { refused } = await toldOf([initialize({ authorization })], { auth: away })
  expect(refused).toEqual([{ reason: 'unavailable', status: 503, address }])
})

test('reports the name of a caller with too many requests', async () => {
  const { refused } = await toldOf([initialize({ authorization }), initialize({ authorization })], {
    auth,
    requestsPerMinute: 1,
  })
  expect(refused).toEqual([{ reason: 'too_many', status: 429, principal: 'ada', address }])
})

test('reports downloads without a credential, and counts links', async () => {
  const file = (query: string): Request => new Request(`http://localhost/artifacts/a.txt${query}`)
  const { refused } = await toldOf([file(''), file('?sig=x'), file('?sig=x')], {
    auth,
    requestsPerMinute: 1,
  })
  expect(refused.map(({ reason }) => reason)).toEqual(['no_credential', 'too_many'])
})

test('writes an audit line for a refused credential, and none for a first request without one', async () => {
  const { log } = await toldOf([initialize(), initialize({ authorization: `Bearer ${WRONG}` })])
  const lines = log.split('\n').filter((line) => line.includes('"audit"'))
  expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
    expect.objectContaining({
      level: 'info',
      event: 'audit',
      action: 'sign_in',
      outcome: 'bad_credential',
      status: 401,
      address,
    }),
  ])
})

test('refuses a request whose address the function of the operator cannot tell, in both servers', async () => {
  const log: (string | undefined)[] = []
  const add: GatewayLogger['warn'] = (_message, details) => void log.push(details?.error)
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ echo })],
    auth,
    clientAddress: () => {
      throw new Error('no such header')
    },
    log: { warn: add, error: add },
  })
  expect((await gateway.fetch(initialize({ authorization }))).status).toBe(500)
  const { url } = await gateway.listen({ port: 0 })
  expect((await fetch(new URL('/healthz', url))).status).toBe(500)
  expect(log).toHaveLength(2)
  expect(log[0]).toContain('no such header')
})
