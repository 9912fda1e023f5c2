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
import { sourceNode, startRedisServer } from '@x/test-kit'
import { afterAll, expect, test } from 'vitest'

const PIECE = 65_536
const redis = await startRedisServer()
const folder = await mkdtemp(join(tmpdir(), 'transfer-'))
afterAll(async () => {
  await redis?.[Symbol.asyncDispose]()
  await rm(folder, { recursive: true })
})

const places = redis ? [folder, redis.url] : [folder]

async function startServer(where: string): Promise<{ port: number } & AsyncDisposable> {
  const program = fileURLToPath(new URL('transfer-server.ts', import.meta.url))
  const child = spawn(sourceNode, ['--conditions=mcp-source', program, where], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [line] = await once(createInterface(child.stdout), 'line')
  return {
    port: Number(line),
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

async function maxKiB(port: number): Promise<number> {
  return Number(await text(await ask(port, { path: '/memory' })))
}

/**
 * What Node itself needs to receive so many bytes is no figure of ours: its buffers become garbage, of which
 * V8 lets some 64 MiB come together. So the same bytes are sent to nobody first.
 */
test.each(places)(
  '100 MiB go in and out with no more than 64 MiB of memory (%s)',
  { timeout: 60_000 },
  async (where) => {
    await using server = await startServer(where)
    const { port } = server
    await inAndOut(port, 16)
    await text(await ask(port, { method: 'PUT', path: '/discard' }, pieces(1600)))
    const control = await maxKiB(port)
    await inAndOut(port, 1600)
    const after = await maxKiB(port)
    expect((after - control) / 1024).toBeLessThanOrEqual(64)
  },
)
