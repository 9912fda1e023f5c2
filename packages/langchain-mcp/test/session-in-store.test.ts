import { InMemoryStore } from '@langchain/langgraph'
import type { SessionRecord } from '@x/mcp-transport'
import { McpClient } from '@x/mcp-client'
import { describeSessionInfo } from '@x/internal/testing/session-info'
import { startLegacyServer } from '@x/mcp-testing'
import { describe, expect, test, vi } from 'vitest'
import {
  SessionInfoLangGraphStoreFactory,
  type GraphStore,
  type ToolLogEntry,
} from '../src/index.ts'
import {
  SessionInfoLangGraphStore,
  type SessionInfoLangGraphStoreOptions,
} from '../src/graph/session-info-langgraph-store.ts'

const SERVER_URL = 'https://shop.example/mcp'
const PLACE = { namespace: ['mcp', 'session', 'thread'], key: 'shop' }

function shopRecord(fields: Partial<SessionRecord> = {}): SessionRecord {
  return {
    v: 1,
    serverUrl: SERVER_URL,
    era: 'legacy',
    eraCheckedAt: '2026-11-01T00:00:00.000Z',
    epoch: 1,
    sessionId: 'session-1',
    protocolVersion: '2025-11-25',
    createdAt: '2026-11-01T00:00:00.000Z',
    updatedAt: '2026-11-01T00:00:00.000Z',
    ...fields,
  }
}

interface Setting {
  readonly store: InMemoryStore
  readonly errors: unknown[]
  readonly info: (options?: Partial<SessionInfoLangGraphStoreOptions>) => SessionInfoLangGraphStore
  readonly stored: () => Promise<unknown>
}

function setting(): Setting {
  const store = new InMemoryStore()
  const errors: unknown[] = []
  return {
    store,
    errors,
    info: (options) =>
      new SessionInfoLangGraphStore({
        store,
        ...PLACE,
        timeoutMs: 2000,
        onError: (error) => errors.push(error),
        ...options,
      }),
    stored: async () => (await store.get(PLACE.namespace, PLACE.key))?.value,
  }
}

describeSessionInfo(
  'SessionInfoLangGraphStore',
  () => {
    const factory = new SessionInfoLangGraphStoreFactory({ store: new InMemoryStore() })
    const server = { slug: 'shop', mcpUrl: SERVER_URL }
    return { open: () => factory.createSession(server, { thread: 't1' }) }
  },
  { isDurable: true },
)

test('reads once for concurrent callers', async () => {
  const { store, info } = setting()
  const get = vi.spyOn(store, 'get')
  const one = info()
  await Promise.all(Array.from({ length: 10 }, () => one.getSessionId()))
  await one.getRecord()
  expect(get).toHaveBeenCalledTimes(1)
})

test('keeps an id without a record in memory, because its owner is unknown', async () => {
  const { info, stored } = setting()
  const one = info()
  await one.setRecord(shopRecord())
  await one.setSessionId('session-2')
  expect(await one.getSessionId()).toBe('session-2')
  expect(await one.getRecord()).toBeUndefined()
  expect(await stored()).toBeUndefined()
})

test('ignores an item that is no record', async () => {
  const { store, info } = setting()
  await store.put(PLACE.namespace, PLACE.key, { v: 1, sessionId: 'session-1' })
  expect(await info().getRecord()).toBeUndefined()
  expect(await info().getSessionId()).toBeUndefined()
})

test('does not overwrite a record of a newer format, and keeps the session in memory', async () => {
  const { store, info, stored } = setting()
  const newer = { ...shopRecord(), v: 2 }
  await store.put(PLACE.namespace, PLACE.key, newer)
  const one = info()
  expect(await one.getRecord()).toBeUndefined()
  await one.setRecord(shopRecord({ sessionId: 'session-2' }))
  expect(await one.getSessionId()).toBe('session-2')
  await one.setRecord(undefined)
  expect(await stored()).toEqual(newer)
  await info().setRecord(shopRecord()) // also by an object that has not read it before
  expect(await stored()).toEqual(newer)
})

describe('a store that fails', () => {
  const failing = (store: InMemoryStore, name: keyof GraphStore): void => {
    vi.spyOn(store, name).mockRejectedValue(new Error('disk full'))
  }
  const hanging = (store: InMemoryStore, name: keyof GraphStore): void => {
    vi.spyOn(store, name).mockReturnValue(new Promise<never>(() => {}))
  }

  test.each([
    ['refuses', failing],
    ['does not answer', hanging],
  ])('does not fail a read if it %s', async (_what, fault) => {
    const { store, info, errors } = setting()
    fault(store, 'get')
    const one = info({ timeoutMs: 20 })
    expect(await one.getSessionId()).toBeUndefined()
    expect(errors).toHaveLength(1)
    vi.restoreAllMocks()
    await store.put(PLACE.namespace, PLACE.key, { ...shopRecord() })
    expect(await one.getSessionId()).toBe('session-1') // asked again
  })

  test.each([
    ['refuses', failing],
    ['does not answer', hanging],
  ])('does not fail a write if it %s; the next write tries again', async (_what, fault) => {
    const { store, info, errors, stored } = setting()
    await store.put(PLACE.namespace, PLACE.key, { ...shopRecord({ sessionId: 'dead' }) })
    fault(store, 'put')
    const one = info({ timeoutMs: 20 })
    await one.getRecord()
    await one.setRecord(shopRecord())
    expect(errors).toHaveLength(1)
    await one.refresh() // the store has an older one
    expect(await one.getSessionId()).toBe('session-1')
    vi.restoreAllMocks()
    await one.setRecord(shopRecord({ epoch: 2 }))
    expect(await stored()).toMatchObject({ sessionId: 'session-1', epoch: 2 })
  })
})

describe('the factory', () => {
  const shop = { mcpUrl: SERVER_URL }
  const factoryOf = (
    store?: GraphStore,
  ): { factory: SessionInfoLangGraphStoreFactory; entries: ToolLogEntry[] } => {
    const entries: ToolLogEntry[] = []
    const log = (entry: ToolLogEntry): void => void entries.push(entry)
    return { factory: new SessionInfoLangGraphStoreFactory({ store, log }), entries }
  }

  test('uses a different place for each server, thread and principal', async () => {
    const store = new InMemoryStore()
    const { factory, entries } = factoryOf(store)
    const owners = [
      { thread: 't1' },
      { thread: 't2' },
      { thread: 't1', principal: 'ada' },
      { thread: 't1', principal: 'bob' },
      { thread: 'langgraph.v2/x', principal: 'a.b' },
    ]
    for (const scope of owners) {
      const record = shopRecord({ principal: scope.principal })
      await factory.createSession(shop, scope).setRecord(record)
    }
    const bank = { mcpUrl: 'https://shop.example/mcp?tenant=bank' }
    await factory.createSession(bank, { thread: 't1' }).setRecord(shopRecord())
    await factory.createSession({ slug: 'shop' }, { thread: 't1' }).setRecord(shopRecord())
    const items = await store.search(['mcp', 'session'], { limit: 100 })
    expect(items).toHaveLength(owners.length + 2)
    expect(entries).toEqual([])
    expect(JSON.stringify(items.map(({ namespace, key }) => [namespace, key]))).not.toMatch(
      /ada|bob|example/,
    )
  })

  test('uses the store behind the store of a run, also after the run', async () => {
    const store = new InMemoryStore()
    // The store of a run: a wrapper that works only during the run.
    const wrapper = Object.assign(Object.create(store) as InMemoryStore, {
      lg_name: 'AsyncBatchedStore',
      store,
      get: () => new Promise<never>(() => {}),
    })
    const { factory } = factoryOf(wrapper)
    await factory.createSession(shop, { thread: 't1' }).setRecord(shopRecord())
    const next = factory.createSession(shop, { thread: 't1' })
    expect(await next.getSessionId()).toBe('session-1')
  })

  test.each([
    ['the run has no store', undefined, { thread: 't1' }],
    ['the call has no `thread_id`', new InMemoryStore(), {}],
  ])('keeps sessions in memory where %s, with one warning', (why, store, scope) => {
    const { factory, entries } = factoryOf(store)
    expect(factory.createSession(shop, scope).durable).toBe(false)
    expect(factory.createSession(shop, scope).durable).toBe(false)
    expect(entries).toMatchObject([{ level: 'warning' }])
    expect(entries[0]?.message).toContain(why)
  })

  test('logs a failing store once, without the session id', async () => {
    const store = new InMemoryStore()
    vi.spyOn(store, 'get').mockRejectedValue(new Error('disk full'))
    vi.spyOn(store, 'put').mockRejectedValue(new Error('disk full'))
    const { factory, entries } = factoryOf(store)
    const info = factory.createSession(shop, { thread: 't1' })
    await info.getRecord()
    await info.setRecord(shopRecord())
    expect(entries).toMatchObject([{ level: 'warning', code: 'SESSION_STORE_FAILED' }])
    expect(entries[0]?.message).toContain('disk full')
    expect(entries[0]?.message).not.toContain('session-1')
  })

  test('works for any client', async () => {
    await using server = await startLegacyServer()
    const options = {
      sessionInfoFactory: factoryOf(new InMemoryStore()).factory,
      scope: { thread: 't1' },
    }
    {
      await using client = new McpClient({ url: server.url }, options)
      await client.callTool('counter_add')
    }
    await using client = new McpClient({ url: server.url }, options)
    const { content } = await client.callTool('counter_add')
    expect(content).toMatchObject([{ text: 'counter is 2' }])
    expect(server.count('initialize')).toBe(1)
  })
})
