import { DEFAULTS } from '../../test/settings.ts'
import { once } from 'node:events'
import { createServer, request, type ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'

import { expect, test } from 'vitest'

import { writeResponse } from './node-response.ts'
import { UnreadBytes } from './unread-bytes.ts'

const headers = { 'content-type': 'text/event-stream' }

interface Given {
  readonly length: string | undefined
  readonly body: string
}

/** What a client is given of this stream. */
async function given(body: ReadableStream): Promise<Given> {
  const write = async (outgoing: ServerResponse): Promise<void> => {
    const { signal } = new AbortController()
    await writeResponse(outgoing, new Response(body, { headers }), {
      headers,
      signal,
      unread: () => new UnreadBytes(DEFAULTS.limits).open('', () => outgoing.destroy()),
    })
    outgoing.end()
  }
  const server = createServer((_, outgoing) => void write(outgoing)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : 0
  const [response] = await once(
    request({ port, host: '127.0.0.1', agent: false }).end(),
    'response',
  )
  const whole = await text(response)
  server.close()
  return { length: response.headers['content-length'], body: whole }
}

const said = ['data: a\n\n', 'data: größer ✓\n\n']

test('events that are all there go out in one piece', async () => {
  const whole = said.join('')
  expect(await given(ReadableStream.from(said.map((each) => Buffer.from(each))))).toEqual({
    length: String(Buffer.byteLength(whole)),
    body: whole,
  })
})

test('events that come later go out as they come, and the head before them', async () => {
  const [first = '', second = ''] = said
  const later = async function* (): AsyncGenerator<Buffer> {
    yield Buffer.from(first)
    await new Promise((resolve) => setTimeout(resolve))
    yield Buffer.from(second)
  }
  expect(await given(ReadableStream.from(later()))).toEqual({
    length: undefined,
    body: first + second,
  })
})

test('many events are not gathered', async () => {
  const many = Array.from({ length: 100 }, () => Buffer.alloc(1000, 'x'))
  expect(await given(ReadableStream.from(many))).toEqual({
    length: undefined,
    body: 'x'.repeat(100_000),
  })
})
