import { describe, expect, onTestFinished, test } from 'vitest'

/** A session record, as far as the contract needs one. */
interface ContractRecord {
  readonly v: 1
  readonly serverUrl: string
  readonly era: 'legacy'
  readonly eraCheckedAt: string
  readonly epoch: number
  readonly sessionId?: string
  readonly createdAt: string
  readonly updatedAt: string
}

/** The methods of a `SessionInfo`, whose package depends on this one. */
interface ContractInfo {
  readonly durable: boolean
  getSessionId(): Promise<string | undefined>
  setSessionId(sessionId: string | undefined): Promise<void>
  getRecord(): Promise<unknown>
  setRecord(record: ContractRecord | undefined): Promise<void>
  refresh(): Promise<void>
  flush(): Promise<void>
}

/** A place where one session is stored. */
export interface SessionPlace {
  /** Creates the `SessionInfo` of one process. */
  readonly open: () => ContractInfo
  /** Removes the place. @default nothing is left */
  readonly remove?: () => PromiseLike<unknown>
}

const noSession: ContractRecord = {
  v: 1,
  serverUrl: 'https://shop.example/mcp',
  era: 'legacy',
  eraCheckedAt: '2026-11-20T10:00:00.000Z',
  epoch: 1,
  createdAt: '2026-11-20T10:00:00.000Z',
  updatedAt: '2026-11-20T10:00:00.000Z',
}
const record = { ...noSession, sessionId: 'a-session' }
const other = { ...record, sessionId: 'another', epoch: 2 }

/**
 * The contract of `SessionInfo`. Every store keeps it.
 *
 * @param createPlace Called for each test
 * @param isDurable The session outlives its process
 */
export function describeSessionInfo(
  name: string,
  createPlace: () => SessionPlace | Promise<SessionPlace>,
  { isDurable }: { readonly isDurable: boolean },
): void {
  async function opened(): Promise<{ readonly info: ContractInfo } & SessionPlace> {
    const place = await createPlace()
    onTestFinished(async () => void (await place.remove?.()))
    return { ...place, info: place.open() }
  }

  /** The content of a store. */
  async function contentOf(info: ContractInfo): Promise<readonly unknown[]> {
    return [await info.getSessionId(), await info.getRecord()]
  }

  const nothing = [undefined, undefined]

  describe(`${name} keeps the contract of SessionInfo`, () => {
    test('is empty at first, and says whether it is durable', async () => {
      const { info } = await opened()
      expect(await contentOf(info)).toEqual(nothing)
      expect(info.durable).toBe(isDurable)
    })

    test('stores a record with its id', async () => {
      const { info } = await opened()
      await info.setRecord(record)
      expect(await contentOf(info)).toEqual(['a-session', record])
    })

    test('keeps the record when its own id is set, and removes it when another one is set', async () => {
      const { info } = await opened()
      await info.setRecord(record)
      await info.setSessionId('a-session')
      expect(await contentOf(info)).toEqual(['a-session', record])
      await info.setSessionId('another')
      expect(await contentOf(info)).toEqual(['another', undefined])
    })

    test('removes id and record when either is cleared', async () => {
      const { info } = await opened()
      await info.setRecord(record)
      await info.setSessionId(undefined)
      expect(await contentOf(info)).toEqual(nothing)
      await info.setRecord(record)
      await info.setRecord(undefined)
      expect(await contentOf(info)).toEqual(nothing)
    })

    test('stores a record without a session', async () => {
      const { info } = await opened()
      await info.setRecord(record)
      await info.setRecord(noSession)
      expect(await contentOf(info)).toEqual([undefined, noSession])
    })

    test('returns the last of several records that are set at once', async () => {
      const { info } = await opened()
      await Promise.all([info.setRecord(other), info.setRecord(record)])
      await info.flush()
      expect(await contentOf(info)).toEqual(['a-session', record])
    })

    test('has nothing to do in refresh() and flush() before it was used', async () => {
      const { info } = await opened()
      await info.refresh()
      await info.flush()
      expect(await contentOf(info)).toEqual(nothing)
    })

    if (!isDurable) return

    test('shows the next process what was stored, and that it was cleared', async () => {
      const { info, open } = await opened()
      await info.setRecord(record)
      await info.flush()
      expect(await contentOf(open())).toEqual(['a-session', record])
      await info.setRecord(undefined)
      await info.flush()
      expect(await contentOf(open())).toEqual(nothing)
    })

    test('reads with refresh(), and not before, what another process has stored or cleared', async () => {
      const { info, open } = await opened()
      await info.setRecord(record)
      await info.flush()
      const theirs = open()
      await theirs.setRecord(other)
      await theirs.flush()
      expect(await contentOf(info)).toEqual(['a-session', record])
      await info.refresh()
      expect(await contentOf(info)).toEqual(['another', other])
      await theirs.setRecord(undefined)
      await theirs.flush()
      await info.refresh()
      expect(await contentOf(info)).toEqual(nothing)
    })
  })
}
