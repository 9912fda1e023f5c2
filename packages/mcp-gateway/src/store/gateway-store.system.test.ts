import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startRedisServer } from '@x/internal/testing'
import { deferred } from '@x/mcp-testing'
import { afterAll, describe, expect, test } from 'vitest'
import { redisStore } from '../../test/redis-store.ts'
import { bytesOf, writeNew } from '../../test/stored-bytes.ts'
import { DiskGatewayStore } from './sqlite-store.ts'
import type { GatewayStore, LoggedEvent, LogListener } from './gateway-store.ts'
import { MemoryGatewayStore } from './memory-store.ts'

/** A store under test. */
interface OpenStore extends AsyncDisposable {
  readonly store: GatewayStore
  /** The same store, opened as by another process where that is possible. */
  readonly other: GatewayStore
  /** Errors of listeners. */
  readonly errors: readonly unknown[]
  /** Time to live: long enough for a few steps of a test. Milliseconds. */
  readonly shortMs: number
  /** Resolves when `ended` returns true, after records with `shortMs` have expired. */
  untilEnded(this: void, ended: () => Promise<boolean>): Promise<void>
}

const redis = await startRedisServer()
afterAll(() => redis?.[Symbol.asyncDispose]())

type Open = (options: {
  readonly now: () => number
  readonly onError: (error: unknown) => void
}) => Promise<GatewayStore>

async function clocked(open: Open): Promise<OpenStore> {
  let now = 1_000_000
  const errors: unknown[] = []
  const store = await open({ now: () => now, onError: (error) => errors.push(error) })
  return {
    store,
    other: store,
    errors,
    shortMs: 1000,
    async untilEnded(ended) {
      expect(await ended()).toBe(false)
      now += 1000
      expect(await ended()).toBe(true)
    },
    [Symbol.asyncDispose]: () => store.close(),
  }
}

let opened = 0
const stores: Record<string, () => Promise<OpenStore>> = {
  memory: () => clocked(async (options) => new MemoryGatewayStore(options)),
  async disk() {
    const folder = await mkdtemp(join(tmpdir(), 'gateway-store-'))
    const open = await clocked(async (options) => new DiskGatewayStore(folder, options))
    return {
      ...open,
      async [Symbol.asyncDispose]() {
        await open[Symbol.asyncDispose]()
        await rm(folder, { recursive: true })
      },
    }
  },
}
if (redis) {
  stores['redis'] = async () => {
    const errors: unknown[] = []
    const onError = (error: unknown): void => void errors.push(error)
    const options = { url: redis.url, prefix: `contract-${opened++}`, timeoutMs: 300_000, onError }
    const [store, other] = [redisStore(options), redisStore(options)]
    return {
      store,
      other,
      errors,
      shortMs: 30,
      async untilEnded(ended) {
        while (!(await ended()));
      },
      async [Symbol.asyncDispose]() {
        await Promise.all([store.close(), other.close()])
      },
    }
  }
}

const LIMITS = { maxEvents: 1000, ttlMs: 3_600_000 }

interface LogReader extends LogListener {
  readonly events: readonly LoggedEvent[]
  readonly gaps: number
  /** Events, and `gap` for each gap, in the order of the calls. */
  readonly seen: readonly unknown[]
  /** Resolves after `count` events. */
  readonly done: Promise<void>
}

function readerOf(count: number): LogReader {
  const events: LoggedEvent[] = []
  const seen: unknown[] = []
  const { promise: done, resolve } = deferred()
  return {
    events,
    seen,
    done,
    get gaps() {
      return seen.filter((each) => each === 'gap').length
    },
    onEvent(event) {
      events.push(event)
      seen.push(event.event)
      if (events.length === count) resolve()
    },
    onGap: () => void seen.push('gap'),
  }
}

async function allOf(bytes: AsyncIterable<Uint8Array> | undefined): Promise<string | undefined> {
  if (!bytes) return undefined
  const chunks: Uint8Array[] = []
  for await (const chunk of bytes) chunks.push(chunk)
  return Buffer.concat(chunks).toString()
}

describe.each(Object.entries(stores))('the store %s', (_name, open) => {
  test('returns a copy of a stored record each time', async () => {
    await using opening = await open()
    const { store, other } = opening
    expect(await store.records.get('key')).toBeUndefined()
    const value = { text: 'ä', list: [1, null] }
    const version = await store.records.put('key', value)
    value.text = 'changed'
    expect(await other.records.get('key')).toEqual({
      value: { text: 'ä', list: [1, null] },
      version,
    })
    expect(await store.records.delete('key')).toBe(true)
    expect(await store.records.delete('key')).toBe(false)
    expect(await other.records.get('key')).toBeUndefined()
    await expect(store.records.put('key', undefined)).rejects.toThrow(TypeError)
  })

  test('counts the records whose keys begin with a prefix', async () => {
    await using opening = await open()
    const { store, other, shortMs, untilEnded } = opening
    for (const key of ['a', 'a:', 'a:1', 'a:ä', 'a:😀', 'b', 'a;']) await store.records.put(key, 1)
    expect(await other.records.count('a:')).toBe(4)
    expect(await other.records.count('c')).toBe(0)
    await store.records.put('a:2', 1, { ttlMs: shortMs })
    await untilEnded(async () => (await other.records.count('a:')) === 4)
    await store.records.delete('a:1')
    expect(await other.records.count('a:')).toBe(3)
    for (const key of ['a:b:1', 'a:b:2', 'a:b:2']) await store.records.put(key, 2)
    expect(await other.records.count('a:')).toBe(5)
    expect(await other.records.count('a:b:')).toBe(2)
    for (const key of ['a:b:1', 'a:b:2']) await store.records.delete(key)
    expect(await other.records.count('a:b:')).toBe(0)
    expect(await other.records.count('a:')).toBe(3)
  })

  test('writes and deletes a record only in the expected version', async () => {
    await using opening = await open()
    const { records } = opening.store
    const first = await records.put('key', 1, { ifVersion: null })
    expect(first).toEqual(expect.any(String))
    expect(await records.put('key', 2, { ifVersion: null })).toBeUndefined()
    const second = await records.put('key', 2, { ifVersion: first })
    expect(await records.put('key', 3, { ifVersion: first })).toBeUndefined()
    expect(await records.get('key')).toEqual({ value: 2, version: second })
    expect(await records.delete('key', first)).toBe(false)
    expect(await records.delete('key', second)).toBe(true)
    expect(await records.put('key', 3, { ifVersion: second })).toBeUndefined()
  })

  test('lets one of 50 writers write a version, and one of 50 callers take it', async () => {
    await using opening = await open()
    const { store, other } = opening
    const both = Array.from({ length: 50 }, (_, n) => (n % 2 ? store : other))
    const put = await Promise.all(both.map((at, n) => at.records.put('k', n, { ifVersion: null })))
    expect(put.filter((version) => version !== undefined)).toHaveLength(1)
    const taken = await Promise.all(both.map((at) => at.records.take('k')))
    expect(taken.filter((value) => value !== undefined)).toEqual([put.findIndex(Boolean)])
    expect(await store.records.get('k')).toBeUndefined()
  })

  test('expires records that are not touched and have a time to live', async () => {
    await using opening = await open()
    const { store, shortMs, untilEnded } = opening
    const { records } = store
    await records.put('stays', 0)
    // On a busy machine, its time may be over before it is touched.
    do await records.put('touched', 1, { ttlMs: shortMs })
    while (!(await records.touch('touched', 3_600_000)))
    await records.put('ends', 2, { ttlMs: shortMs })
    await untilEnded(async () => (await records.get('ends')) === undefined)
    expect(await records.take('ends')).toBeUndefined()
    expect(await records.touch('ends', shortMs)).toBe(false)
    expect((await records.list('')).map(({ key }) => key)).toEqual(['stays', 'touched'])
    expect(await records.put('ends', 3, { ifVersion: null })).toBeDefined()
  })

  test('removes the time to live when a write has none', async () => {
    await using opening = await open()
    const { store, shortMs, untilEnded } = opening
    await store.records.put('key', 1, { ttlMs: shortMs })
    await store.records.put('key', 2)
    await store.records.put('mark', 1, { ttlMs: shortMs })
    await untilEnded(async () => (await store.records.get('mark')) === undefined)
    expect(await store.records.get('key')).toMatchObject({ value: 2 })
  })

  test('lists records by prefix in pages, in the order of the bytes of their keys', async () => {
    await using opening = await open()
    const { records } = opening.store
    const inOrder = ['p/', 'p/A', 'p/Z', 'p/a', 'p/a%2F', 'p/ä', 'p/\u{ffee}', 'p/\u{1f600}']
    for (const key of [...inOrder.toReversed(), 'o', 'p', 'q/', 'p0']) await records.put(key, key)
    expect((await records.list('p/')).map(({ value }) => value)).toEqual(inOrder)
    const pages: string[] = []
    for (let after: string | undefined; ;) {
      const page = await records.list('p/', { after, limit: 3 })
      pages.push(...page.map(({ key }) => key))
      after = page.at(-1)?.key
      if (page.length < 3) break
    }
    expect(pages).toEqual(inOrder)
    expect(await records.list('p/', { after: 'o' })).toHaveLength(inOrder.length)
    expect(await records.list('p/', { after: 'q' })).toEqual([])
    expect(await records.list('p/', { limit: 0 })).toEqual([])
  })

  test('lists more records than one script reads, and skips expired ones', async () => {
    await using opening = await open()
    const { store, shortMs, untilEnded } = opening
    await Promise.all(
      Array.from({ length: 900 }, (_, n) =>
        store.records.put(`m/${`${n}`.padStart(4, '0')}`, n, {
          ttlMs: n < 450 ? shortMs : undefined,
        }),
      ),
    )
    await store.records.put('mark', 1, { ttlMs: shortMs })
    await untilEnded(async () => (await store.records.get('mark')) === undefined)
    const listed = await store.records.list('m/')
    expect(listed.map(({ value }) => value)).toEqual(Array.from({ length: 450 }, (_, n) => n + 450))
  })

  test('appends the event of a write to its log, if it writes', async () => {
    await using world = await open()
    const { records, logs } = world.store
    const reader = readerOf(3)
    await world.other.logs.tail('changes', 'now', reader)
    const eventOf = (event: number) => ({ event: { log: 'changes', event, limits: LIMITS } })
    const first = await records.put('key', 'a', { ifVersion: null, ...eventOf(1) })
    expect(await records.put('key', 'b', { ifVersion: null, ...eventOf(2) })).toBeUndefined()
    await records.put('key', 'c', { ifVersion: first, ...eventOf(3) })
    await logs.append('changes', 4, { limits: LIMITS, isLast: false })
    await reader.done
    expect(reader.seen).toEqual([1, 3, 4])
    expect(await records.get('key')).toMatchObject({ value: 'c' })
  })

  test('gives concurrent events one order for all readers', async () => {
    await using opening = await open()
    const { store, other } = opening
    const options = { limits: LIMITS, isLast: false }
    const first = await store.logs.append('s', 'first', options)
    const ids = await Promise.all(
      Array.from({ length: 60 }, (_, n) => (n % 2 ? store : other).logs.append('s', n, options)),
    )
    const events = await store.logs.read('s', first)
    expect(events?.map(({ id }) => id)).toEqual(ids.toSorted())
    for (const { id, event } of events ?? []) expect(ids.indexOf(id)).toBe(event)
  })

  test('finds a log by the ids of its events, in another process', async () => {
    await using opening = await open()
    const { store, other } = opening
    const header = { session: 's1', owner: 'p1', requestId: 'seven' }
    const beginning = await store.logs.open('one', header, LIMITS)
    const event = await store.logs.append('one', { n: 1 }, { limits: LIMITS, isLast: false })
    const named = await other.logs.append('shared', 'x', { limits: LIMITS, isLast: false })
    expect(await other.logs.find(beginning)).toEqual({ log: 'one', header })
    expect(await other.logs.find(event)).toEqual({ log: 'one', header })
    expect(await store.logs.find(named)).toEqual({ log: 'shared', header: undefined })
    for (const id of [beginning, event, named]) expect(id).not.toContain('one')
  })

  test('finds no log for an id that no event has', async () => {
    await using opening = await open()
    const { logs } = opening.store
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const id = await logs.open('one', header, LIMITS)
    const [tag = '', place = ''] = id.split('.')
    const zeros = '0'.repeat(16)
    const foreign = ['', 'x', 'now', '.', tag, `${id}1`, `${'0'.repeat(32)}.${place}`]
    for (const none of ['9'.repeat(16), zeros, `${zeros}-${'0'.repeat(12)}`]) {
      foreign.push(`${tag}.${none}`)
    }
    for (const unknown of foreign) {
      expect([unknown, await logs.find(unknown)]).toEqual([unknown, undefined])
      expect([unknown, await logs.read('one', unknown)]).toEqual([unknown, undefined])
    }
    expect(await logs.read('two', id)).toBeUndefined()
  })

  test('forgets a log that was deleted or replaced', async () => {
    await using opening = await open()
    const { store, other } = opening
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const deleted = await store.logs.open('one', header, LIMITS)
    await other.logs.delete('one')
    await other.logs.delete('one')
    expect(await store.logs.find(deleted)).toBeUndefined()
    const replaced = await store.logs.open('one', header, LIMITS)
    const next = await other.logs.open('one', { ...header, owner: 'p2' }, LIMITS)
    expect(new Set([deleted, replaced, next]).size).toBe(3)
    expect(await store.logs.find(replaced)).toBeUndefined()
    expect(await store.logs.read('one', deleted)).toBeUndefined()
    expect((await store.logs.find(next))?.header?.owner).toBe('p2')
  })

  test('reads what follows an event, and which event is the last', async () => {
    await using opening = await open()
    const { store, other } = opening
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const ids = [await store.logs.open('one', header, LIMITS)]
    for (let n = 1; n <= 20; n++) {
      ids.push(await store.logs.append('one', { n }, { limits: LIMITS, isLast: n === 20 }))
    }
    expect(ids.toSorted()).toEqual(ids)
    const all = ids.slice(1).map((id, n) => ({ id, event: { n: n + 1 }, isLast: n === 19 }))
    expect(await other.logs.read('one', ids[0] ?? '')).toEqual(all)
    expect(await other.logs.read('one', ids[15] ?? '')).toEqual(all.slice(15))
    expect(await other.logs.read('one', ids[20] ?? '')).toEqual([])
  })

  test('keeps as many events of a log as the limit says', async () => {
    await using opening = await open()
    const { logs } = opening.store
    const limits = { maxEvents: 3, ttlMs: 3_600_000 }
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const ids = [await logs.open('one', header, limits)]
    for (let n = 1; n <= 5; n++) {
      ids.push(await logs.append('one', n, { limits, isLast: false }))
    }
    for (const dropped of ids.slice(0, 3)) {
      expect(await logs.find(dropped)).toBeUndefined()
      expect(await logs.read('one', dropped)).toBeUndefined()
    }
    expect(await logs.find(ids[3] ?? '')).toEqual({ log: 'one', header })
    expect(await logs.read('one', ids[3] ?? '')).toMatchObject([{ event: 4 }, { event: 5 }])
  })

  test('ends a log some time after its last event', async () => {
    await using opening = await open()
    const { store, other, shortMs, untilEnded } = opening
    const limits = { maxEvents: 10, ttlMs: shortMs }
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const beginning = await store.logs.open('one', header, limits)
    await untilEnded(async () => (await other.logs.find(beginning)) === undefined)
    const late = await store.logs.append('one', 1, { limits: LIMITS, isLast: true })
    expect(await other.logs.read('one', beginning)).toBeUndefined()
    expect(await other.logs.find(late)).toEqual({ log: 'one', header: undefined })
    await store.logs.delete('one')
    const again = await store.logs.append('one', 2, { limits: LIMITS, isLast: false, header })
    const end = await store.logs.append('one', 3, { limits: LIMITS, isLast: true, header })
    expect(await other.logs.find(again)).toEqual({ log: 'one', header })
    expect(await other.logs.read('one', again)).toMatchObject([{ id: end, event: 3 }])
  })

  test('keeps the events of a log for as long as it lives', async () => {
    await using opening = await open()
    const { store, other, shortMs, untilEnded } = opening
    const ms = Math.max(shortMs, 1000)
    const limits = { maxEvents: 1_000_000, ttlMs: 1.5 * ms }
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const kept: unknown[] = []
    // A log to which a busy machine wrote nothing for as long as it lives has ended: the next one is tried.
    for (let number = 1; kept.length === 0; number++) {
      const log = `log ${number}`
      const beginning = await store.logs.open(log, header, limits)
      let written = Date.now()
      let wasLate = false
      for (const mark of [`first ${number}`, `second ${number}`]) {
        await store.records.put(mark, 1, { ttlMs: ms })
        await untilEnded(async () => {
          await store.logs.append(log, mark, { limits, isLast: false })
          wasLate ||= Date.now() - written >= limits.ttlMs
          written = Date.now()
          return (await other.records.get(mark)) === undefined
        })
      }
      const found = await other.logs.find(beginning)
      const [first] = (await other.logs.read(log, beginning)) ?? []
      wasLate ||= Date.now() - written >= limits.ttlMs
      if (!wasLate) kept.push(found?.header, first?.event)
    }
    expect(kept).toEqual([header, expect.stringContaining('first')])
  })

  test('rejects an event that JSON cannot hold', async () => {
    await using opening = await open()
    const { logs } = opening.store
    const options = { limits: LIMITS, isLast: false }
    await expect(logs.append('one', undefined, options)).rejects.toThrow(TypeError)
  })

  test('tails 1,000 events of two writers once each and in order', async () => {
    await using opening = await open()
    const { store, other } = opening
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const limits = { maxEvents: 2000, ttlMs: 3_600_000 }
    const beginning = await store.logs.open('one', header, limits)
    const append = async (at: GatewayStore, n: number): Promise<string> =>
      at.logs.append('one', { n }, { limits, isLast: false })
    const ids: string[] = []
    for (let n = 0; n < 100; n++) ids.push(await append(store, n))
    const [early, late] = [readerOf(1000), readerOf(900)]
    const stops = [
      await other.logs.tail('one', beginning, early),
      await other.logs.tail('one', ids[99] ?? '', late),
    ]
    for (let n = 100; n < 1000; n += 20) {
      const burst = Array.from({ length: 20 }, (_, at) => append(at % 2 ? store : other, n + at))
      ids.push(...(await Promise.all(burst)))
    }
    await Promise.all([early.done, late.done])
    const inOrder = ids.toSorted()
    expect(early.events.map(({ id }) => id)).toEqual(inOrder)
    expect(late.events.map(({ id }) => id)).toEqual(inOrder.slice(100))
    for (const { id, event } of early.events) expect(event).toEqual({ n: ids.indexOf(id) })
    expect([early.gaps, late.gaps]).toEqual([0, 0])
    for (const stop of stops) stop()
  })

  test('tails many logs at once, and keeps them apart', async () => {
    await using opening = await open()
    const { store, other } = opening
    const header = { session: 's1', owner: 'p1', requestId: 1 }
    const readers = Array.from({ length: 50 }, () => readerOf(3))
    await Promise.all(
      readers.map(async (reader, at) => {
        const log = `log ${at}`
        const beginning = await store.logs.open(log, header, LIMITS)
        await other.logs.tail(log, beginning, reader)
        for (let n = 0; n < 3; n++) {
          await store.logs.append(log, [at, n], { limits: LIMITS, isLast: n === 2 })
        }
        await reader.done
      }),
    )
    for (const [at, { events, gaps }] of readers.entries()) {
      expect([gaps, ...events.map(({ event }) => event)]).toEqual([0, [at, 0], [at, 1], [at, 2]])
      expect(events.map(({ isLast }) => isLast)).toEqual([false, false, true])
    }
  })

  test('tails only new events from now on, also of a log that does not exist yet', async () => {
    await using opening = await open()
    const { store, other } = opening
    const options = { limits: LIMITS, isLast: false }
    await store.logs.append('old', 'before', options)
    const [old, absent] = [readerOf(1), readerOf(1)]
    await other.logs.tail('old', 'now', old)
    await other.logs.tail('absent', 'now', absent)
    await store.logs.append('old', 'after', options)
    await store.logs.append('absent', 'first', options)
    await Promise.all([old.done, absent.done])
    expect([old.events, absent.events]).toMatchObject([[{ event: 'after' }], [{ event: 'first' }]])
    expect([old.gaps, absent.gaps]).toEqual([0, 0])
  })

  test('tells a tail of events that were dropped before it read them', async () => {
    await using opening = await open()
    const { store, other } = opening
    const limits = { maxEvents: 3, ttlMs: 3_600_000 }
    const ids: string[] = []
    for (let n = 0; n < 5; n++) {
      ids.push(await store.logs.append('one', n, { limits, isLast: false }))
    }
    const [late, foreign] = [readerOf(4), readerOf(4)]
    await other.logs.tail('one', ids[0] ?? '', late)
    await other.logs.tail('one', `${'0'.repeat(32)}.${'0'.repeat(16)}`, foreign)
    await store.logs.append('one', 5, { limits: LIMITS, isLast: false })
    await Promise.all([late.done, foreign.done])
    for (const reader of [late, foreign]) {
      expect(reader.seen).toEqual(['gap', 2, 3, 4, 5])
    }
  })

  test('delivers nothing after the end of a tail, and other tails go on', async () => {
    await using opening = await open()
    const { store, other } = opening
    const options = { limits: LIMITS, isLast: false }
    const [ended, goesOn] = [readerOf(1), readerOf(3)]
    const stop = await other.logs.tail('one', 'now', ended)
    await other.logs.tail('one', 'now', goesOn)
    await store.logs.append('one', 1, options)
    await ended.done
    stop()
    stop()
    await store.logs.append('one', 2, options)
    await store.logs.append('one', 3, options)
    await goesOn.done
    expect([ended.seen, goesOn.seen]).toEqual([[1], [1, 2, 3]])
  })

  test('lets a listener append to its own log, and survives one that throws', async () => {
    await using opening = await open()
    const { store, errors } = opening
    const options = { limits: LIMITS, isLast: false }
    const [writer, reader] = [readerOf(3), readerOf(3)]
    const appended: Promise<string>[] = []
    await store.logs.tail('one', 'now', {
      onEvent(event) {
        writer.onEvent(event)
        if (event.event === 1) {
          for (const n of [2, 3]) appended.push(store.logs.append('one', n, options))
        }
        throw new Error('A defect of the listener')
      },
      onGap: writer.onGap,
    })
    await store.logs.tail('one', 'now', reader)
    await store.logs.append('one', 1, options)
    await Promise.all([writer.done, reader.done])
    await Promise.all(appended)
    expect(writer.seen).toEqual([1, 2, 3])
    expect(reader.seen).toEqual([1, 2, 3])
    expect(errors).toHaveLength(3)
  })

  test('stores bytes and reads them', async () => {
    await using opening = await open()
    const { store, other } = opening
    const text = 'abc'.repeat(200_000)
    const written = await writeNew(store.blobs, bytesOf('abc', '', text, new Uint8Array(0)), 1e6)
    expect(written).toMatchObject({
      size: 600_003,
      sha256: createHash('sha256').update(`abc${text}`).digest('hex'),
    })
    expect(await allOf(await other.blobs.read(written.id))).toBe(`abc${text}`)
    const [empty, same] = [
      await writeNew(store.blobs, bytesOf(), 0),
      await writeNew(store.blobs, bytesOf('x'), 1),
    ]
    expect(await allOf(await other.blobs.read(empty.id))).toBe('')
    await store.blobs.delete(written.id)
    await store.blobs.delete(written.id)
    expect(await other.blobs.read(written.id)).toBeUndefined()
    expect(await allOf(await other.blobs.read(same.id))).toBe('x')
    for (const id of ['', '../../etc/passwd', '0'.repeat(32)]) {
      expect(await store.blobs.read(id)).toBeUndefined()
      await store.blobs.delete(id)
    }
  })

  test('ends bytes after their time to live', async () => {
    await using opening = await open()
    const { store, other, shortMs, untilEnded } = opening
    const lasting = await writeNew(store.blobs, bytesOf('x'), 1)
    const { id } = await store.blobs.write(bytesOf('x'), { limit: 1, ttlMs: shortMs })
    await untilEnded(async () => (await other.blobs.read(id)) === undefined)
    expect(await allOf(await other.blobs.read(lasting.id))).toBe('x')
  })

  test('stores the bytes of a source that uses its memory again', async () => {
    await using opening = await open()
    const { blobs } = opening.store
    const letters = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
    async function* reusing(): AsyncGenerator<Uint8Array> {
      const chunk = Buffer.alloc(1000)
      for (const letter of letters) yield chunk.fill(letter)
    }
    const { id } = await writeNew(blobs, reusing(), 100_000)
    const expected = letters.map((letter) => letter.repeat(1000)).join('')
    expect(await allOf(await blobs.read(id))).toBe(expected)
  })

  test('keeps nothing of a write with too many bytes or a source that fails', async () => {
    await using opening = await open()
    const { blobs } = opening.store
    await expect(writeNew(blobs, bytesOf('123', '45'), 4)).rejects.toMatchObject({ code: 'LIMIT' })
    expect((await writeNew(blobs, bytesOf('123', '4'), 4)).size).toBe(4)
    const reason = new Error('the sender went away')
    const failing = async function* (): AsyncGenerator<Uint8Array> {
      yield new Uint8Array(300_000)
      throw reason
    }
    await expect(writeNew(blobs, failing(), 1e6)).rejects.toBe(reason)
  })

  test('stops reading when the reader stops', async () => {
    await using opening = await open()
    const { blobs } = opening.store
    const { id } = await writeNew(blobs, bytesOf(new Uint8Array(1_000_000)), 1e6)
    for await (const chunk of (await blobs.read(id)) ?? []) {
      expect(chunk.byteLength).toBeGreaterThan(0)
      break
    }
    await blobs.delete(id)
  })

  test('takes the tokens of a bucket, and then returns the time to wait', async () => {
    await using opening = await open()
    const { store, other } = opening
    const waits = await Promise.all([store, other, store, other].map((at) => at.rates.take('b', 3)))
    expect(waits.filter((wait) => wait === 0)).toHaveLength(3)
    expect(Math.max(...waits)).toBeGreaterThan(10_000)
    expect(Math.max(...waits)).toBeLessThanOrEqual(20_000)
    expect(await store.rates.take('c', 3)).toBe(0)
  })

  test('is ready until it is closed, which can be done twice', async () => {
    await using opening = await open()
    const { store } = opening
    expect(await store.isReady()).toBe(true)
    await store.close()
    await store.close()
    expect(await store.isReady()).toBe(false)
  })
})
