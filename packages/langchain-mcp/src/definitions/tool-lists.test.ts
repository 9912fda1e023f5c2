import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { ToolLists, type StoredList } from './tool-lists.ts'

const tools = [{ name: 'pay' }]
const found = (currentMs: number) =>
  vi.fn<() => Promise<StoredList>>(async () => ({ tools, leftOut: [], currentMs }))

describe('the lists of an earlier process', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  test('are read once, also for concurrent callers', async () => {
    const lists = new ToolLists()
    const read = found(1000)
    await Promise.all([lists.stored(read), lists.stored(read)])
    expect(await lists.stored(read)).toMatchObject({ tools, isStored: true })
    expect(read).toHaveBeenCalledTimes(1)
  })

  test('are used while they count as current, and are outdated after that', async () => {
    const lists = new ToolLists()
    const read = found(120_000)
    await lists.stored(read)
    expect(lists.isOutdated).toBe(false)
    vi.advanceTimersByTime(119_999)
    expect(await lists.stored(read)).toMatchObject({ tools, isStored: true })
    vi.advanceTimersByTime(1)
    expect(lists.isOutdated).toBe(true)
    expect(await lists.stored(read)).toBeUndefined()
  })

  test.each([0, -3_600_000])('are used for a minute if they are outdated: %i', async (ms) => {
    const lists = new ToolLists()
    const read = found(ms)
    expect(await lists.stored(read)).toMatchObject({ tools, isStored: true })
    expect(lists.isOutdated).toBe(true)
    vi.advanceTimersByTime(59_999)
    expect(await lists.stored(read)).toMatchObject({ tools, isStored: true })
    vi.advanceTimersByTime(1)
    expect(await lists.stored(read)).toBeUndefined()
  })

  test('are not used after this process has read its own', async () => {
    const lists = new ToolLists()
    const read = found(1000)
    await lists.stored(read)
    lists.endStored()
    expect(await lists.stored(read)).toBeUndefined()
    expect(lists.isOutdated).toBe(false)
    expect(read).toHaveBeenCalledTimes(1)
  })

  test('do not take the place of a list that this process has read in the meantime', async () => {
    const lists = new ToolLists()
    const { promise, resolve } = Promise.withResolvers<StoredList>()
    const late = lists.stored(() => promise)
    lists.endStored()
    resolve({ tools, leftOut: [], currentMs: 1000 })
    expect(await late).toBeUndefined()
  })

  test('are outdated, and read no more, after a change', async () => {
    const lists = new ToolLists()
    const read = found(1000)
    await lists.stored(read)
    lists.invalidate()
    expect(lists.isOutdated).toBe(true)
    expect(await lists.stored(read)).toBeUndefined()
    expect(read).toHaveBeenCalledTimes(1)
  })

  test('are read again after an error', async () => {
    const lists = new ToolLists()
    const failed = lists.stored(() => Promise.reject(new Error('no directory')))
    await expect(failed).rejects.toThrow('no directory')
    expect(await lists.stored(found(1000))).toMatchObject({ tools, isStored: true })
  })
})
