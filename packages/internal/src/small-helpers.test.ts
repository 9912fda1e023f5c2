import { getEventListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import {
  BoundedMap,
  canonicalJson,
  decodeText,
  compareBytes,
  fulfilledWithin,
  isLoopback,
  isRecord,
  LineBuffer,
  Listeners,
  readAtMost,
  removeFrom,
  untilAborted,
  within,
} from './index.ts'

const never = new Promise<never>(() => {})

test('untilAborted rejects with the reason of the signal, before or after the call', async () => {
  const reason = new Error('stop')
  await expect(untilAborted(never, AbortSignal.abort(reason))).rejects.toBe(reason)
  const controller = new AbortController()
  const waiting = untilAborted(never, controller.signal)
  controller.abort(reason)
  await expect(waiting).rejects.toBe(reason)
})

test('untilAborted settles as the promise does', async () => {
  const { signal } = new AbortController()
  await expect(untilAborted(Promise.resolve(1), signal)).resolves.toBe(1)
  await expect(untilAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
})

test('untilAborted waits for the promise without a signal, and removes its listener from a signal', async () => {
  await expect(untilAborted(Promise.resolve(1), undefined)).resolves.toBe(1)
  const { signal } = new AbortController()
  await untilAborted(Promise.resolve(1), signal)
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('untilAborted drops a late failure of the promise', async () => {
  let fail = (_error: Error): void => {}
  const late = new Promise<never>((_resolve, reject) => (fail = reject))
  await expect(untilAborted(late, AbortSignal.abort())).rejects.toThrow('aborted')
  fail(new Error('late')) // an unhandled rejection would fail the run
  await Promise.resolve()
})

test('untilAborted rejects with an Error for any reason of the abort', async () => {
  await expect(untilAborted(never, AbortSignal.abort('stop'))).rejects.toEqual(new Error('stop'))
  await expect(untilAborted(never, AbortSignal.abort())).rejects.toBeInstanceOf(DOMException)
})

test('removeFrom removes the item once, and returns whether the list had it', () => {
  const list = ['a', 'b', 'a']
  expect(removeFrom(list, 'a')).toBe(true)
  expect(removeFrom(list, 'c')).toBe(false)
  expect(list).toEqual(['b', 'a'])
})

test('within settles as the promise does if it settles in time', async () => {
  expect(await within(Promise.resolve(1), 60_000, () => 2)).toBe(1)
  // A timer of Node.js would end at once with this time.
  expect(await within(sleep(20, 1), Infinity, () => 2)).toBe(1)
  await expect(within(Promise.reject(new Error('no')), 60_000, () => 2)).rejects.toThrow('no')
})

test('within returns or throws as onLate does after the time limit', async () => {
  expect(await within(never, 1, () => 2)).toBe(2)
  const onLate = (): never => {
    throw new Error('too late')
  }
  await expect(within(never, 1, onLate)).rejects.toThrow('too late')
})

test('fulfilledWithin returns whether a promise was fulfilled in time', async () => {
  expect(await fulfilledWithin(Promise.resolve(), 60_000)).toBe(true)
  expect(await fulfilledWithin(never, 1)).toBe(false)
  await expect(fulfilledWithin(Promise.reject(new Error('no')), 60_000)).rejects.toThrow('no')
})

test('BoundedMap removes its oldest entry for a new key beyond the limit, not for a known key', () => {
  const map = new BoundedMap<string | undefined, number>(2)
  map.set(undefined, 1).set('b', 2).set('b', 3)
  expect([...map]).toEqual([
    [undefined, 1],
    ['b', 3],
  ])
  expect([...map.set('c', 4)]).toEqual([
    ['b', 3],
    ['c', 4],
  ])
})

test('readAtMost reads all bytes, and stops above the limit', async () => {
  let chunks = 0
  const body = async function* (): AsyncGenerator<Uint8Array> {
    for (const text of ['ab', 'cd', 'ef']) {
      chunks++
      yield Buffer.from(text)
    }
  }
  expect((await readAtMost(body(), 6))?.toString()).toBe('abcdef')
  chunks = 0
  expect(await readAtMost(body(), 3)).toBeUndefined()
  expect(chunks).toBe(2)
})

test.each(['localhost', 'LOCALHOST', '127.0.0.1', '127.9.9.9', '::1', '[::1]', '0:0:0:0:0:0:0:1'])(
  'isLoopback accepts %s',
  (host) => {
    expect(isLoopback(host)).toBe(true)
  },
)

test.each([
  '',
  '0.0.0.0',
  '::',
  'localhost.example',
  '127.0.0.1.example',
  '127.999.0.1',
  '10.0.0.1',
])('isLoopback refuses %j', (host) => {
  expect(isLoopback(host)).toBe(false)
})

test('compareBytes orders texts as their bytes in UTF-8', () => {
  const characters = ['', '/', 'a', 'ä', '\uD7FF', '\uE000', '\uFFFF', '\u{10000}', '\u{10FFFF}']
  const texts = characters.flatMap((one) => characters.map((other) => `${one}${other}`))
  for (const one of texts) {
    for (const other of texts) {
      const expected = Buffer.compare(Buffer.from(one), Buffer.from(other))
      expect(Math.sign(compareBytes(one, other))).toBe(expected)
    }
  }
})

test('canonicalJson gives equal text for equal values, whatever the order of their keys', () => {
  expect(canonicalJson({ b: [{ d: 1, c: 2 }], a: undefined, 2: null, 10: 'x' })).toBe(
    '{"2":null,"10":"x","b":[{"c":2,"d":1}]}',
  )
  expect(canonicalJson(JSON.parse('{"b":1,"__proto__":{"y":1,"x":2}}'))).toBe(
    '{"__proto__":{"x":2,"y":1},"b":1}',
  )
  expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]))
  expect(canonicalJson(undefined)).toBe('')
})

test('isRecord accepts objects, and neither arrays nor null', () => {
  expect([{}, Object.create(null), new Map()].every(isRecord)).toBe(true)
  expect([[], null, undefined, 'text', () => {}].some(isRecord)).toBe(false)
})

test('Listeners removes one listener, also if the same function was added twice', () => {
  const received: number[] = []
  const listeners = new Listeners<number>(() => {})
  const listener = (payload: number): unknown => received.push(payload)
  const remove = listeners.add(listener)
  listeners.add(listener)
  remove()
  remove()
  listeners.emit(1)
  expect(received).toEqual([1])
  listeners.clear()
  expect(listeners.isEmpty).toBe(true)
})

test('Listeners calls all listeners, also if one throws or rejects', async () => {
  const errors: unknown[] = []
  const received: number[] = []
  const listeners = new Listeners<number>((error, payload) => errors.push([error, payload]))
  listeners.add(() => {
    throw new Error('sync')
  })
  listeners.add(async () => {
    throw new Error('async')
  })
  listeners.add((payload) => received.push(payload))
  listeners.emit(1)
  expect(received).toEqual([1])
  await expect
    .poll(() => errors)
    .toEqual([
      [new Error('sync'), 1],
      [new Error('async'), 1],
    ])
})

test('Listeners calls only listeners that were there when emit() began', () => {
  const received: string[] = []
  const listeners = new Listeners<string>(() => {})
  const remove = listeners.add(() => {
    received.push('first')
    remove()
    listeners.add(() => received.push('new'))
  })
  listeners.add(() => received.push('second'))
  listeners.emit('event')
  expect(received).toEqual(['first', 'second'])
})

test.each([
  ['UTF-8', Buffer.from('{"é":1}')],
  ['UTF-8 with a byte order mark', Buffer.from('\uFEFF{"é":1}')],
  ['UTF-16, as PowerShell writes it', Buffer.from('\uFEFF{"é":1}', 'utf16le')],
])('decodeText reads %s', (_, bytes) => {
  expect(decodeText(bytes)).toBe('{"é":1}')
})

test('LineBuffer returns lines without line breaks of Windows and byte order marks', () => {
  const lines = new LineBuffer(100)
  for (const byte of Buffer.from('\uFEFF{}\r\nb\n')) lines.append(Buffer.from([byte]))
  expect([lines.next(), lines.next(), lines.next()]).toEqual(['{}', 'b', undefined])
})
