import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'

import { abortable } from './timers.ts'

setFlagsFromString('--expose-gc')
const collectGarbage: () => void = runInNewContext('gc')

async function untilNextTask(): Promise<void> {
  await new Promise((resolve) => {
    setImmediate(resolve)
  })
}

/** A source that gives nothing, and whether it was ended. */
function silent() {
  const state = { hasEnded: false }
  const bytes: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise(() => {}),
      return: async () => {
        state.hasEnded = true
        return { done: true, value: undefined }
      },
    }),
  }
  return { bytes, state }
}

test('keeps no chunk of a file after it was read', async () => {
  const given: WeakRef<Uint8Array>[] = []
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (let n = 0; n < 64; n++) {
      const chunk = new Uint8Array(1024).fill(n)
      given.push(new WeakRef(chunk))
      yield chunk
    }
  }
  const passed = abortable(chunks(), new AbortController().signal)
  for (let n = 0; n < 60; n++) await passed.next()
  await untilNextTask()
  collectGarbage()
  const held = given.filter((chunk) => chunk.deref() !== undefined)
  expect(held.length).toBeLessThanOrEqual(2)
  await passed.return(undefined)
})

test('ends the read in flight and the source when the signal aborts', async () => {
  const { bytes, state } = silent()
  const stop = new AbortController()
  const next = abortable(bytes, stop.signal).next()
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(next).rejects.toBe(reason)
  expect(state.hasEnded).toBe(true)
})

test('ends at the next read when the signal aborts between two reads', async () => {
  const stop = new AbortController()
  async function* chunks(): AsyncGenerator<Uint8Array> {
    for (;;) yield new Uint8Array(1)
  }
  const passed = abortable(chunks(), stop.signal)
  await passed.next()
  stop.abort(new Error('enough'))
  await expect(passed.next()).rejects.toThrow('enough')
})
