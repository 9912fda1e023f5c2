import { describe, expect, test } from 'vitest'
import {
  argumentsFrom,
  commandFrom,
  environmentFrom,
  FieldError,
  headersFrom,
  secretEnvKeysFrom,
  secretHeaderKeysFrom,
  urlFrom,
} from './server-fields.ts'

/** What is wrong, or undefined. */
function problemOf(check: () => unknown): string | undefined {
  try {
    check()
    return undefined
  } catch (error) {
    if (error instanceof FieldError) return error.message
    throw error
  }
}

test.each([
  'https://shop.example/mcp',
  'http://[::1]:8080/mcp?key=1',
  'HTTPS://shop.example',
  new URL('http://127.0.0.1/mcp'),
])('a URL that can be used: %s', (url) => {
  expect(urlFrom('url', url)).toBe(String(url))
})

test.each([
  [' https://shop.example/mcp', 'url begins or ends with white space'],
  ['https://shop.example/mcp\n', 'url begins or ends with white space'],
  ['localhost:8080/mcp', 'url must be http or https, not "localhost:"'],
  ['/mcp', 'url is not absolute, like "https://host/mcp"'],
  ['', 'url is not absolute, like "https://host/mcp"'],
  ['file:///etc/passwd', 'url must be http or https, not "file:"'],
  ['https:///mcp', 'url has no host'],
  ['https:mcp', 'url has no host'],
  ['https://user:secret@shop.example/mcp', 'url holds credentials: pass them as headers instead'],
  [42, 'url is not a string'],
  [undefined, 'url is not a string'],
])('a URL that cannot: %j', (url, problem) => {
  expect(problemOf(() => urlFrom('url', url))).toBe(problem)
})

describe('headers', () => {
  test.each([{}, { authorization: 'Bearer x', 'x-tenant': 'Zürich' }])('%j', (headers) => {
    expect(headersFrom('headers', headers)).toEqual(headers)
  })

  test.each([
    [{ 'x y': 'secret' }, 'headers["x y"] has a name that is no header name'],
    [{ '': 'secret' }, 'headers[""] has a name that is no header name'],
    [{ a: 'secret\r\nhost: evil' }, 'headers["a"] has characters that no header may hold'],
    [{ a: 'secret\0' }, 'headers["a"] has characters that no header may hold'],
    [{ a: ' ' }, 'headers["a"] is empty'],
    [{ a: 1 }, 'headers["a"] is not a string'],
    [['secret'], 'headers is not an object of strings'],
    [null, 'headers is not an object of strings'],
  ])('%j is refused, and not repeated', (headers, problem) => {
    const told = problemOf(() => headersFrom('headers', headers))
    expect(told).toContain(problem)
    expect(told).not.toContain('secret')
  })
})

describe('what a server is started with', () => {
  test.each([
    ['npx', undefined],
    ['C:\\Program Files\\node.exe', undefined],
    [' ', 'command is blank'],
    ['a\0b', 'command holds a NUL character'],
    [['npx'], 'command is not a string'],
  ])('command %j: %s', (command, problem) => {
    expect(problemOf(() => commandFrom('command', command))).toBe(problem)
  })

  test.each([
    [[], undefined],
    [['-y', ''], undefined],
    [['-y', 1], 'args[1] is not a string'],
    [['a\0'], 'args[0] holds a NUL character'],
    ['-y', 'args is not an array of strings'],
  ])('args %j: %s', (args, problem) => {
    expect(problemOf(() => argumentsFrom('args', args))).toBe(problem)
  })

  test.each([
    [{ PATH: '', _x1: 'y' }, 'linux', undefined],
    [{ '1X': 'secret' }, 'linux', 'env["1X"] has a name that is none of an environment variable'],
    [{ 'A=B': 'secret' }, 'win32', 'env["A=B"] has a name that is none of an environment variable'],
    [{ 'ProgramFiles(x86)': 'C:' }, 'win32', undefined],
    [{ KEY: 1 }, 'linux', 'env["KEY"] is not a string'],
    [{ KEY: 'secret\0' }, 'linux', 'env["KEY"] holds a NUL character'],
    ['KEY=1', 'linux', 'env is not an object of strings'],
  ] as const)('env %j on %s: %s', (env, platform, problem) => {
    expect(problemOf(() => environmentFrom('env', env, platform))).toBe(problem)
  })
})

describe('names of secrets', () => {
  test.each([
    [[], undefined],
    [['authorization', 'X-API-Key'], undefined],
    [[''], 'keys[0] is no header name'],
    [['a', 'a b'], 'keys[1] is no header name'],
    [['a', 1], 'keys[1] is not a string'],
    [['X-Key', 'x-key'], 'keys[1] is there twice'],
    ['authorization', 'keys is not an array of strings'],
  ])('headers %j: %s', (keys, problem) => {
    expect(problemOf(() => secretHeaderKeysFrom('keys', keys))).toBe(problem)
  })

  test.each([
    [['TOKEN', 'Token'], 'linux', undefined],
    [['TOKEN', 'Token'], 'win32', 'keys[1] is there twice'],
    [['1X'], 'linux', 'keys[0] is no name of an environment variable'],
    [['ProgramFiles(x86)'], 'win32', undefined],
    [[' '], 'linux', 'keys[0] is no name of an environment variable'],
    [[''], 'win32', 'keys[0] is no name of an environment variable'],
  ] as const)('variables %j on %s: %s', (keys, platform, problem) => {
    expect(problemOf(() => secretEnvKeysFrom('keys', keys, platform))).toBe(problem)
  })
})
