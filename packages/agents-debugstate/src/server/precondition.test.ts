import { expect, test } from 'vitest'
import { holds } from './debug-state-store.ts'
import { parsePrecondition } from './protocol.ts'

test.each([
  [undefined, true, true],
  [{ ifMatch: '*' }, true, false],
  [{ ifMatch: ['a', 'b'] }, true, false],
  [{ ifMatch: ['b'] }, false, false],
  [{ ifNoneMatch: '*' }, false, true],
  [{ ifNoneMatch: ['a'] }, false, true],
  [{ ifNoneMatch: ['b'] }, true, true],
  [{ ifMatch: ['a'], ifNoneMatch: ['a'] }, false, false],
] as const)(
  'evaluates %j as %s for version a, and %s for no value',
  (precondition, forA, forNothing) => {
    expect([holds(precondition, 'a'), holds(precondition, undefined)]).toEqual([forA, forNothing])
  },
)

test.each([
  [{}, undefined],
  [{ 'if-match': '"a", "b"' }, { ifMatch: ['a', 'b'], ifNoneMatch: undefined }],
  [{ 'if-none-match': ' * ' }, { ifMatch: undefined, ifNoneMatch: '*' }],
  [{ 'if-none-match': 'W/"a"' }, { ifMatch: undefined, ifNoneMatch: ['a'] }],
  [{ 'if-match': 'a' }, 'malformed'],
  [{ 'if-match': '' }, 'malformed'],
  [{ 'if-none-match': '"a' }, 'malformed'],
])('parses the headers %j as %j', (headers, precondition) => {
  expect(parsePrecondition(new Headers(headers))).toEqual(precondition)
})

test('never matches a weak tag in If-Match', () => {
  const precondition = parsePrecondition(new Headers({ 'if-match': 'W/"a"' }))
  expect(precondition !== 'malformed' && holds(precondition, 'a')).toBe(false)
})
