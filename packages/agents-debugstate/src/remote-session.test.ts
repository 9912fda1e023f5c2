import { describe, expect, test } from 'vitest'
import { SERVER_URL, shopRecord } from '../test/session-records.ts'
import { closedGate } from '../test/gate.ts'
import { DebugStateError } from './debug-state-client.ts'
import type { DebugStateErrorCode } from './debug-state-client.ts'
import { debugStateKey } from './debug-state-config.ts'
import type { RemoteValues } from './remote-session.ts'
import { SessionInfoDebugState } from './session-info-debug-state.ts'

/** A service in memory that can fail before or after it has handled a request. */
class FakeService implements RemoteValues {
  readonly values = new Map<string, { text: string; etag: string }>()
  /** Called before and after the next request is handled. */
  next: { before?: () => unknown; after?: () => unknown } = {}
  #writes = 0

  /** Changes a value like another process. */
  set(key: string, text: string): void {
    this.values.set(key, { text, etag: `"${++this.#writes}"` })
  }

  read: RemoteValues['read'] = (key) =>
    this.#answer(() => this.values.get(key) ?? { text: undefined, etag: undefined })

  write: RemoteValues['write'] = (key, text, condition) =>
    this.#answer(() => {
      if (!this.#isMet(key, condition)) return 'conflict'
      if (text === undefined) this.values.delete(key)
      else this.set(key, text)
      return { etag: this.values.get(key)?.etag }
    })

  async #answer<Result>(work: () => Result): Promise<Result> {
    const { before, after } = this.next
    this.next = {}
    await before?.()
    const result = work()
    await after?.()
    return result
  }

  #isMet(key: string, condition: Parameters<RemoteValues['write']>[2]): boolean {
    const stored = this.values.get(key)
    if (condition === undefined) return true
    return 'ifMatch' in condition ? condition.ifMatch === stored?.etag : stored === undefined
  }
}

const server = { slug: 'shop', mcpUrl: SERVER_URL }
const ID = 'mcpsession::shop'
const RECORD = 'mcpsession::shop:record'

function fail(): never {
  throw new DebugStateError('UNREACHABLE', 'The connection broke')
}

function startClient(service: FakeService): {
  info: SessionInfoDebugState
  errors: DebugStateErrorCode[]
} {
  const errors: DebugStateErrorCode[] = []
  const key = debugStateKey(server)
  if (key === undefined) throw new Error('The server has a slug')
  const info = new SessionInfoDebugState({
    values: service,
    key,
    serverUrl: SERVER_URL,
    principal: undefined,
    onError: ({ code }) => errors.push(code),
  })
  return { info, errors }
}

describe('a write is conditional on the last known state', () => {
  test('does not overwrite a stored session after a failed read', async () => {
    const service = new FakeService()
    service.set(ID, 'of-another-process')
    const { info, errors } = startClient(service)
    service.next = { before: fail }
    expect(await info.getSessionId()).toBeUndefined()
    await info.setSessionId('ours')
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('of-another-process')
    expect(await info.getSessionId()).toBe('of-another-process')
    expect(errors).toEqual(['UNREACHABLE'])
  })

  test('writes without a condition before the first read', async () => {
    const service = new FakeService()
    service.set(ID, 'old')
    const { info } = startClient(service)
    await info.setSessionId('ours')
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('ours')
  })

  test('also keeps the session of another process that was stored in the meantime', async () => {
    const service = new FakeService()
    const { info } = startClient(service)
    await info.getSessionId()
    service.set(ID, 'winner')
    const [asked, gate] = [closedGate(), closedGate()]
    service.next = {
      async before() {
        asked.open()
        await gate.opened
      },
    }
    await info.setSessionId('ours-1')
    await asked.opened
    await info.setSessionId('ours-2')
    gate.open()
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('winner')
    expect(await info.getSessionId()).toBe('winner')
  })

  test('replaces a session of another server under the same key', async () => {
    const service = new FakeService()
    const { info } = startClient(service)
    await info.getSessionId()
    const moved = shopRecord({ sessionId: 'elsewhere', serverUrl: 'https://old.example/mcp' })
    service.set(ID, 'elsewhere')
    service.set(RECORD, JSON.stringify(moved))
    await info.setRecord(shopRecord())
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('session-1')
    expect(JSON.parse(service.values.get(RECORD)?.text ?? '')).toMatchObject(shopRecord())
    expect(await startClient(service).info.getRecord()).toEqual(shopRecord())
  })
})

describe('a process that reads or writes between the two writes of another process', () => {
  /** A client whose record is stored, and whose id is not stored yet. */
  async function startHalf(
    before?: string,
  ): Promise<{ service: FakeService; finish: () => Promise<void> }> {
    const service = new FakeService()
    if (before !== undefined) service.set(ID, before)
    const { info } = startClient(service)
    await info.getSessionId()
    const [asked, gate] = [closedGate(), closedGate()]
    const { write } = service
    service.write = async (key, ...rest) => {
      if (key === ID) {
        asked.open()
        await gate.opened
      }
      return write(key, ...rest)
    }
    await info.setRecord(shopRecord())
    await asked.opened
    service.write = write
    return {
      service,
      async finish() {
        gate.open()
        await info.flush()
        expect(await info.getRecord()).toEqual(shopRecord())
      },
    }
  }

  test.each([undefined, 'a-lost-session'])(
    'finds the whole session, in place of %s',
    async (before) => {
      const { service, finish } = await startHalf(before)
      const { info } = startClient(service)
      expect(await info.getSessionId()).toBe('session-1')
      expect(await info.getRecord()).toEqual(shopRecord())
      await finish()
      expect(service.values.get(ID)?.text).toBe('session-1')
    },
  )

  test('completes the session of a process that ended between its writes', async () => {
    const { service } = await startHalf('a-lost-session')
    const { info } = startClient(service)
    await info.setRecord({ ...((await info.getRecord()) ?? shopRecord()), principal: 'ann' })
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('session-1')
  })

  test('clears its session without replacing that of another process', async () => {
    const service = new FakeService()
    service.set(ID, 'session-1')
    service.set(RECORD, JSON.stringify(shopRecord()))
    const { info } = startClient(service)
    await info.getSessionId()
    const rival = shopRecord({ sessionId: 'rival' })
    service.set(RECORD, JSON.stringify({ ...rival, replaces: 'session-1' }))
    const { sessionId: _, initializeResult: _result, ...base } = shopRecord()
    await info.setRecord(base)
    await info.flush()
    await info.setRecord(shopRecord({ sessionId: 'session-2' }))
    await info.flush()
    expect(service.values.get(RECORD)?.text).toContain('rival')
    expect(await info.getSessionId()).toBe('rival')
  })
})

describe('a write whose answer was lost', () => {
  test('does not replace a newer local value', async () => {
    const service = new FakeService()
    const { info } = startClient(service)
    await info.getSessionId()
    service.next = { after: fail }
    await info.setRecord(shopRecord())
    await info.flush()
    expect(service.values.has(ID)).toBe(false)
    await info.refresh()
    expect(await info.getRecord()).toEqual(shopRecord())
  })

  test('is completed by the next write', async () => {
    const service = new FakeService()
    const { info, errors } = startClient(service)
    await info.getSessionId()
    service.next = { after: fail }
    await info.setRecord(shopRecord())
    await info.flush()
    await info.setRecord(shopRecord({ principal: 'ann' }))
    await info.flush()
    expect(service.values.get(ID)?.text).toBe('session-1')
    expect(service.values.get(RECORD)?.text).toContain('"principal":"ann"')
    expect(errors).toEqual(['UNREACHABLE'])
  })
})

test('keeps an id that is invalid in a header locally, and does not store it', async () => {
  const service = new FakeService()
  const { info, errors } = startClient(service)
  await info.setSessionId('two words')
  await info.flush()
  expect(await info.getSessionId()).toBe('two words')
  expect(service.values.size).toBe(0)
  expect(errors).toEqual(['REJECTED'])
})
