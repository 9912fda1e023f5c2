import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { HandshakeContext } from './handshake-context.ts'

test('recognizes each of several clients, also when one waits for another', async () => {
  const [outer, inner, other] = [
    new HandshakeContext(),
    new HandshakeContext(),
    new HandshakeContext(),
  ]
  const inside = (): boolean[] => [outer, inner, other].map((context) => context.isInside)
  await outer.run(async () => {
    const later = deferred()
    const seen: Promise<boolean[]>[] = []
    await inner.run(async () => {
      expect(inside()).toEqual([true, true, false])
      seen.push(later.promise.then(inside))
      inner.outside(() => expect(inside()).toEqual([false, false, false]))
    })
    expect(inside()).toEqual([true, false, false])
    later.resolve()
    expect(await seen[0]).toEqual([true, false, false])
  })
  expect(inside()).toEqual([false, false, false])
})
