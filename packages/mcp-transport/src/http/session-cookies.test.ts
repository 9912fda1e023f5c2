import { expect, test, vi } from 'vitest'
import { SessionCookies } from './session-cookies.ts'

const target = { origin: 'https://shop.example', path: '/mcp?tenant=1' }

function sentAfter(setCookie: string | string[], { origin, path } = target): string | undefined {
  const cookies = new SessionCookies()
  cookies.take('s1', { origin, path }, { 'set-cookie': setCookie })
  return cookies.headerFor('s1')
}

test.each([
  ['AWSALB=abc; Path=/; Expires=Fri, 01 Jan 2100 00:00:00 GMT', 'AWSALB=abc'],
  ['AWSALBCORS=a+b/c=; Path=/; SameSite=None; Secure', 'AWSALBCORS=a+b/c='],
  ['route="1.2"; Path=/mcp; HttpOnly', 'route="1.2"'],
  [['a=1', 'b=2; Max-Age=60'], 'a=1; b=2'],
  [['a=1', 'a=2'], 'a=2'],
  [['a=1', 'a=; Max-Age=0'], undefined],
  [['a=1', 'a=; Expires=Thu, 01 Jan 1970 00:00:00 GMT'], undefined],
  ['a=1; Path=/other', undefined],
  ['a=1; Path=/mc', undefined],
  ['a=1; Path=nonsense', 'a=1'],
  ['a', undefined],
  ['=1', undefined],
  ['a=1\u0000', undefined],
  [`a=${'x'.repeat(5000)}`, undefined],
])('after Set-Cookie %j sends %j', (setCookie, sent) => {
  expect(sentAfter(setCookie)).toBe(sent)
})

test('a cookie for https is not sent over http', () => {
  const http = { origin: 'http://shop.example', path: '/mcp' }
  expect(sentAfter('a=1; Secure', http)).toBeUndefined()
  expect(sentAfter('a=1', http)).toBe('a=1')
})

test('cookies belong to one session', () => {
  const cookies = new SessionCookies()
  cookies.take('s1', target, { 'set-cookie': 'a=1' })
  cookies.take(undefined, target, { 'set-cookie': 'a=2' })
  expect(cookies.headerFor('s2')).toBeUndefined()
  expect(cookies.headerFor(undefined)).toBeUndefined()
})

test('expire, and have a limit for each session', () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  try {
    const many = Array.from({ length: 30 }, (_, index) => `c${index}=1; Max-Age=10`)
    const cookies = new SessionCookies()
    cookies.take('s1', target, { 'set-cookie': many })
    expect(cookies.headerFor('s1')?.split('; ')).toHaveLength(20)
    vi.setSystemTime(Date.now() + 11_000)
    expect(cookies.headerFor('s1')).toBeUndefined()
  } finally {
    vi.useRealTimers()
  }
})
