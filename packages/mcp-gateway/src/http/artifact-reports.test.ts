import { createHash } from 'node:crypto'

import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'

import { AgentsAtHand } from '../../test/agents-at-hand.ts'
import { ManualClock, settled } from '../../test/manual-clock.ts'
import { inSession, openSession, post } from '../../test/rpc-requests.ts'
import { bearerAuth } from './auth/bearer.ts'
import type { Gateway } from '../gateway.ts'
import { Runtime } from '../gateway/runtime.ts'
import { gatewayLog, auditObserver } from '../gateway/logger.ts'
import { allObservers, type FileTransfer } from '../internal/observer.ts'
import type { GatewayOptions } from '../options.ts'

const TOKEN = 'the-token-of-ada-0123456789'
const authorization = `Bearer ${TOKEN}`
const TEXT = 'What nobody else should read'
const SHA256 = createHash('sha256').update(TEXT).digest('hex')

interface World extends AsyncDisposable {
  readonly gateway: Gateway
  readonly reported: FileTransfer[]
  readonly log: () => string
  /** Path of a file of Ada. */
  readonly path: string
  ask(path: string, init?: RequestInit): Promise<Response>
}

async function world(options: Pick<GatewayOptions, 'clock'> = {}): Promise<World> {
  const reported: FileTransfer[] = []
  let log = ''
  const fileTransferred = (transfer: FileTransfer): void => void reported.push(transfer)
  const output = { write: (line: string) => void (log += line) }
  const gateway = new Runtime(
    {
      sources: [new AgentsAtHand()],
      auth: bearerAuth({ ada: { token: TOKEN, scopes: ['*'] } }),
      observer: allObservers([auditObserver(gatewayLog('info', output)), { fileTransferred }]),
      clientAddress: () => '192.0.2.1',
      http: { metricsPath: '/metrics', publicUrl: 'http://localhost' },
      artifacts: { maxBytes: 100 },
      ...options,
    },
    { readMaxBytes: 1 },
  )
  const ask = (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers ?? { authorization })
    headers.set('host', 'localhost')
    return gateway.fetch(new Request(new URL(path, 'http://localhost'), { ...init, headers }))
  }
  const answer = await ask('/artifacts/secret-plans.txt', { method: 'PUT', body: TEXT })
  const { uri } = (await answer.json()) as { uri: string }
  return {
    gateway,
    reported,
    log: () => log,
    path: uri.replace('artifact://', '/artifacts/'),
    ask,
    [Symbol.asyncDispose]: () => gateway.close(),
  }
}

const who = { principal: 'ada', isAnonymous: false, isLinked: false, address: '192.0.2.1' }
const file = SHA256.slice(0, 12)

test('reports each upload and download with its caller and its bytes', async () => {
  await using w = await world()
  await (await w.ask(w.path)).text()
  expect(w.reported).toEqual([
    { direction: 'upload', ...who, file, outcome: 'ok', bytes: 28, durationMs: expect.any(Number) },
    {
      direction: 'download',
      ...who,
      file,
      outcome: 'ok',
      bytes: 28,
      durationMs: expect.any(Number),
    },
  ])
  const metrics = await (await w.ask('/metrics')).text()
  expect(metrics).toContain('mcp_gateway_file_transfers_total{direction="download",outcome="ok"} 1')
})

test('reports uploads and downloads that failed or were cut off', async () => {
  await using w = await world()
  const leaving = await w.ask(w.path)
  await leaving.body?.cancel()
  await (await w.ask(`${w.path.slice(0, -1)}9`)).text()
  await (await w.ask('/artifacts/b', { method: 'PUT', body: 'x'.repeat(101) })).text()
  expect(w.reported.slice(1)).toMatchObject([
    { direction: 'download', ...who, file, outcome: 'lost', bytes: 0 },
    { direction: 'download', ...who, file: undefined, outcome: 'not_found', bytes: 0 },
    { direction: 'upload', ...who, file: undefined, outcome: 'too_large', bytes: 0 },
  ])
})

test('ends an upload that comes byte by byte after five minutes, and keeps nothing of it', async () => {
  const clock = new ManualClock()
  await using w = await world({ clock })
  const begun = deferred()
  const cancelled = deferred()
  const body = new ReadableStream<Uint8Array>(
    {
      pull: (controller) => {
        controller.enqueue(Buffer.from('x'))
        begun.resolve()
        return new Promise((resolve) => {
          clock.after(10_000, resolve)
        })
      },
      cancel: () => cancelled.resolve(),
    },
    { highWaterMark: 0 },
  )
  const init: RequestInit & { duplex: 'half' } = { method: 'PUT', body, duplex: 'half' }
  const answer = w.ask('/artifacts/slow.txt', init)
  await begun.promise
  await clock.advance(300_000)
  expect((await answer).status).toBe(408)
  expect(await (await answer).json()).toMatchObject({ error: 'TIMEOUT' })
  expect(w.reported.at(-1)).toMatchObject({ direction: 'upload', outcome: 'too_slow', bytes: 0 })
  await clock.advance(10_000)
  await cancelled.promise
})

test('reports no caller for a download by a link', async () => {
  await using w = await world()
  const fetch = (request: Request): Promise<Response> => w.gateway.fetch(request)
  const id = await openSession(fetch, { authorization })
  const asked = async (method: string, params: object): Promise<string> => {
    const message = { jsonrpc: '2.0', id: 1, method, params }
    return (await fetch(post(message, inSession(id, { authorization })))).text()
  }
  const uri = w.path.replace('/artifacts/', 'artifact://')
  const linkIn = (text: string): string => /http:[^"\\]+/.exec(text)?.[0] ?? ''
  const download = linkIn(await asked('resources/read', { uri }))
  expect(await (await w.ask(download, { headers: {} })).text()).toBe(TEXT)
  expect(w.reported.slice(1)).toMatchObject([
    { direction: 'download', isLinked: true, principal: undefined, file, outcome: 'ok' },
  ])
})

test('logs a file without its name, its address and its content', async () => {
  await using w = await world()
  await (await w.ask(w.path)).text()
  await settled()
  const lines = w
    .log()
    .split('\n')
    .filter((line) => line.includes('"audit"'))
  expect(lines.map((line): unknown => JSON.parse(line))).toEqual([
    expect.objectContaining({ event: 'audit', action: 'upload', principal: 'ada', bytes: 28 }),
    expect.objectContaining({ event: 'audit', action: 'download', file, link: false, bytes: 28 }),
  ])
  const scope = w.path.split('/')[2] ?? ''
  for (const secret of ['secret-plans', scope, TEXT, TOKEN, SHA256]) {
    expect(w.log()).not.toContain(secret)
  }
})
