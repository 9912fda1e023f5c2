import { getEventListeners } from 'node:events'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { SingleFlight } from './single-flight.ts'

const throwing = (): Promise<number> => {
  throw new Error('at once')
}

test('shares one operation among a hundred concurrent callers', async () => {
  const flight = new SingleFlight<number>()
  let runs = 0
  const results = await Promise.all(
    Array.from({ length: 100 }, () => flight.join(async () => ++runs)),
  )
  expect(new Set(results)).toEqual(new Set([1]))
  expect(flight.isBusy).toBe(false)
})

test('starts no second operation when the first calls a listener that joins', async () => {
  const flight = new SingleFlight<string>()
  let inner: Promise<string> | undefined
  const outer = flight.join(async () => {
    inner = flight.join(async () => 'second')
    return 'first'
  })
  expect(await outer).toBe('first')
  expect(await inner).toBe('first')
})

test('treats a start function that throws like any other error', async () => {
  const flight = new SingleFlight<number>()
  await expect(flight.join(throwing)).rejects.toThrow('at once')
  expect(flight.isBusy).toBe(false)
})

test('continues for the others when one caller stops waiting', async () => {
  const flight = new SingleFlight<number>()
  const answer = deferred<number>()
  const impatient = new AbortController()
  const leaving = flight.join(() => answer.promise, impatient.signal)
  const staying = flight.join(() => answer.promise)
  impatient.abort(new Error('enough'))
  await expect(leaving).rejects.toThrow('enough')
  answer.resolve(1)
  await expect(staying).resolves.toBe(1)
})

test('aborts the operation when the last caller has left, and starts a new one for the next caller', async () => {
  const flight = new SingleFlight<string>()
  const started = deferred<AbortSignal>()
  const goesOn = deferred<string>()
  const caller = new AbortController()
  const leaving = flight.join((signal) => {
    started.resolve(signal)
    return goesOn.promise
  }, caller.signal)
  const signal = await started.promise
  caller.abort(new Error('enough'))
  await expect(leaving).rejects.toThrow('enough')
  expect(signal.aborted).toBe(true)

  const next = flight.join(async () => 'mine')
  goesOn.resolve('too late')
  await expect(next).resolves.toBe('mine')
})

test('lets a caller stop waiting for an old operation to end', async () => {
  const flight = new SingleFlight<never>()
  const stuck = flight.join(() => new Promise(() => {}), AbortSignal.timeout(1))
  await expect(stuck).rejects.toThrow('timeout')
  const caller = new AbortController()
  const waiting = flight.join(() => new Promise(() => {}), caller.signal)
  caller.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
})

test('abort() rejects the waiting callers at once, and resolves when the operation has ended', async () => {
  const flight = new SingleFlight<number>()
  const cleanUp = deferred<number>()
  const waiting = flight.join(() => cleanUp.promise)
  let isEnded = false
  const ended = flight.abort(new Error('closed')).then(() => (isEnded = true))
  await expect(waiting).rejects.toThrow('closed')
  expect(isEnded).toBe(false)
  cleanUp.reject(new Error('unheard'))
  await ended
  expect(isEnded).toBe(true)
})

test('leaves no listener on the signal of a caller', async () => {
  const flight = new SingleFlight<number>()
  const { signal } = new AbortController()
  await flight.join(async () => 1, signal)
  await flight.join(async () => Promise.reject(new Error('no')), signal).catch(() => {})
  expect(getEventListeners(signal, 'abort')).toEqual([])
})
