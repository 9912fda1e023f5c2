import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { temporaryFolder, type TemporaryFolder } from '@x/internal/testing'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { SessionInfo, FileSessionInfo } from './session-info.ts'
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

describe('session info', () => {
  /** Overrides only the two id methods, the minimum for a subclass. */
  class IdOnly extends SessionInfo {
    static stored: string | undefined

    override async getSessionId(): Promise<string | undefined> {
      return IdOnly.stored
    }

    override async setSessionId(sessionId: string | undefined): Promise<void> {
      IdOnly.stored = sessionId
    }
  }

  let folder: TemporaryFolder | undefined

  describe.each([
    ['SessionInfo', () => new SessionInfo()],
    [
      'a subclass that overrides only the ids',
      () => {
        IdOnly.stored = undefined
        return new IdOnly()
      },
    ],
    ['FileSessionInfo', () => new FileSessionInfo(folder?.file('shop.json') ?? '')],
  ])('%s', (_name, create) => {
    beforeEach(async () => {
      folder = await temporaryFolder()
    })
    afterEach(() => folder?.[Symbol.asyncDispose]())

    test('is empty at first', async () => {
      const info = create()
      await expect(info.getSessionId()).resolves.toBeUndefined()
      await expect(info.getRecord()).resolves.toBeUndefined()
    })

    test('stores a record with its id', async () => {
      const info = create()
      await info.setRecord(record)
      await expect(info.getSessionId()).resolves.toBe('a-session')
      await expect(info.getRecord()).resolves.toEqual(record)
    })

    test('removes the record when another id is set', async () => {
      const info = create()
      await info.setRecord(record)
      await info.setSessionId('another')
      await expect(info.getSessionId()).resolves.toBe('another')
      await expect(info.getRecord()).resolves.toBeUndefined()
    })

    test('keeps the record when the same id is set', async () => {
      const info = create()
      await info.setRecord(record)
      await info.setSessionId('a-session')
      await expect(info.getRecord()).resolves.toEqual(record)
    })

    test('removes id and record when either is cleared', async () => {
      const info = create()
      await info.setRecord(record)
      await info.setSessionId(undefined)
      await expect(info.getRecord()).resolves.toBeUndefined()

      await info.setRecord(record)
      await info.setRecord(undefined)
      await expect(info.getSessionId()).resolves.toBeUndefined()
      await expect(info.getRecord()).resolves.toBeUndefined()
    })

    test('stores a record without a session', async () => {
      const info = create()
      await info.setRecord(record)
      const { sessionId: _sessionId, ...rest } = record
      await info.setRecord(rest)
      await expect(info.getSessionId()).resolves.toBeUndefined()
      await expect(info.getRecord()).resolves.toEqual(rest)
    })

    test('has refresh and flush, and is durable only with a file', async () => {
      const info = create()
      await expect(info.refresh()).resolves.toBeUndefined()
      await expect(info.flush()).resolves.toBeUndefined()
      expect(info.durable).toBe(info instanceof FileSessionInfo)
    })
  })

  test('accepts an id in the constructor', async () => {
    const info = new SessionInfo('a-known-session')
    await expect(info.getSessionId()).resolves.toBe('a-known-session')
    await expect(info.getRecord()).resolves.toBeUndefined()
  })

  test('returns the id without the record from another object of a subclass that stores only ids', async () => {
    IdOnly.stored = undefined
    await new IdOnly().setRecord(record)
    const next = new IdOnly()
    await expect(next.getSessionId()).resolves.toBe('a-session')
    await expect(next.getRecord()).resolves.toBeUndefined()
  })
})

describe('file session info', () => {
  test('reads what another process has written', async () => {
    await using folder = await temporaryFolder()
    const path = folder.file('deep/shop.json')
    await new FileSessionInfo(path).setRecord(record)
    const next = new FileSessionInfo(path)
    expect(await next.getRecord()).toEqual(record)
    expect(await next.getSessionId()).toBe('a-session')
  })

  test('writes a file that only its owner can read, and leaves no temporary file', async () => {
    await using folder = await temporaryFolder()
    const info = new FileSessionInfo(folder.file('shop.json'))
    await Promise.all([info.setRecord(record), info.setRecord({ ...record, epoch: 2 })])
    expect((await stat(folder.file('shop.json'))).mode & 0o777).toBe(0o600)
    expect(await readdir(folder.path)).toEqual(['shop.json'])
    expect(await info.getRecord()).toMatchObject({ epoch: 2 })
  })

  test('returns no session for a missing file, and removes the file when the session is cleared', async () => {
    await using folder = await temporaryFolder()
    const info = new FileSessionInfo(folder.file('shop.json'))
    expect(await info.getRecord()).toBeUndefined()
    await info.setSessionId('bare')
    expect(await new FileSessionInfo(folder.file('shop.json')).getSessionId()).toBe('bare')
    await info.setSessionId(undefined)
    expect(await readdir(folder.path)).toEqual([])
  })

  test.each([
    ['nonsense', 'nonsense'],
    ['an empty file', ''],
    [
      'a record of a newer format',
      JSON.stringify({ sessionId: 'x', record: { v: 2, sessionId: 'x' } }),
    ],
    ['an id that is not the record’s', JSON.stringify({ sessionId: 'other', record })],
  ])('returns no session for %s, and renames that file before it writes', async (_what, text) => {
    await using folder = await temporaryFolder()
    const path = folder.file('shop.json')
    await writeFile(path, text)
    const info = new FileSessionInfo(path)
    expect(await info.getRecord()).toBeUndefined()
    expect(await readFile(path, 'utf8')).toBe(text)
    await info.setRecord(record)
    const aside = (await readdir(folder.path)).find((name) => name.includes('unreadable'))
    expect(await readFile(folder.file(aside ?? ''), 'utf8')).toBe(text)
    expect(await new FileSessionInfo(path).getRecord()).toEqual(record)
  })

  test('reads with refresh() what another process has written', async () => {
    await using folder = await temporaryFolder()
    const one = new FileSessionInfo(folder.file('shop.json'))
    await one.setRecord(record)
    await new FileSessionInfo(folder.file('shop.json')).setRecord({
      ...record,
      sessionId: 'theirs',
    })
    expect(await one.getSessionId()).toBe('a-session')
    await one.refresh()
    expect(await one.getSessionId()).toBe('theirs')
  })

  test('rejects if the file system fails, and the next write succeeds', async () => {
    await using folder = await temporaryFolder()
    await writeFile(folder.file('not-a-folder'), '')
    const info = new FileSessionInfo(folder.file('not-a-folder/shop.json'))
    await expect(info.setRecord(record)).rejects.toMatchObject({ code: 'ENOTDIR' })
    await rm(folder.file('not-a-folder'))
    await info.setRecord(record)
    expect(await info.getRecord()).toEqual(record)
  })

  test('writes if a damaged file was removed after it was read', async () => {
    await using folder = await temporaryFolder()
    await writeFile(folder.file('shop.json'), 'nonsense')
    const info = new FileSessionInfo(folder.file('shop.json'))
    expect(await info.getRecord()).toBeUndefined()
    await rm(folder.file('shop.json'))
    await info.setRecord(record)
    expect(await new FileSessionInfo(folder.file('shop.json')).getRecord()).toEqual(record)
  })

  test('reads a complete record while others write', async () => {
    await using folder = await temporaryFolder()
    const path = folder.file('shop.json')
    const write = async (name: string): Promise<void> => {
      const info = new FileSessionInfo(path)
      for (let epoch = 1; epoch <= 10; epoch++) {
        await info.setRecord({ ...record, sessionId: `${name}-${'x'.repeat(epoch * 50)}`, epoch })
      }
    }
    await write('first')
    const writing = Promise.all([write('one'), write('two')])
    const found = await Promise.all(
      Array.from({ length: 50 }, () => new FileSessionInfo(path).getRecord()),
    )
    await writing
    expect(found.filter((one) => one === undefined)).toEqual([])
    expect((await readdir(folder.path)).toSorted()).toEqual(['shop.json'])
  })
})
