import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { systemClock } from '../internal/clock.ts'
import { GatewayError } from '../errors.ts'
import { ProcessLease } from './lease.ts'
import { MemoryGatewayStore } from './memory-store.ts'

describe('the lease of a process', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  test('is seen by other processes from the moment on that hold() resolves', async () => {
    await using store = new MemoryGatewayStore()
    await using one = new ProcessLease(store.records, systemClock)
    await using other = new ProcessLease(store.records, systemClock)
    expect(one.id).toMatch(/^[0-9a-f]{16}$/)
    expect(await other.isAlive(one.id)).toBe(false)
    const release = await one.hold()
    expect(await other.isAlive(one.id)).toBe(true)
    expect(await one.isAlive(one.id)).toBe(true)
    release()
  })

  test('is renewed while one of its holders needs it, and ends at most 3.5 s later', async () => {
    await using store = new MemoryGatewayStore()
    await using one = new ProcessLease(store.records, systemClock)
    await using other = new ProcessLease(store.records, systemClock)
    const [first, second] = [await one.hold(), await one.hold()]
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await other.isAlive(one.id)).toBe(true)
    first()
    first()
    await vi.advanceTimersByTimeAsync(60_000)
    expect(await other.isAlive(one.id)).toBe(true)
    second()
    await vi.advanceTimersByTimeAsync(3500)
    expect(await other.isAlive(one.id)).toBe(false)
  })

  test('costs one write for many holders that come and go within a renewal', async () => {
    await using store = new MemoryGatewayStore()
    const put = vi.spyOn(store.records, 'put')
    await using one = new ProcessLease(store.records, systemClock)
    for (let n = 0; n < 100; n++) (await one.hold())()
    expect(put).toHaveBeenCalledTimes(1)
    await vi.advanceTimersByTimeAsync(700)
    ;(await one.hold())()
    expect(put).toHaveBeenCalledTimes(2)
  })

  test('rejects while the store is away, and is held again after that', async () => {
    await using store = new MemoryGatewayStore()
    const put = vi.spyOn(store.records, 'put')
    await using one = new ProcessLease(store.records, systemClock)
    put.mockRejectedValueOnce(new GatewayError('UNAVAILABLE', 'The store is away'))
    await expect(one.hold()).rejects.toMatchObject({ code: 'UNAVAILABLE' })
    expect(vi.getTimerCount()).toBe(1) // the timer of the store
    const release = await one.hold()
    put.mockRejectedValueOnce(new GatewayError('UNAVAILABLE', 'The store is away'))
    await vi.advanceTimersByTimeAsync(1500)
    await using other = new ProcessLease(store.records, systemClock)
    expect(await other.isAlive(one.id)).toBe(true)
    release()
  })

  test('ends at once when the process closes it, also while it is written', async () => {
    await using store = new MemoryGatewayStore()
    await using other = new ProcessLease(store.records, systemClock)
    const one = new ProcessLease(store.records, systemClock)
    await one.hold()
    const renewing = vi.advanceTimersByTimeAsync(700)
    await one[Symbol.asyncDispose]()
    await renewing
    expect(await other.isAlive(one.id)).toBe(false)
    expect(vi.getTimerCount()).toBe(1)
  })
})
