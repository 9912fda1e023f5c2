// An engine whose Redis is away, or refuses it, when it starts.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { OpenResources, sourceNode, startRedisServer } from '@x/internal/testing'
import type { RedisServer, RedisServerOptions } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { bullmqEngine } from '../src/index.ts'
import type { EngineGatewaySettings } from './engine-gateway.ts'

const probe = await startRedisServer()
await probe?.[Symbol.asyncDispose]()

async function startedRedis(options?: RedisServerOptions): Promise<RedisServer> {
  const redis = await startRedisServer(options)
  if (redis === undefined) throw new Error('There is no redis-server any more')
  return redis
}

/** Forwards connections to Redis, and breaks the first ones that send a command. */
async function startGate(redisUrl: string, { command = '', times = 0 } = {}) {
  const { port: target } = new URL(redisUrl)
  let left = times
  const server = createServer((socket) => {
    const other = connect(Number(target), '127.0.0.1')
    for (const one of [socket, other]) {
      one.on('error', () => {})
      one.on('close', () => (one === socket ? other : socket).destroy())
    }
    other.pipe(socket)
    socket.on('data', (data) => {
      if (left > 0 && data.toString('latin1').toUpperCase().includes(`\r\n${command}\r\n`)) {
        left--
        socket.destroy()
      } else other.write(data)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    url: `redis://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      server.close()
    },
  }
}

const execute = (): Promise<'ended'> => Promise.resolve('ended')

describe.runIf(probe)('an engine', () => {
  test('begins in a process that was started before Redis', async () => {
    await using resources = new OpenResources()
    const redis = resources.use(await startedRedis())
    await redis.stop()
    // Shows that the process has tried, and tries again.
    const tried = deferred()
    let attempts = 0
    const silent = createServer((socket) => {
      socket.on('error', () => {}).destroy()
      if (++attempts === 3) tried.resolve()
    }).listen(Number(new URL(redis.url).port), '127.0.0.1')
    await once(silent, 'listening')
    const folder = await mkdtemp(join(tmpdir(), 'engine-start-'))
    resources.defer(() => rm(folder, { recursive: true, force: true }))
    const settings: EngineGatewaySettings = {
      redis: redis.url,
      prefix: 'engine-start',
      folder,
      works: true,
    }
    const program = fileURLToPath(new URL('engine-process.ts', import.meta.url))
    const child = spawn(
      sourceNode,
      ['--conditions=mcp-source', program, JSON.stringify(settings)],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    const exited = once(child, 'exit')
    resources.defer(async () => {
      child.kill('SIGKILL')
      await exited
    })
    const first = Promise.race([
      once(createInterface({ input: child.stdout }), 'line'),
      exited.then((how) => ['ended', ...how]),
    ])
    expect(await Promise.race([tried.promise, first])).toBeUndefined()
    silent.close()
    await once(silent, 'close')
    await redis.start()
    expect((await first)[0]).toMatch(/^ready/)
  })

  test('rejects with CONFIG if Redis refuses its password', async () => {
    await using redis = await startedRedis({ args: ['--requirepass', 'secret'] })
    await using engine = bullmqEngine({ url: redis.url })
    await expect(engine.work(execute)).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringContaining('check user, password and ACL'),
    })
    const { host } = new URL(redis.url)
    await using other = bullmqEngine({ url: `redis://:secret@${host}` })
    const stop = await other.work(execute)
    await stop()
  })

  test('rejects with UNAVAILABLE while Redis does not answer, and begins later', async () => {
    await using redis = await startedRedis()
    await using engine = bullmqEngine({ url: redis.url })
    redis.pause()
    await expect(engine.work(execute)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    redis.resume()
    const stop = await engine.work(execute)
    await stop()
  })

  test.each(['SUBSCRIBE', 'INFO'])('begins after Redis went away at its %s', async (command) => {
    await using redis = await startedRedis()
    await using gate = await startGate(redis.url, { command, times: 1 })
    await using engine = bullmqEngine({ url: gate.url, onWarning: () => {} })
    const executed = deferred<string>()
    const executeRun = async (runId: string): Promise<'ended'> => {
      executed.resolve(runId)
      return 'ended'
    }
    const stop = await engine.work(executeRun).catch(() => engine.work(executeRun))
    await engine.submit('run')
    expect(await executed.promise).toBe('run')
    await stop()
  })

  test('queues a run after Redis went away when it opened its queue', async () => {
    await using redis = await startedRedis()
    await using gate = await startGate(redis.url, { command: 'INFO', times: 1 })
    await using engine = bullmqEngine({ url: gate.url, onWarning: () => {} })
    await expect(engine.submit('run')).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    await engine.submit('run')
    expect(await engine.countQueued()).toBe(1)
  })
})
