import { readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { fileSystem } from '@x/internal'
import { temporaryFolder } from '@x/internal/testing'
import { describeSessionInfo } from '@x/internal/testing/session-info'
import { describe, expect, test, vi } from 'vitest'
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

  describeSessionInfo('SessionInfo', () => ({ open: () => new SessionInfo() }), {
    isDurable: false,
  })
  describeSessionInfo(
    'a subclass that overrides only the ids',
    () => {
      IdOnly.stored = undefined
      return { open: () => new IdOnly() }
    },
    { isDurable: false },
  )
  describeSessionInfo(
    'FileSessionInfo',
    async () => {
      const folder = await temporaryFolder()
      return {
        open: () => new FileSessionInfo(folder.file('deep/shop.json')),
        remove: () => folder[Symbol.asyncDispose](),
      }
    },
    { isDurable: true },
  )

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

describe('on Windows, while another program has the file open', () => {
  const busy = Object.assign(new Error('busy'), { code: 'EPERM' })

  test.each(['readFile', 'rename', 'rm'] as const)(
    'stores a session after a refused %s',
    async (name) => {
      await using here = await temporaryFolder()
      const path = here.file('shop.json')
      vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32')
      const call = vi.spyOn(fileSystem, name)
      const info = new FileSessionInfo(path)
      call.mockRejectedValueOnce(busy)
      await info.setSessionId('first')
      await expect(new FileSessionInfo(path).getSessionId()).resolves.toBe('first')
      await info.setSessionId(undefined)
      expect(await readdir(here.path)).toEqual([])
    },
  )

  test('keeps a damaged file', async () => {
    await using here = await temporaryFolder()
    const path = here.file('shop.json')
    await writeFile(path, 'damaged')
    vi.spyOn(fileSystem, 'platform', 'get').mockReturnValue('win32')
    vi.spyOn(fileSystem, 'rename').mockRejectedValueOnce(busy)
    await new FileSessionInfo(path).setSessionId('first')
    expect(await readdir(here.path)).toHaveLength(2)
  })
})
