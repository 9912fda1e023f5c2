import { expect, test } from 'vitest'
import { parseAnswer } from './raw-http.ts'

const OK = 'HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMcp-Session-Id: abc\r\n\r\n'

test('parses status and body', () => {
  expect(parseAnswer(OK)).toEqual({ status: 200, session: undefined, body: 'body' })
  expect(parseAnswer('HTTP/1.1 204 No Content\r\n\r\n')).toEqual({ status: 204, body: '' })
})

test('joins chunks, and parses the session id', () => {
  const text = `${CHUNKED}4\r\nbody\r\n1\r\n!\r\n0\r\n\r\n`
  expect(parseAnswer(text)).toEqual({ status: 200, session: 'abc', body: 'body!' })
  for (let length = 0; length < text.length; length += 1) {
    expect(parseAnswer(text.slice(0, length))).toBeUndefined()
  }
})

test('parses an empty body', () => {
  const bare = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'
  expect(parseAnswer(bare)).toEqual({ status: 200, body: '' })
})

test('waits for the rest of an answer', () => {
  for (let length = 0; length < OK.length; length += 1) {
    expect(parseAnswer(OK.slice(0, length))).toBeUndefined()
  }
})

test.each([
  ['a body longer than its length', `${OK}!`],
  ['a second answer', OK + OK],
  ['a body after a 204', 'HTTP/1.1 204 No Content\r\n\r\nbody'],
  ['an answer without a length', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'],
  ['text after the last chunk', `${CHUNKED}0\r\n\r\n!`],
  ['a chunk without a length', `${CHUNKED}xyz\r\n`],
  ['another protocol', 'SSH-2.0-OpenSSH\r\n\r\n'],
])('rejects %s', (_, text) => {
  expect(() => parseAnswer(text)).toThrow(/answer/i)
})
