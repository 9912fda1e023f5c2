import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { askRedis, startOwnRedis, startRedisServer, temporaryFolder } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { createClient } from 'redis'
import { afterAll, describe, expect, test } from 'vitest'
import { bytesOf, writeNew } from '../../mcp-gateway/test/stored-bytes.ts'
import { redisStore } from './redis-store.ts'

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

/** Time limit of operations that must succeed on a slow machine. Milliseconds. */
const timeoutMs = 300_000

test('refuses an invalid `url` or `prefix` at once', () => {
  for (const options of [
    { url: 'http://host' },
    { url: 'x' },
    { prefix: 'a{b}' },
    { prefix: '' },
  ]) {
    expect(() => redisStore(options)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
  }
})

test.each([
  ['redis://h', 'the options must be { url, client'],
  [{ uri: 'redis://h' }, 'Did you mean "url"?'],
  [{ timeoutMs: 0 }, '"timeoutMs" must be a number from 1, not 0'],
])('refuses the options %o', (options, message) => {
  expect(() => Reflect.apply(redisStore as never, undefined, [options])).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test('exports the store, and its section of a configuration file', async () => {
  expect(Object.keys(await import('./index.ts'))).toEqual([
    'bullmqEngine',
    'fileSection',
    'redisStore',
  ])
})

const APPEND = { limits: { maxEvents: 1, ttlMs: 3_600_000 }, isLast: false }
/** A listener of a log. */
const NOBODY = { onEvent: () => undefined, onGap: () => undefined }

describe.runIf(redis)('the store in Redis', () => {
  const url = redis?.url ?? ''

  test('separates two prefixes, and gives all keys of one the same hash tag', async () => {
    await using one = redisStore({ url, prefix: 'one', timeoutMs })
    await using two = redisStore({ url, prefix: 'two', timeoutMs })
    await one.records.put('key', 1, { ttlMs: 3_600_000 })
    await one.logs.append('log', 1, APPEND)
    await writeNew(one.blobs, bytesOf(Buffer.from('x')), 1)
    await one.rates.take('bucket', 1)
    expect(await two.records.get('key')).toBeUndefined()
    const keys = await askRedis(url, 'KEYS', '*one*')
    expect(keys).toHaveLength(7)
    for (const key of Array.isArray(keys) ? keys : []) expect(key).toMatch(/^\{one\}:/)
  })

  test('leaves no keys of expired records, logs and buckets', async () => {
    await using store = redisStore({ url, prefix: 'ended', timeoutMs })
    await store.records.put('a', 1, { ttlMs: 20 })
    const limits = { maxEvents: 5, ttlMs: 20 }
    await store.logs.open('opened', { session: 's', owner: 'p', requestId: 1 }, limits)
    await store.logs.append('appended', 1, { limits, isLast: false })
    await store.rates.take('b', 60_000)
    const left = async (): Promise<unknown> => {
      await store.records.list('')
      return askRedis(url, 'KEYS', '{ended}*')
    }
    while (JSON.stringify(await left()) !== '[]');
    expect(await left()).toEqual([])
  })

  test('uses a client of the caller, and leaves it open', async () => {
    const client = createClient({ url })
    await client.connect()
    const store = redisStore({ client, prefix: 'borrowed', timeoutMs })
    await store.records.put('key', 'ä')
    expect(await store.records.get('key')).toMatchObject({ value: 'ä' })
    const heard = deferred<unknown>()
    await store.logs.tail('log', 'now', {
      onEvent: ({ event }) => heard.resolve(event),
      onGap: () => undefined,
    })
    await store.logs.append('log', 'ä', APPEND)
    expect(await heard.promise).toBe('ä')
    await store.close()
    expect(await client.ping()).toBe('PONG')
    client.destroy()
  })

  test('stores bytes in a shared folder', async () => {
    const blobFolder = await mkdtemp(join(tmpdir(), 'blobs-'))
    try {
      await using one = redisStore({ url, prefix: 'folder', blobFolder, timeoutMs })
      await using two = redisStore({ url, prefix: 'folder', blobFolder, timeoutMs })
      const { id } = await writeNew(one.blobs, bytesOf(Buffer.from('shared')), 10)
      const chunks: Uint8Array[] = []
      for await (const chunk of (await two.blobs.read(id)) ?? []) chunks.push(chunk)
      expect(Buffer.concat(chunks).toString()).toBe('shared')
      const [hour = ''] = await readdir(blobFolder)
      expect(await readdir(join(blobFolder, hour))).toEqual([id])
      expect(await askRedis(url, 'KEYS', '{folder}*')).toEqual([])
    } finally {
      await rm(blobFolder, { recursive: true })
    }
  })

  test('expires the bytes of a writer that was killed after any command', async () => {
    const client = createClient({ url })
    await client.connect()
    let left = 0
    const dying = new Proxy(client, {
      get(target, name) {
        if (name === 'sendCommand') {
          return (...args: Parameters<typeof client.sendCommand>) => {
            if (args[0][0] === 'EVALSHA' || args[0][0] === 'EVAL' || left-- > 0) {
              return target.sendCommand(...args)
            }
            throw new Error('killed')
          }
        }
        const value: unknown = Reflect.get(target, name)
        return typeof value === 'function' ? value.bind(target) : value
      },
    })
    for (const commands of [0, 1]) {
      left = commands
      const store = redisStore({ client: dying, prefix: `dying-${commands}`, timeoutMs })
      await writeNew(store.blobs, bytesOf(Buffer.from('x')), 1).catch(() => {})
      await store.close()
    }
    const keys = (await askRedis(url, 'KEYS', '{dying-*')) as string[]
    expect(keys.length).toBeGreaterThan(0)
    for (const key of keys) expect(await askRedis(url, 'PTTL', key)).toBeGreaterThan(0)
    client.destroy()
  })

  test('gives the bytes of a write that goes on their whole time', async () => {
    await using store = redisStore({ url, prefix: 'killed', timeoutMs })
    const written = deferred()
    const over = deferred()
    const source = async function* (): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(300_000)
      written.resolve()
      await over.promise
    }
    const writing = writeNew(store.blobs, source(), 1e6)
    await written.promise
    const [key] = (await askRedis(url, 'KEYS', '{killed}*')) as string[]
    expect(await askRedis(url, 'PTTL', key ?? '')).toBeGreaterThan(0)
    over.resolve()
    const { id } = await writing
    expect(key).toContain(id)
    expect(await askRedis(url, 'PTTL', key ?? '')).toBeGreaterThan(3_500_000)
  })

  test('rejects with UNAVAILABLE while Redis is down, and works again after that', async () => {
    await using server = await startOwnRedis()
    await using store = redisStore({ url: server.url, timeoutMs })
    await store.records.put('key', 1)
    expect(await store.isReady()).toBe(true)
    await server.stop()
    const message = expect.stringMatching(/^Redis at [\d.:]+ cannot be used: \S/)
    const unavailable = { name: 'GatewayError', code: 'UNAVAILABLE', message }
    await expect(store.records.get('key')).rejects.toMatchObject(unavailable)
    await expect(store.records.put('key', 1)).rejects.toMatchObject(unavailable)
    await expect(store.logs.append('s', 1, APPEND)).rejects.toMatchObject(unavailable)
    await expect(writeNew(store.blobs, bytesOf(Buffer.from('x')), 1)).rejects.toMatchObject(
      unavailable,
    )
    await expect(store.isReady()).rejects.toMatchObject(unavailable)
    await server.start()
    expect(await store.isReady()).toBe(true)
    expect(await store.records.put('key', 2, { ifVersion: null })).toBeDefined()
  })

  test('is not ready while Redis answers but is full, or while the shared folder cannot be written', async () => {
    await using server = await startOwnRedis()
    await using folder = await temporaryFolder()
    const blobFolder = join(folder.path, 'blobs')
    await using store = redisStore({ url: server.url, timeoutMs, blobFolder })
    expect(await store.isReady()).toBe(true)
    await askRedis(server.url, 'CONFIG', 'SET', 'maxmemory', '1')
    await expect(store.isReady()).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringMatching(/full|memory/),
    })
    await askRedis(server.url, 'CONFIG', 'SET', 'maxmemory', '0')
    expect(await store.isReady()).toBe(true)
    await rm(blobFolder, { recursive: true })
    await writeFile(blobFolder, 'a file in place of the folder')
    await expect(store.isReady()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
  })

  test('rejects within the limit while Redis does not answer, and works again after that', async () => {
    await using server = await startOwnRedis()
    await using store = redisStore({ url: server.url, timeoutMs: 200 })
    await expect.poll(() => store.isReady().catch(() => false)).toBe(true)
    server.pause()
    await expect(store.records.get('key')).rejects.toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('within 200 ms'),
    })
    await expect(store.logs.append('log', 1, APPEND)).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    server.resume()
    await expect.poll(() => store.isReady().catch(() => false)).toBe(true)
    expect(await store.records.get('key')).toBeUndefined()
  })

  test('names a wrong password as the reason, without showing it', async () => {
    await using server = await startOwnRedis('--requirepass', 'right-password')
    const [, host = ''] = server.url.split('//')
    await using store = redisStore({ url: `redis://:wrong-password@${host}`, timeoutMs })
    const error: unknown = await store.records.get('key').catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({
      code: 'UNAVAILABLE',
      message: expect.stringContaining('password and ACL'),
    })
    expect(String(error)).toContain(host)
    expect(String(error)).not.toContain('wrong-password')
  })

  test('counts rates in the process while Redis is down, and warns once each time', async () => {
    await using server = await startOwnRedis()
    const warnings: unknown[] = []
    const onWarning = (error: unknown): void => void warnings.push(error)
    const options = { url: server.url, timeoutMs, onWarning, now: () => 0 }
    await using store = redisStore(options)
    expect(await store.rates.take('b', 2)).toBe(0)
    await server.stop()
    const waits = [await store.rates.take('b', 2), await store.rates.take('b', 2)]
    expect([...waits, await store.rates.take('b', 2)]).toEqual([0, 0, 30_000])
    expect(warnings).toMatchObject([{ code: 'UNAVAILABLE' }])
    await server.start()
    expect(await store.rates.take('b', 2)).toBe(0)
    await server.stop()
    await store.rates.take('b', 2)
    expect(warnings).toHaveLength(2)
  })

  test('leaves no connection open after close(), and rejects with CLOSED', async () => {
    await using server = await startOwnRedis()
    const store = redisStore({ url: server.url, timeoutMs })
    await store.records.get('key')
    await store.logs.tail('log', 'now', NOBODY)
    await store.close()
    await store.close()
    const clients = async (): Promise<number> =>
      String(await askRedis(server.url, 'CLIENT', 'LIST'))
        .trim()
        .split('\n').length
    while ((await clients()) > 1);
    await expect(store.records.get('key')).rejects.toMatchObject({ code: 'CLOSED' })
    await expect(store.logs.tail('log', 'now', NOBODY)).rejects.toMatchObject({
      code: 'CLOSED',
    })
    expect(await clients()).toBe(1)
  })
})
