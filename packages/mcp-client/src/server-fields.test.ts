import { describe, expect, test } from 'vitest'
import {
  parseArguments,
  parseCommand,
  parseEnvironment,
  parseFolder,
  FieldError,
  parseHeaders,
  parseUrl,
} from './server-fields.ts'

/** Returns the message of the `FieldError`, or undefined. */
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
])('accepts the URL %s', (url) => {
  expect(parseUrl('url', url)).toBe(String(url))
})

test.each([
  [' https://shop.example/mcp', 'url starts or ends with white space: remove it'],
  ['https://shop.example/mcp\n', 'url starts or ends with white space: remove it'],
  ['localhost:8080/mcp', 'url must be http or https, not "localhost:"'],
  ['/mcp', 'url must be an absolute URL, such as "https://host/mcp"'],
  ['', 'url must be an absolute URL, such as "https://host/mcp"'],
  ['file:///etc/passwd', 'url must be http or https, not "file:"'],
  ['https:///mcp', 'url has no host: write it as "https://host/mcp"'],
  ['https:mcp', 'url has no host: write it as "https://host/mcp"'],
  [
    'https://user:secret@shop.example/mcp',
    'url contains credentials: send them in headers instead',
  ],
  [42, 'url must be a string'],
  [undefined, 'url must be a string'],
])('rejects the URL %j', (url, problem) => {
  expect(problemOf(() => parseUrl('url', url))).toBe(problem)
})

describe('headers', () => {
  test.each([{}, { authorization: 'Bearer x', 'x-tenant': 'Zürich' }])('accepts %j', (headers) => {
    expect(parseHeaders('headers', headers)).toEqual(headers)
  })

  test.each([
    [{ 'x y': 'secret' }, 'headers["x y"] has an invalid header name'],
    [{ '': 'secret' }, 'headers[""] has an invalid header name'],
    [{ a: 'secret\r\nhost: evil' }, 'headers["a"] contains characters that a header must not have'],
    [{ a: 'secret\0' }, 'headers["a"] contains characters that a header must not have'],
    [{ a: ' ' }, 'headers["a"] is empty'],
    [{ a: 1 }, 'headers["a"] must be a string'],
    [['secret'], 'headers must be an object with string values'],
    [null, 'headers must be an object with string values'],
  ])('rejects %j without showing its value', (headers, expected) => {
    const problem = problemOf(() => parseHeaders('headers', headers))
    expect(problem).toContain(expected)
    expect(problem).not.toContain('secret')
  })
})

describe('fields of a command', () => {
  test.each([
    ['npx', undefined],
    ['C:\\Program Files\\node.exe', undefined],
    [' ', 'command must not be blank'],
    ['a\0b', 'command must not contain a NUL character'],
    [['npx'], 'command must be a string'],
  ])('command %j: %s', (command, problem) => {
    expect(problemOf(() => parseCommand('command', command))).toBe(problem)
  })

  test.each([
    [[], undefined],
    [['-y', ''], undefined],
    [['-y', 1], 'args[1] must be a string'],
    [['a\0'], 'args[0] must not contain a NUL character'],
    ['-y', 'args must be an array of strings'],
  ])('args %j: %s', (args, problem) => {
    expect(problemOf(() => parseArguments('args', args))).toBe(problem)
  })

  test.each([
    [{ PATH: '', _x1: 'y' }, 'linux', undefined],
    [
      { '1X': 'secret' },
      'linux',
      'env["1X"] has an invalid variable name: use letters, digits and "_"',
    ],
    [
      { 'A=B': 'secret' },
      'win32',
      'env["A=B"] has an invalid variable name: use letters, digits and "_"',
    ],
    [{ 'ProgramFiles(x86)': 'C:' }, 'win32', undefined],
    [{ KEY: 1 }, 'linux', 'env["KEY"] must be a string'],
    [{ KEY: 'secret\0' }, 'linux', 'env["KEY"] must not contain a NUL character'],
    ['KEY=1', 'linux', 'env must be an object with string values'],
  ] as const)('env %j on %s: %s', (env, platform, problem) => {
    expect(problemOf(() => parseEnvironment('env', env, platform))).toBe(problem)
  })
})

test.each(['srv', '~/srv'])('rejects the folder %j', (path) => {
  expect(() => parseFolder('cwd', path)).toThrow('cwd must be an absolute path')
})

test('rejects a folder with a NUL character', () => {
  expect(() => parseFolder('cwd', '/srv\0')).toThrow('cwd must not contain a NUL character')
})
