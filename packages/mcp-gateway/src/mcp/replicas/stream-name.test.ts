import { expect, test } from 'vitest'

import { streamNameOf, streamPlaceFrom } from './stream-name.ts'

test.each([
  { stream: 'a-b', replica: 'r1', requestIds: [1, 'two:[3]', '\n'] },
  { stream: 'a-b', replica: undefined, requestIds: [] },
  { stream: '_GET_stream', replica: undefined, requestIds: [] },
])('a name says all that is known of a stream: $stream', (place) => {
  expect(streamPlaceFrom(streamNameOf(place))).toEqual(place)
})

test('the stream on which a client listens is one, whichever process writes it', () => {
  const [a, b] = ['a', 'b'].map((replica) =>
    streamNameOf({ stream: '_GET_stream', replica, requestIds: [] }),
  )
  expect(a).toBe(b)
})

test('a name stays short, whatever ids a client has', () => {
  const name = streamNameOf({ stream: 's', replica: 'r', requestIds: ['x'.repeat(100_000)] })
  expect(name.length).toBeLessThan(600)
  expect(streamPlaceFrom(name)).toMatchObject({ stream: 's', replica: 'r', requestIds: [] })
})
