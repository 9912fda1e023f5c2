import { describe, expect, test } from 'vitest'
import { SessionInfo } from './session-info.ts'
import type { SessionRecord } from './session-record.ts'

const record: SessionRecord = {
  v: 1,
  serverUrl: 'https://shop.example/mcp',
  era: 'legacy',
  eraCheckedAt: '2026-11-20T10:00:00.000Z',
  epoch: 1,
  sessionId: 'a-session',
  createdAt: '2026-11-20T10:00:00.000Z',
  updatedAt: '2026-11-20T10:00:00.000Z',
}

/** Overrides the two id methods and nothing else, which is all that is asked of a subclass. */
class IdOnly extends SessionInfo {
  static stored: string | undefined

  override async getSessionId(): Promise<string | undefined> {
    return IdOnly.stored
  }

  override async setSessionId(sessionId: string | undefined): Promise<void> {
    IdOnly.stored = sessionId
  }
}

describe.each([
  ['SessionInfo', () => new SessionInfo()],
  [
    'a subclass that overrides only the ids',
    () => {
      IdOnly.stored = undefined
      return new IdOnly()
    },
  ],
])('%s', (_name, create) => {
  test('is empty at first', async () => {
    const info = create()
    await expect(info.getSessionId()).resolves.toBeUndefined()
    await expect(info.getRecord()).resolves.toBeUndefined()
  })

  test('a record brings its id', async () => {
    const info = create()
    await info.setRecord(record)
    await expect(info.getSessionId()).resolves.toBe('a-session')
    await expect(info.getRecord()).resolves.toEqual(record)
  })

  test('nobody else writes here, so that nobody is told of it', async () => {
    const events: string[] = []
    const info = create()
    const undo = info.onSuperseded((sessionId) => events.push(sessionId))
    await info.setRecord(record)
    undo()
    undo()
    expect(events).toEqual([])
  })

  test('another id makes the record go', async () => {
    const info = create()
    await info.setRecord(record)
    await info.setSessionId('another')
    await expect(info.getSessionId()).resolves.toBe('another')
    await expect(info.getRecord()).resolves.toBeUndefined()
  })

  test('the same id leaves the record', async () => {
    const info = create()
    await info.setRecord(record)
    await info.setSessionId('a-session')
    await expect(info.getRecord()).resolves.toEqual(record)
  })

  test('clearing clears both', async () => {
    const info = create()
    await info.setRecord(record)
    await info.setSessionId(undefined)
    await expect(info.getRecord()).resolves.toBeUndefined()

    await info.setRecord(record)
    await info.setRecord(undefined)
    await expect(info.getSessionId()).resolves.toBeUndefined()
    await expect(info.getRecord()).resolves.toBeUndefined()
  })

  test('a record may hold no session, only what outlives one', async () => {
    const info = create()
    await info.setRecord(record)
    const { sessionId: _sessionId, ...rest } = record
    await info.setRecord(rest)
    await expect(info.getSessionId()).resolves.toBeUndefined()
    await expect(info.getRecord()).resolves.toEqual(rest)
  })

  test('refresh and flush are there, and it does not outlive the process', async () => {
    const info = create()
    await expect(info.refresh()).resolves.toBeUndefined()
    await expect(info.flush()).resolves.toBeUndefined()
    expect(info.durable).toBe(false)
  })
})

test('an id can be given', async () => {
  const info = new SessionInfo('a-known-session')
  await expect(info.getSessionId()).resolves.toBe('a-known-session')
  await expect(info.getRecord()).resolves.toBeUndefined()
})

test('another object of the subclass has the id, not the record', async () => {
  IdOnly.stored = undefined
  await new IdOnly().setRecord(record)
  const next = new IdOnly()
  await expect(next.getSessionId()).resolves.toBe('a-session')
  await expect(next.getRecord()).resolves.toBeUndefined()
})
