import { describe, expect, test } from 'vitest'
import { eras, NOTHING, remainsOf } from './remains-of.ts'

describe.each(Object.entries(eras))('%s', (_era, start) => {
  test('ten thousand calls, however they end, leave nothing', async () => {
    await using server = await start()
    const { before, after } = await remainsOf('calls', server)
    expect(server.count('tools/call')).toBeGreaterThan(5000) // the rest never was to be sent
    expect((after.heapBytes - before.heapBytes) / 10_000).toBeLessThan(50)
    expect(after).toMatchObject(NOTHING)
    expect(after.processListeners).toBe(before.processListeners)
  }, 120_000)
})
