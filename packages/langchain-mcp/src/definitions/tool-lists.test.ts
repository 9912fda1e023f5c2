import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { StoredLists } from './tool-lists.ts'
import type { StoredList } from './tool-lists.ts'

const tools = [{ name: 'pay' }]
const found = (currentMs: number) =>
  vi.fn<() => Promise<StoredList>>(async () => ({ tools, currentMs }))

describe('the lists of an earlier process', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  test('are read once for each principal, and for concurrent callers', async () => {
    const lists = new StoredLists(10)
    const read = found(1000)
    await Promise.all([lists.get('ada', read), lists.get('ada', read)])
    expect(await lists.get('ada', read)).toBe(tools)
    expect(read).toHaveBeenCalledTimes(1)
    expect(await lists.get('bob', async () => undefined)).toBeUndefined()
  })

  test('are used while they count as current, and are outdated after that', async () => {
    const lists = new StoredLists(10)
    const read = found(120_000)
    await lists.get('ada', read)
    expect(lists.isOutdated('ada')).toBe(false)
    vi.advanceTimersByTime(119_999)
    expect(await lists.get('ada', read)).toBe(tools)
    vi.advanceTimersByTime(1)
    expect(lists.isOutdated('ada')).toBe(true)
    expect(await lists.get('ada', read)).toBeUndefined()
  })

  test.each([0, -3_600_000])('are used for a minute if they are outdated: %i', async (ms) => {
    const lists = new StoredLists(10)
    const read = found(ms)
    expect(await lists.get('ada', read)).toBe(tools)
    expect(lists.isOutdated('ada')).toBe(true)
    vi.advanceTimersByTime(59_999)
    expect(await lists.get('ada', read)).toBe(tools)
    vi.advanceTimersByTime(1)
    expect(await lists.get('ada', read)).toBeUndefined()
  })

  test('are not used after this process has read its own', async () => {
    const lists = new StoredLists(10)
    const read = found(1000)
    await lists.get('ada', read)
    lists.replaced('ada')
    lists.replaced('bob')
    expect(await lists.get('ada', read)).toBeUndefined()
    expect(await lists.get('bob', read)).toBeUndefined()
    expect(lists.isOutdated('ada')).toBe(false)
    expect(read).toHaveBeenCalledTimes(1)
  })

  test('do not take the place of a list that this process has read in the meantime', async () => {
    const lists = new StoredLists(10)
    const { promise, resolve } = Promise.withResolvers<StoredList>()
    const late = lists.get('ada', () => promise)
    lists.replaced('ada')
    resolve({ tools, currentMs: 1000 })
    expect(await late).toBeUndefined()
  })

  test('are outdated, and read no more, after a change', async () => {
    const lists = new StoredLists(10)
    const read = found(1000)
    await lists.get('ada', read)
    lists.invalidate()
    expect(lists.isOutdated('ada')).toBe(true)
    expect(await lists.get('ada', read)).toBeUndefined()
    expect(await lists.get('bob', read)).toBeUndefined()
    expect(read).toHaveBeenCalledTimes(1)
  })

  test('are read again after an error', async () => {
    const lists = new StoredLists(10)
    const failed = lists.get('ada', () => Promise.reject(new Error('no directory')))
    await expect(failed).rejects.toThrow('no directory')
    expect(await lists.get('ada', found(1000))).toBe(tools)
  })
})
