import { createServer, type IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

import { describe, expect, test } from 'vitest'

import { NodeRequest } from './node-request.ts'

const { signal } = new AbortController()

/** As it comes in with these lines. */
async function incomingWith(...lines: string[]): Promise<IncomingMessage> {
  const server = createServer()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const socket = connect(typeof address === 'object' && address ? address.port : 0, '127.0.0.1')
  const requested = once(server, 'request')
  socket.write(['GET /mcp HTTP/1.1', 'Host: localhost', ...lines, '', ''].join('\r\n'))
  const [incoming, outgoing] = await requested
  outgoing.end()
  socket.end()
  await text(socket)
  server.close()
  return incoming
}

function requestFrom(incoming: IncomingMessage): NodeRequest {
  return new NodeRequest(incoming, { url: 'http://localhost/mcp', signal })
}

describe('headers', () => {
  const lines = [
    'Authorization: Bearer a',
    'Authorization: Bearer b',
    'X-Own:  1 ',
    'Cookie: a=1',
    'Cookie: b=2',
  ]

  test('are those that `fetch` has, looked up or as a whole', async () => {
    const incoming = await incomingWith(...lines)
    const real = new Headers()
    for (let at = 0; at < incoming.rawHeaders.length; at += 2) {
      real.append(incoming.rawHeaders[at] ?? '', incoming.rawHeaders[at + 1] ?? '')
    }
    const { headers } = requestFrom(incoming)
    for (const [name, value] of real) expect(headers.get(name)).toBe(value)
    expect(headers.get('AUTHORIZATION')).toBe('Bearer a, Bearer b')
    expect(headers.get('absent')).toBeNull()
    expect(headers.has('Host')).toBe(true)
    expect([...headers]).toEqual([...real])
    expect([...new Headers(headers)]).toEqual([...real])
  })

  test('that are changed are changed for all', async () => {
    const { headers } = requestFrom(await incomingWith(...lines))
    expect(headers.get('x-own')).toBe('1')
    headers.set('x-own', '2')
    headers.delete('cookie')
    expect(headers.get('x-own')).toBe('2')
    expect(headers.get('cookie')).toBeNull()
  })
})

test('is a whole request for who wants one', async () => {
  const request = requestFrom(await incomingWith('X-Own: 1'))
  const { method, url, headers } = request.clone()
  expect([method, url, headers.get('x-own')]).toEqual(['GET', 'http://localhost/mcp', '1'])
  expect(await request.text()).toBe('')
  expect(request.redirect).toBe('follow')
})

test.each([
  ['a method that is forbidden', { method: 'TRACE' }, 'http://localhost/'],
  ['a user in its address', {}, 'http://user:word@localhost/'],
  ['no address', {}, 'http://:80:80/'],
])('%s makes no request', async (_, changed, url) => {
  const incoming = Object.assign(await incomingWith(), changed)
  expect(() => new NodeRequest(incoming, { url, signal })).toThrow(TypeError)
})
