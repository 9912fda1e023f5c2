import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import type { IncomingMessage } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { sourceNode, startRedisServer } from '@x/internal/testing'
import { afterAll, expect, test } from 'vitest'

const PIECE = 65_536
const redis = await startRedisServer()
const folder = await mkdtemp(join(tmpdir(), 'transfer-'))
afterAll(async () => {
  await redis?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

const places = redis ? [folder, redis.url] : [folder]

interface TransferServer extends AsyncDisposable {
  /** Of the gateway. */
  readonly port: number
  /** Of what tells of its process. */
  readonly beside: number
}

async function startServer(where: string): Promise<TransferServer> {
  const program = fileURLToPath(new URL('transfer-server.ts', import.meta.url))
  const child = spawn(sourceNode, ['--conditions=mcp-source', program, where], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  const [port = 0, beside = 0] = String(line).split(' ').map(Number)
  return {
    port,
    beside,
    async [Symbol.asyncDispose]() {
      const exited = once(child, 'exit')
      child.stdin.end()
      await exited
    },
  }
}

async function ask(
  port: number,
  options: { method?: string; path: string },
  body: AsyncIterable<Uint8Array> | readonly Uint8Array[] = [],
): Promise<IncomingMessage> {
  const asking = request({ host: '127.0.0.1', port, ...options, agent: false })
  const answered = once(asking, 'response')
  await pipeline(body, asking)
  const [response] = await answered
  return response
}

async function* pieces(count: number): AsyncGenerator<Uint8Array> {
  for (let n = 0; n < count; n++) yield new Uint8Array(PIECE).fill(n % 251)
}

async function inAndOut(port: number, count: number): Promise<void> {
  const sent = createHash('sha256')
  for await (const piece of pieces(count)) sent.update(piece)
  const answer = await ask(port, { method: 'PUT', path: '/artifacts/large' }, pieces(count))
  const { uri, sha256 } = JSON.parse(await text(answer))
  expect(sha256).toBe(sent.digest('hex'))
  const received = createHash('sha256')
  const path = String(uri).replace('artifact://', '/artifacts/')
  for await (const chunk of await ask(port, { path })) received.update(chunk)
  expect(received.digest('hex')).toBe(sha256)
}

async function maxKiB({ beside }: TransferServer): Promise<number> {
  return Number(await text(await ask(beside, { path: '/memory' })))
}

/**
 * Sends the same bytes to a server that discards them first. Node itself needs memory to receive so many bytes: its
 * buffers become garbage, and V8 collects it only when there are about 64 MiB.
 */
test.each(places)(
  'transfers 100 MiB in and out, also for an agent, with at most 64 MiB of memory (%s)',
  async (where) => {
    await using server = await startServer(where)
    await inAndOut(server.port, 16)
    await text(await ask(server.beside, { method: 'PUT', path: '/discard' }, pieces(1600)))
    const control = await maxKiB(server)
    await inAndOut(server.port, 1600)
    expect((await maxKiB(server)) - control).toBeLessThanOrEqual(64 * 1024)
    expect(await text(await ask(server.beside, { path: '/run' }))).toBe('["resource_link"]')
    expect((await maxKiB(server)) - control).toBeLessThanOrEqual(64 * 1024)
  },
)
