import { expect, test } from 'vitest'
import { SessionReplacements } from './live-server.ts'

const lost = (epoch: number) => ({ epoch, reason: 'the server lost it' })

/** Makes a call. Returns a function that ends it and returns the replacement that is reported to the thread. */
function startCall(replacements: SessionReplacements, scope: string, thread: string) {
  const owner = `${scope}/${thread}`
  const before = replacements.knownTo(owner, scope)
  return () => replacements.since(before, owner, scope)
}

test('reports a replaced session once to a thread that used it', () => {
  const replacements = new SessionReplacements(10)
  expect(startCall(replacements, 's', 'ada')()).toBeUndefined()
  replacements.add('s', lost(2))
  expect(startCall(replacements, 's', 'ada')()).toEqual(lost(2))
  expect(startCall(replacements, 's', 'ada')()).toBeUndefined()
})

test('reports a replacement during the first call of a process, whose session another process opened', () => {
  const replacements = new SessionReplacements(10)
  const end = startCall(replacements, 's', 'ada')
  replacements.add('s', lost(2))
  expect(end()).toEqual(lost(2))
})

test('reports only the last of several replacements', () => {
  const replacements = new SessionReplacements(10)
  startCall(replacements, 's', 'ada')()
  replacements.add('s', lost(2))
  replacements.add('s', lost(3))
  expect(startCall(replacements, 's', 'ada')()).toEqual(lost(3))
  expect(startCall(replacements, 's', 'ada')()).toBeUndefined()
})

test('reports no replacement of another scope', () => {
  const replacements = new SessionReplacements(10)
  startCall(replacements, 'a', '')()
  replacements.add('b', lost(2))
  expect(startCall(replacements, 'a', '')()).toBeUndefined()
})

test('remembers no more threads than its limit', () => {
  const replacements = new SessionReplacements(1)
  startCall(replacements, 'a', '')()
  startCall(replacements, 'b', '')()
  replacements.add('a', lost(2))
  // The first thread was forgotten, so it counts as a new one.
  expect(startCall(replacements, 'a', '')()).toBeUndefined()
})
