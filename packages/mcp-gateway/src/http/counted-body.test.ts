import { expect, test } from 'vitest'

import { type BodyEnd, countedBody } from './counted-body.ts'

/** One piece at a time, and none before it is wanted. */
function pieces(count: number): {
  readonly response: Response
  readonly state: { pulled: number; isCancelled: boolean }
} {
  const state = { pulled: 0, isCancelled: false }
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (state.pulled++ === count) controller.close()
        else controller.enqueue(new Uint8Array(10))
      },
      cancel: () => void (state.isCancelled = true),
    },
    { highWaterMark: 0 },
  )
  return { response: new Response(body, { status: 206, headers: { etag: '"x"' } }), state }
}

const never = new AbortController().signal

test('a body is the same, and tells how long it was when it is over', async () => {
  const ends: BodyEnd[] = []
  const { response, state } = pieces(3)
  const counted = countedBody(response, never, (end) => ends.push(end))
  expect([counted.status, counted.headers.get('etag')]).toEqual([206, '"x"'])
  expect(state.pulled).toBe(0)
  expect((await counted.arrayBuffer()).byteLength).toBe(30)
  expect(ends).toEqual([{ bytes: 30, isComplete: true }])
})

test('who wants no more of it ends its source, and is told of with what was taken', async () => {
  const ends: BodyEnd[] = []
  const { response, state } = pieces(3)
  const reader = countedBody(response, never, (end) => ends.push(end)).body?.getReader()
  await reader?.read()
  await reader?.cancel()
  expect(ends).toEqual([{ bytes: 10, isComplete: false }])
  expect(state).toEqual({ pulled: 1, isCancelled: true })
})

test('a request that is given up is one whose body nobody takes', async () => {
  const ends: BodyEnd[] = []
  const { response, state } = pieces(3)
  const leaving = new AbortController()
  countedBody(response, leaving.signal, (end) => ends.push(end))
  leaving.abort()
  leaving.abort()
  expect(ends).toEqual([{ bytes: 0, isComplete: false }])
  expect(state.isCancelled).toBe(true)
  countedBody(pieces(1).response, leaving.signal, (end) => ends.push(end))
  expect(ends).toHaveLength(2)
})

test('a source that breaks is told of, and to whoever reads', async () => {
  const ends: BodyEnd[] = []
  const broken = new ReadableStream({ pull: (to) => to.error(new Error('the disk is gone')) })
  const counted = countedBody(new Response(broken), never, (end) => ends.push(end))
  await expect(counted.text()).rejects.toThrow('the disk is gone')
  expect(ends).toEqual([{ bytes: 0, isComplete: false }])
})

test('an answer without a body is over at once', () => {
  const ends: BodyEnd[] = []
  countedBody(new Response(null), never, (end) => ends.push(end))
  expect(ends).toEqual([{ bytes: 0, isComplete: true }])
})
