import { expect, test } from 'vitest'
import { getProblem } from '../../test/get-problem.ts'
import { holds, parsePrecondition } from './protocol.ts'

const none = { ifMatch: undefined, ifNoneMatch: undefined }

test.each([
  [{}, true, true],
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
    const both = { ...none, ...precondition }
    expect([holds(both, 'a'), holds(both, undefined)]).toEqual([forA, forNothing])
  },
)

test.each([
  [{}, undefined],
  [{ 'if-match': '"a", "b"' }, { ifMatch: ['a', 'b'], ifNoneMatch: undefined }],
  [{ 'if-none-match': ' * ' }, { ifMatch: undefined, ifNoneMatch: '*' }],
  [{ 'if-none-match': 'W/"a"' }, { ifMatch: undefined, ifNoneMatch: ['a'] }],
])('parses the headers %j as %j', (headers, precondition) => {
  expect(parsePrecondition(new Headers(headers))).toEqual(precondition)
})

test.each([{ 'if-match': 'a' }, { 'if-match': '' }, { 'if-none-match': '"a' }])(
  'refuses the headers %j',
  async (headers) => {
    const problem = await getProblem(() => parsePrecondition(new Headers(headers)))
    expect(problem).toMatchObject({ status: 400, code: 'BAD_REQUEST' })
  },
)

test('never matches a weak tag in If-Match', () => {
  const precondition = parsePrecondition(new Headers({ 'if-match': 'W/"a"' }))
  expect(holds(precondition ?? none, 'a')).toBe(false)
})
