import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

import { deferred } from '@x/mcp-testing'
import { expect, test, vi } from 'vitest'

import { bearerAuth } from '../src/http/auth/bearer.ts'
import type { Gateway } from '../src/gateway.ts'
import { Runtime, type RuntimeEdges } from '../src/gateway/runtime.ts'
import type { GatewayObserver } from '../src/internal/observer.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import type { GatewayOptions } from '../src/options.ts'
import type { GatewayStore } from '../src/store/gateway-store.ts'
import { AgentsAtHand, echo, endless } from './agents-at-hand.ts'
import { JSON_HEADERS, modernParts } from './rpc-requests.ts'

const MIB = 1_048_576
const tokenOf = (name: string): string => `the-token-of-${name}-0123456789`

interface World extends AsyncDisposable {
  readonly gateway: Gateway
  readonly agents: AgentsAtHand
  readonly port: number
  readonly base: string
  /** Opens a connection that sends these requests and reads nothing. */
  unread(...requests: readonly string[]): Promise<Socket>
}

async function start(
  options: Partial<GatewayOptions> = {},
  edges: RuntimeEdges = {},
): Promise<World> {
  const agents = new AgentsAtHand({ echo, endless })
  const auth = bearerAuth({
    ada: { token: tokenOf('ada'), scopes: ['*'] },
    ben: { token: tokenOf('ben'), scopes: ['*'] },
  })
  // On a busy machine, the default of 30 s would end connections during a test.
  const gateway = new Runtime(
    { sources: [agents], auth, requestsPerMinute: 0, ...options },
    { writeTimeoutMs: 300_000, ...edges },
  )
  const { port } = await gateway.listen({ port: 0 })
  const sockets: Socket[] = []
  return {
    gateway,
    agents,
    port,
    base: `http://127.0.0.1:${port}`,
    async unread(...requests) {
      const socket = connect(port, '127.0.0.1').on('error', () => undefined)
      sockets.push(socket)
      await once(socket, 'connect')
      socket.pause().write(requests.join(''))
      return socket
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await gateway.close()
    },
  }
}

/** A request of a client without a session. */
function rpc(who: string, method: string, params: Record<string, unknown> = {}): RequestInit {
  const { message, headers } = modernParts(method, params)
  const authorization = `Bearer ${tokenOf(who)}`
  return {
    method: 'POST',
    headers: { authorization, ...JSON_HEADERS, ...headers },
    body: JSON.stringify(message),
  }
}

/** The same as text, for a raw connection. */
function raw({ headers, body }: RequestInit): string {
  const lines = Object.entries(headers as Record<string, string>).map(([k, v]) => `${k}: ${v}`)
  const text = body as string
  const head = ['POST /mcp HTTP/1.1', 'host: 127.0.0.1', ...lines, `content-length: ${text.length}`]
  return `${head.join('\r\n')}\r\n\r\n${text}`
}

async function upload({ base }: World, bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const headers = {
    authorization: `Bearer ${tokenOf('ada')}`,
    'content-type': 'application/octet-stream',
  }
  const answer = await fetch(`${base}/artifacts/big.bin`, { method: 'PUT', headers, body: bytes })
  const { uri } = (await answer.json()) as { uri: string }
  return uri
}

/** Resolves to all bytes until the connection ends. */
async function readAll(socket: Socket): Promise<Buffer> {
  const chunks: Buffer[] = []
  socket.on('data', (chunk: Buffer) => chunks.push(chunk)).resume()
  if (!socket.closed) await new Promise((resolve) => socket.once('close', resolve))
  return Buffer.concat(chunks)
}

/** Limits with which an unread answer of 8 MiB leaves no room for another one of the same caller. */
const LITTLE_ROOM = { unreadBytes: MIB }

async function large(world: World): Promise<string> {
  const uri = await upload(world, randomBytes(8 * MIB))
  return raw(rpc('ada', 'resources/read', { uri }))
}

/** 503 while the answer waits. */
async function statusOfList(world: World): Promise<number> {
  const { status, body } = await fetch(`${world.base}/mcp`, rpc('ada', 'tools/list'))
  await body?.cancel()
  return status
}

test('ends a connection that takes nothing of its answer', async () => {
  await using world = await start({}, { writeTimeoutMs: 1000, ...LITTLE_ROOM })
  const request = await large(world)
  const startedAt = performance.now()
  using now = vi.spyOn(performance, 'now').mockReturnValue(startedAt)
  const socket = await world.unread(request)
  await expect.poll(() => statusOfList(world)).toBe(503)
  now.mockReturnValue(startedAt + 2000)
  await expect.poll(() => statusOfList(world)).toBe(200)
  const received = await readAll(socket)
  const [, length = '0'] = /content-length: (\d+)/i.exec(received.toString('latin1')) ?? []
  expect(Number(length)).toBeGreaterThan(8 * MIB)
  expect(received.length).toBeLessThan(Number(length))
})

test('ends a download that is not read', async () => {
  const ended = deferred<string>()
  const observer: GatewayObserver = {
    fileTransferred: ({ direction, outcome }) => {
      if (direction === 'download') ended.resolve(outcome)
    },
  }
  await using world = await start({ observer }, { writeTimeoutMs: 200 })
  const uri = await upload(world, randomBytes(16 * MIB))
  const path = uri.replace('artifact://', '/artifacts/')
  const authorization = `authorization: Bearer ${tokenOf('ada')}`
  await world.unread(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1\r\n${authorization}\r\n\r\n`)
  expect(await ended.promise).toBe('lost')
})

test('serves requests that come without waiting one after the other, and answers in their order', async () => {
  await using world = await start({}, LITTLE_ROOM)
  const names = ['first', 'second', 'third']
  const calls = names.map((name) => {
    return raw(rpc('ada', 'tools/call', { name: 'echo', arguments: { message: `the ${name}` } }))
  })
  const socket = await world.unread(await large(world), ...calls)
  await expect.poll(() => statusOfList(world)).toBe(503)
  expect(world.agents.calls).toHaveLength(0)
  const found: string[] = []
  const all = deferred()
  let tail = ''
  socket.on('data', (chunk: Buffer) => {
    tail = tail.slice(-100) + chunk.toString('latin1')
    for (const name of names) {
      if (!found.includes(name) && tail.includes(`the ${name}`)) found.push(name)
    }
    if (found.length === names.length) all.resolve()
  })
  socket.resume()
  await all.promise
  expect(found).toEqual(names)
  expect(world.agents.calls).toHaveLength(3)
})

test('ends a connection that sends requests without end', async () => {
  await using world = await start()
  const callOf = (name: string): string => {
    return raw(rpc('ada', 'tools/call', { name, arguments: { message: 'Hi' } }))
  }
  const socket = await world.unread(callOf('endless'))
  const next = callOf('echo')
  while (!socket.destroyed) {
    socket.write(next)
    await setImmediate()
  }
  expect(world.agents.calls.map(({ agentId }) => agentId)).toEqual(['endless'])
})

test('counts the streams on which a caller listens with its other replies', async () => {
  await using world = await start({}, LITTLE_ROOM)
  await world.unread(await large(world))
  await expect.poll(() => statusOfList(world)).toBe(503)
  const listen = (who: string): Promise<Response> => {
    const authorization = `Bearer ${tokenOf(who)}`
    return fetch(`${world.base}/mcp`, { headers: { authorization, accept: 'text/event-stream' } })
  }
  expect((await listen('ada')).status).toBe(503)
  // Without a session, but with room: an answer of the caller that holds the most is dropped for it.
  expect((await listen('ben')).status).toBe(400)
  expect((await listen('ada')).status).toBe(400)
})

test('holds a bounded number of bytes for clients that do not read, and serves the others', async () => {
  const unreadBytes = 24 * MIB
  await using world = await start({ http: { metricsPath: '/metrics' } }, { unreadBytes })
  const uri = await upload(world, randomBytes(8 * MIB))
  const read = raw(rpc('ada', 'resources/read', { uri }))
  const before = memory()
  // The time stands still: otherwise, a busy machine needs so long that the answers count as stalled.
  using _ = vi.spyOn(performance, 'now').mockReturnValue(performance.now())
  for (let n = 0; n < 24; n++) {
    await world.unread(read)
    expect((await fetch(`${world.base}/healthz`)).status).toBe(200)
  }
  const list = (): Promise<Response> => fetch(`${world.base}/mcp`, rpc('ada', 'tools/list'))
  await expect.poll(async () => (await list()).status).toBe(503)
  const metrics = await (await fetch(`${world.base}/metrics`)).text()
  const held = Number(/^mcp_gateway_unread_bytes (\d+)$/m.exec(metrics)?.[1])
  // Two answers fit, and one more may have been on its way.
  expect(held).toBeGreaterThan(0.75 * unreadBytes)
  expect(held).toBeLessThan(unreadBytes + 16 * MIB)
  expect((memory() - before) / held).toBeLessThan(1.3)
  const refused = await list()
  expect(refused.headers.get('retry-after')).toBe('5')
  expect(await refused.text()).toContain('Nothing was executed')
  expect(world.agents.calls).toHaveLength(0)
  // Another caller is served: an answer of the caller that holds the most is dropped for it.
  const other = await fetch(`${world.base}/mcp`, rpc('ben', 'tools/list'))
  expect(other.status).toBe(200)
  expect(await other.text()).toContain('echo')
})

/** A store that reports reads of bytes. */
function storeTelling(onRead: () => void): GatewayStore {
  const store = new MemoryGatewayStore()
  const { blobs } = store
  const read = blobs.read.bind(blobs)
  blobs.read = (...args) => {
    onRead()
    return read(...args)
  }
  return store
}

test('leaves the event loop free between two large reads, for the time of one read', async () => {
  let turns = 0
  let isDone = false
  const reads: { readonly startedAt: number; readonly endedAt: number; readonly turns: number }[] =
    []
  const store = storeTelling(() => {
    const startedAt = performance.now()
    while (performance.now() < startedAt + 50);
    reads.push({ startedAt, endedAt: performance.now(), turns })
  })
  await using world = await start({ store })
  const uri = await upload(world, randomBytes(MIB))
  const count = (): void => {
    turns++
    if (!isDone) globalThis.setImmediate(count)
  }
  count()
  const read = async (): Promise<number> => {
    const answer = await fetch(`${world.base}/mcp`, rpc('ada', 'resources/read', { uri }))
    return (await answer.arrayBuffer()).byteLength
  }
  await Promise.all([read(), read()])
  isDone = true
  const [first, second] = reads
  expect((second?.startedAt ?? 0) - (first?.endedAt ?? 0)).toBeGreaterThan(40)
  expect((second?.turns ?? 0) - (first?.turns ?? 0)).toBeGreaterThan(1)
})

/** Memory in use, without garbage. */
function memory(): number {
  setFlagsFromString('--expose-gc')
  const collect: unknown = runInNewContext('gc')
  if (typeof collect === 'function') collect()
  const { arrayBuffers, heapUsed } = process.memoryUsage()
  return arrayBuffers + heapUsed
}

test('gives the whole answer to a client that takes longer than the write time-out', async () => {
  await using world = await start({}, { writeTimeoutMs: 500 })
  const uri = await upload(world, randomBytes(8 * MIB))
  const whole = deferred()
  let length = Infinity
  let received = 0
  // The time moves with the bytes, and stands still while a busy machine stops this process.
  const startedAt = performance.now()
  using now = vi.spyOn(performance, 'now')
  now.mockImplementation(() => startedAt + received / 5000)
  const socket = await world.unread(raw(rpc('ada', 'resources/read', { uri })))
  socket.on('data', (chunk: Buffer) => {
    if (received === 0) {
      const [head = '', found = '0'] =
        /^.*?content-length: (\d+).*?\r\n\r\n/is.exec(chunk.toString('latin1')) ?? []
      length = head.length + Number(found)
    }
    received += chunk.length
    if (received >= length) whole.resolve()
    socket.pause()
    setTimeout(() => socket.resume(), 5)
  })
  socket.resume()
  await whole.promise
  expect(now() - startedAt).toBeGreaterThan(2000)
})
