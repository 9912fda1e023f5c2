import { expect, test } from 'vitest'
import { answerFrom } from './answer.ts'

const OK = 'HTTP/1.1 200 OK\r\netag: "v1"\r\nContent-Length: 4\r\n\r\nbody'
const CHUNKED = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nMcp-Session-Id: abc\r\n\r\n'

test('reads status, tag and body', () => {
  expect(answerFrom(OK)).toEqual({ status: 200, etag: '"v1"', body: 'body' })
  const empty = 'HTTP/1.1 204 No Content\r\nETag: "v2"\r\n\r\n'
  expect(answerFrom(empty)).toEqual({ status: 204, etag: '"v2"', body: '' })
})

test('puts chunks together, and tells the session that was opened', () => {
  const text = `${CHUNKED}4\r\nbody\r\n1\r\n!\r\n0\r\n\r\n`
  expect(answerFrom(text)).toEqual({ status: 200, session: 'abc', body: 'body!' })
  for (let length = 0; length < text.length; length += 1) {
    expect(answerFrom(text.slice(0, length))).toBeUndefined()
  }
})

test('an answer without a tag is told apart', () => {
  const bare = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'
  expect(answerFrom(bare)).toEqual({ status: 200, etag: undefined, body: '' })
})

test('waits for an answer that comes in pieces', () => {
  for (let length = 0; length < OK.length; length += 1) {
    expect(answerFrom(OK.slice(0, length))).toBeUndefined()
  }
})

test.each([
  ['more than it says', `${OK}!`],
  ['a second answer', OK + OK],
  ['something after nothing', 'HTTP/1.1 204 No Content\r\n\r\nbody'],
  ['a length that is not known', 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'],
  ['something after the last chunk', `${CHUNKED}0\r\n\r\n!`],
  ['a chunk without a length', `${CHUNKED}xyz\r\n`],
  ['another protocol', 'SSH-2.0-OpenSSH\r\n\r\n'],
])('refuses %s', (_, text) => {
  expect(() => answerFrom(text)).toThrow(/answer/i)
})
