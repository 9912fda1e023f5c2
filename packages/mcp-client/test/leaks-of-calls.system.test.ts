import { describe, expect, test } from 'vitest'
import { eras, NOTHING, runLeakingProcess } from './run-leaking-process.ts'

describe.each(Object.entries(eras))('%s', (_era, start) => {
  test('ten thousand calls with any outcome, and lost sessions among them, leave no object', async () => {
    await using server = await start()
    const { before, alive, after } = await runLeakingProcess('calls', server)
    expect(server.count('tools/call')).toBeGreaterThan(5000) // others are lists and reads, or end unsent
    expect((after.heapBytes - before.heapBytes) / 6000).toBeLessThan(50)
    expect(alive.connections).toBe(1) // the one of the current session
    expect(after).toMatchObject(NOTHING)
    expect(after.processListeners).toBe(before.processListeners)
  })
})
