import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { HandshakeContext } from './handshake-context.ts'

test('is set in all code that the handshake calls, and nowhere else', async () => {
  const context = new HandshakeContext()
  const seen: boolean[] = []
  await context.run(async () => {
    await Promise.resolve()
    seen.push(context.isInside)
    context.outside(() => seen.push(context.isInside))
  })
  seen.push(context.isInside)
  expect(seen).toEqual([true, false, false])
})

test('is not set in code that continues after the handshake', async () => {
  const context = new HandshakeContext()
  const later = deferred()
  const stream = context.run(async () => ({
    isInside: later.promise.then(() => context.isInside), // as a listening stream does
  }))
  const { isInside } = await stream
  later.resolve()
  expect(await isInside).toBe(false)
})

test('keeps the handshakes of two clients apart', async () => {
  const [one, other] = [new HandshakeContext(), new HandshakeContext()]
  await one.run(async () => {
    expect(other.isInside).toBe(false)
    await other.run(async () => expect(one.isInside).toBe(true))
  })
})

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
