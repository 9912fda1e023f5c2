import { getEventListeners } from 'node:events'
import { deferred } from '@x/mcp-testing'
import { expect, test } from 'vitest'
import { settledOrAborted } from './settled-or-aborted.ts'

test('settles like the promise, and leaves the signal alone', async () => {
  const { signal } = new AbortController()
  await expect(settledOrAborted(Promise.resolve(1), signal)).resolves.toBe(1)
  await expect(settledOrAborted(Promise.reject(new Error('no')), signal)).rejects.toThrow('no')
  expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('does not wait longer than the signal, whatever becomes of the promise', async () => {
  const late = deferred()
  const controller = new AbortController()
  const waiting = settledOrAborted(late.promise, controller.signal)
  controller.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  late.reject(new Error('unheard')) // an unhandled rejection would fail the run
  await Promise.resolve()
})

test('a signal that has aborted already ends the wait at once', async () => {
  const waiting = settledOrAborted(new Promise(() => {}), AbortSignal.abort(new Error('enough')))
  await expect(waiting).rejects.toThrow('enough')
})
