import { setImmediate } from 'node:timers/promises'
import { withoutErrorLink } from '@x/internal'
import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { SessionInfo } from './session-info.ts'
import { SessionKeeper } from './session-keeper.ts'
import type { SessionPart } from './session-keeper.ts'
import type { SessionRecord } from './session-record.ts'
import type { TransportError } from './transport-error.ts'

const serverUrl = 'https://shop.example/mcp'
const initializeResult = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  serverInfo: { name: 'shop', version: '1' },
}
const part = { sessionId: 'first', protocolVersion: '2025-11-25', initializeResult }

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ['Date', 'setTimeout', 'clearTimeout'],
    now: new Date('2026-11-20T10:00:00.000Z'),
  })
})
afterEach(() => vi.useRealTimers())

interface Setup {
  readonly info?: SessionInfo
  readonly principal?: string
}

function keeperOf({ info = new SessionInfo(), principal }: Setup = {}): {
  keeper: SessionKeeper
  info: SessionInfo
  reports: TransportError[]
} {
  const reports: TransportError[] = []
  const report = (error: TransportError): void => void reports.push(error)
  const keeper = new SessionKeeper({ info, serverUrl, principal, report })
  return { keeper, info, reports }
}

/** Stores a session like a handshake. */
async function opened(keeper: SessionKeeper, session: SessionPart): Promise<SessionRecord> {
  const record = await keeper.next(session)
  await keeper.opened(record)
  return record
}

/** A keeper with an open session. */
async function openedKeeper(setup?: Setup): Promise<ReturnType<typeof keeperOf>> {
  const made = keeperOf(setup)
  await made.keeper.load()
  await opened(made.keeper, part)
  return made
}

/** Can delay writes. */
class Slow extends SessionInfo {
  gate: Promise<void> | undefined

  override async setRecord(record: SessionRecord | undefined): Promise<void> {
    await this.gate
    await super.setRecord(record)
  }
}

/** A keeper whose session was replaced by another keeper with the same store. */
async function replaced(): Promise<ReturnType<typeof keeperOf>> {
  const ours = await openedKeeper()
  const theirs = keeperOf({ info: ours.info }).keeper
  await theirs.load()
  await theirs.lost('first')
  await opened(theirs, { ...part, sessionId: 'theirs' })
  return ours
}

test('stores an opened session without undefined fields', async () => {
  const { info } = await openedKeeper()
  expect(JSON.parse(JSON.stringify(await info.getRecord()))).toStrictEqual(await info.getRecord())
  await expect(info.getRecord()).resolves.toStrictEqual({
    v: 1,
    serverUrl,
    era: 'legacy',
    epoch: 1,
    eraCheckedAt: '2026-11-20T10:00:00.000Z',
    createdAt: '2026-11-20T10:00:00.000Z',
    updatedAt: '2026-11-20T10:00:00.000Z',
    ...part,
  })
})

test('gives each session the next generation, also after a loss and in another process', async () => {
  const { keeper, info } = await openedKeeper()
  await keeper.lost('first')
  await expect(opened(keeper, { ...part, sessionId: 'second' })).resolves.toHaveProperty('epoch', 2)

  const next = keeperOf({ info }).keeper
  await next.load()
  await next.lost('second')
  await expect(opened(next, { ...part, sessionId: 'third' })).resolves.toHaveProperty('epoch', 3)
})

test('removes only the session fields of the record after a loss', async () => {
  const { keeper, info } = await openedKeeper({ principal: 'alice' })
  await keeper.lost('first')
  await expect(info.getSessionId()).resolves.toBeUndefined()
  const record = await info.getRecord()
  expect(Object.keys(record ?? {}).toSorted()).toEqual([
    'createdAt',
    'epoch',
    'era',
    'eraCheckedAt',
    'principal',
    'serverUrl',
    'updatedAt',
    'v',
  ])
})

describe('if another process has replaced the session', () => {
  test('keeps the session of the other process after a loss', async () => {
    const { keeper, info } = await replaced()
    await keeper.lost('first')
    await expect(info.getRecord()).resolves.toMatchObject({ sessionId: 'theirs', epoch: 2 })
  })

  test('returns true from isReplaced()', async () => {
    const { keeper } = await replaced()
    await expect(keeper.isReplaced('first')).resolves.toBe(true)
    await expect(keeper.isReplaced('theirs')).resolves.toBe(false)
  })
})

test('ignores a late report about an older session', async () => {
  const { keeper, info } = await openedKeeper()
  await keeper.lost('first')
  await opened(keeper, { ...part, sessionId: 'second' })
  await keeper.lost('first')
  await expect(info.getRecord()).resolves.toMatchObject({ sessionId: 'second' })
})

test('writes in the order of the calls, also if one write is slow', async () => {
  const info = new Slow()
  const { keeper } = keeperOf({ info })
  await keeper.load()
  const record = await opened(keeper, part)
  const gate = deferred()
  info.gate = gate.promise
  const written = keeper.opened(record)
  const lost = keeper.lost('first')
  gate.resolve()
  await Promise.all([written, lost])
  await expect(info.getSessionId()).resolves.toBeUndefined()
})

describe('ignores an unusable record and reports it once', () => {
  const fitting: SessionRecord = {
    v: 1,
    serverUrl,
    era: 'legacy',
    eraCheckedAt: '2026-11-20T10:00:00.000Z',
    epoch: 1,
    createdAt: '2026-11-20T10:00:00.000Z',
    updatedAt: '2026-11-20T10:00:00.000Z',
    ...part,
  }
  test.each([
    ['another server', { ...fitting, serverUrl: 'https://other.example/mcp' }],
    ['another principal', { ...fitting, principal: 'bob' }],
    ['another format', { ...fitting, v: 2 } as unknown as SessionRecord],
    ['damaged fields', { ...fitting, era: 'x' } as unknown as SessionRecord],
  ])('with %s', async (_name, record) => {
    const info = new SessionInfo()
    await info.setRecord(record)
    const { keeper, reports } = keeperOf({ info })
    await expect(keeper.load()).resolves.toEqual({ record: undefined })
    await keeper.load()
    expect(reports).toMatchObject([{ code: 'RECORD_UNUSABLE' }])
  })

  test('ignores a stored id that is not a valid header value', async () => {
    const { keeper, reports } = keeperOf({ info: new SessionInfo('a\r\nx: y') })
    await expect(keeper.load()).resolves.toEqual({ record: undefined })
    expect(reports).toMatchObject([{ code: 'RECORD_UNUSABLE' }])
  })
})

test('does not refresh the store if it already has another session', async () => {
  let refreshes = 0
  class Shared extends SessionInfo {
    override async refresh(): Promise<void> {
      refreshes++
    }
  }
  const { keeper, info } = keeperOf({ info: new Shared() })
  await keeper.load()
  await opened(keeper, part)
  await info.setSessionId('of-another-process')
  await keeper.lost('first')
  expect(await info.getSessionId()).toBe('of-another-process')
  expect(refreshes).toBe(0)
})

test('returns an id without a record', async () => {
  const { keeper, reports } = keeperOf({ info: new SessionInfo('a-known-session') })
  await expect(keeper.load()).resolves.toEqual({ record: undefined, id: 'a-known-session' })
  expect(reports).toEqual([])
})

describe('a store that', () => {
  class Broken extends SessionInfo {
    readonly #fault: () => Promise<never>
    constructor(fault: () => Promise<never>) {
      super()
      this.#fault = fault
    }
    override getSessionId(): Promise<undefined> {
      return this.#fault()
    }
    override getRecord(): Promise<undefined> {
      return this.#fault()
    }
    override setRecord(): Promise<void> {
      return this.#fault()
    }
    override refresh(): Promise<void> {
      return this.#fault()
    }
  }
  test.each([
    ['rejects', (): Promise<never> => Promise.reject(new Error('disk full'))],
    [
      'throws',
      (): Promise<never> => {
        throw new Error('disk full')
      },
    ],
  ])(
    '%s counts as empty, and is reported once for reads and once for writes',
    async (_name, fault) => {
      const { keeper, reports } = keeperOf({ info: new Broken(fault) })
      await expect(keeper.load()).resolves.toEqual({ record: undefined })
      await expect(opened(keeper, part)).resolves.toMatchObject({ sessionId: 'first', epoch: 1 })
      await keeper.lost('first')
      expect(reports.map((error) => withoutErrorLink(error.message))).toEqual([
        'The session could not be read from its store',
        'The session could not be written to its store',
      ])
      expect(reports.every((error) => error.cause instanceof Error)).toBe(true)
    },
  )

  test('does not answer is not used until it has answered', async () => {
    const answer = deferred()
    let asked = 0
    const info = new Broken(async () => {
      asked++
      await answer.promise
      throw new Error('answered late')
    })
    const { keeper, reports } = keeperOf({ info })
    const loaded = keeper.load()
    await vi.advanceTimersByTimeAsync(2000)
    await expect(loaded).resolves.toEqual({ record: undefined })
    expect(asked).toBe(2) // record and id concurrently
    const { keeper: next } = keeperOf({ info })
    await expect(opened(keeper, part)).resolves.toMatchObject({ sessionId: 'first', epoch: 1 })
    await keeper.lost('first')
    await next.load()
    expect(asked).toBe(2)
    expect(reports.map((error) => withoutErrorLink(error.message))).toEqual([
      'The session could not be read from its store',
    ])
    answer.resolve()
    await setImmediate() // both answers have arrived
    await keeper.load()
    expect(asked).toBe(4)
  })
})
