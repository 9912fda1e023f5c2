import { expect, test } from 'vitest'
import { callbackFrom, returnedCallback } from './callback.ts'

test.each([
  ['?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['state=s&iss=https%3A%2F%2Fas.test&code=a', false],
  ['http://127.0.0.1:7/cb?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  ['com.app://cb?code=a&state=s&iss=https%3A%2F%2Fas.test', false],
  [new URL('http://127.0.0.1:7/cb?code=a&state=s&iss=https%3A%2F%2Fas.test'), false],
  [new URLSearchParams({ code: 'a', state: 's', iss: 'https://as.test' }), false],
])('%s is a whole callback', (callback, isBareCode) => {
  const answer = callbackFrom(callback)
  expect(answer.isBareCode).toBe(isBareCode)
  expect(Object.fromEntries(answer.parameters)).toEqual({
    code: 'a',
    state: 's',
    iss: 'https://as.test',
  })
})

test.each(['SplxlOBeZQQYbYS6WxSbIA', 'YWJj/+x==', '4/0Adeu5B-x'])('%s is a code', (code) => {
  const { parameters, isBareCode } = callbackFrom(code)
  expect([parameters.get('code'), isBareCode]).toEqual([code, true])
})

test.each(['', ' ', '?state=s', new URLSearchParams()])('%j is neither', (callback) => {
  expect(() => callbackFrom(callback)).toThrow(TypeError)
})

test.each([
  undefined,
  null,
  'a-bare-code',
  { code: 'a' },
  new URL('https://as.test/authorize?client_id=c&code_challenge=x'),
  'https://as.test/authorize?client_id=c',
])('a redirect that returns %s has not waited for the user', (value) => {
  expect(returnedCallback(value)).toBeUndefined()
})

test('a redirect may return what came back', () => {
  expect(returnedCallback('http://127.0.0.1:7/cb?error=access_denied')).toMatchObject({
    isBareCode: false,
  })
})
