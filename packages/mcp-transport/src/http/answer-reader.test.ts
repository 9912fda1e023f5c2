import { randomBytes } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import type { ResponseHeaders } from '../headers.ts'
import type { JsonRpcMessage } from '../json-rpc.ts'
import { parseServerUrl } from '../server-url.ts'
import { resolveLimits } from '../transport-options.ts'
import { AnswerReader, eventReader } from './answer-reader.ts'
import type { AnswerHandlers, AnswerOutcome } from './answer-reader.ts'

describe('sse reader', () => {
  type ReadEvent = ['data', string] | ['id', string] | ['retry', number]

  function read(chunks: Iterable<Buffer>, eventBytes = 1000): { events: ReadEvent[]; ok: boolean } {
    const events: ReadEvent[] = []
    const handlers = {
      cursor: (id: string) => events.push(['id', id]),
      retry: (ms: number) => events.push(['retry', ms]),
    }
    const feed = eventReader((text) => events.push(['data', text]) > 0, handlers, eventBytes)
    for (const chunk of chunks) if (!feed(chunk)) return { events, ok: false }
    return { events, ok: true }
  }

  const lines = [
    ': keep-alive',
    'id: e1',
    'data:',
    '',
    'retry: 250',
    'id: e2',
    'data: {"text":"Grüße → 👋"}',
    '',
    'event: ping',
    'data: {"skipped":true}',
    '',
    'event: message',
    'data: two',
    'data: lines',
    '',
    'id',
    'data: reset',
    '',
    'unknown: field',
    'id: e3',
    'data: cut off by the end',
  ]
  const expected: ReadEvent[] = [
    ['id', 'e1'],
    ['retry', 250],
    ['id', 'e2'],
    ['data', '{"text":"Grüße → 👋"}'],
    ['data', 'two\nlines'],
    ['id', ''],
    ['data', 'reset'],
  ]

  describe.each([
    ['LF', '\n'],
    ['CRLF', '\r\n'],
    ['CR', '\r'],
  ])('with %s', (_name, end) => {
    const bytes = Buffer.from(lines.join(end))

    test('complete', () => {
      expect(read([bytes])).toEqual({ events: expected, ok: true })
    })

    test('split once at any position', () => {
      for (let at = 1; at < bytes.length; at++) {
        expect(read([bytes.subarray(0, at), bytes.subarray(at)]).events).toEqual(expected)
      }
    })
  })

  test('skips a byte order mark at the start', () => {
    expect(read([Buffer.from('\uFEFFdata: a\n\n')]).events).toEqual([['data', 'a']])
  })

  test('reports an event id only after its event is complete', () => {
    // Resuming after an incomplete event would lose that event.
    expect(read([Buffer.from('id: e1\ndata: a\n\nid: e2\ndata: b\n')]).events).toEqual([
      ['id', 'e1'],
      ['data', 'a'],
    ])
  })

  test.each<[text: string, wanted: readonly ReadEvent[]]>([
    ['data: {"a":1}', [['data', '{"a":1}']]],
    [
      'id: e1\ndata: {}\n\nid: e2\ndata: {"a":1}\n',
      [
        ['id', 'e1'],
        ['data', '{}'],
        ['data', '{"a":1}'],
        ['id', 'e2'],
      ],
    ],
    [
      'id: e1\ndata: {}\n\nid: e2\ndata: {"a":',
      [
        ['id', 'e1'],
        ['data', '{}'],
        ['data', '{"a":'],
      ],
    ],
    ['id: e1\ndata:\n', []],
    ['data: {}\n\n', [['data', '{}']]],
    ['event: ping\nid: e1\ndata: {}', []],
  ])('reads an event that has no end, and its id if the data is complete: %j', (text, wanted) => {
    const events: ReadEvent[] = []
    const feed = eventReader(
      (data) => events.push(['data', data]) > 0 && data.endsWith('}'),
      { cursor: (id) => events.push(['id', id]) },
      1000,
    )
    feed(Buffer.from(text))
    feed(Buffer.from('\n\n'), true)
    expect(events).toEqual(wanted)
  })

  describe('limits', () => {
    test('do not apply to the length of a stream', () => {
      const events = Array.from({ length: 500 }, () => Buffer.from('data: 0123456789\n\n'))
      expect(read(events, 20).events).toHaveLength(500)
    })

    test.each([
      ['in one chunk', ['data: 0123456789abcdef\n\n']],
      ['in several chunks', ['data: 01234', '56789', 'abcdef', '\n\n']],
      ['with several lines', ['data: 0123\ndata: 4567\n', 'data: 89ab\n\n']],
      ['without an end', ['data: ', ...Array.from({ length: 100 }, () => 'x')]],
    ])('fail an event %s', (_name, chunks) => {
      expect(
        read(
          chunks.map((chunk) => Buffer.from(chunk)),
          10,
        ),
      ).toEqual({ events: [], ok: false })
    })

    test('count bytes, not characters', () => {
      expect(read([Buffer.from('data: →→→→\n\n')], 11).ok).toBe(false)
      expect(read([Buffer.from('data: →→→→\n\n')], 12).ok).toBe(true)
    })

    test('keep the events before an event that is too large', () => {
      const { events, ok } = read([Buffer.from('data: a\n\ndata: 0123456789abcdef\n\n')], 10)
      expect({ events, ok }).toEqual({ events: [['data', 'a']], ok: false })
    })
  })
})

describe('the body of a response', () => {
  const json = { 'content-type': 'application/json' }

  interface Read {
    readonly text: string
    readonly bytes?: Buffer[]
    readonly responseBytes?: number
    readonly status?: number
    readonly headers?: ResponseHeaders
    readonly isLongLived?: boolean
  }

  /** Reads a body in one chunk, or in the given chunks. Returns the messages and the outcome. */
  function read({
    text,
    bytes = [Buffer.from(text)],
    responseBytes = 1000,
    status = 200,
    headers = json,
    isLongLived = false,
  }: Read): {
    messages: JsonRpcMessage[]
    outcome: AnswerOutcome
  } {
    const messages: JsonRpcMessage[] = []
    const handlers: AnswerHandlers = {
      message: (message) => messages.push(message),
      outcome: () => {}, // the exchange calls it
    }
    const source = {
      url: parseServerUrl('https://server.test/mcp'),
      limits: { ...resolveLimits(), responseBytes },
    }
    const reader = new AnswerReader(source, handlers, { isMcp: true, headers: [], isLongLived })
    reader.head(status, headers)
    for (const chunk of bytes) if (!reader.data(chunk)) break
    return { messages, outcome: reader.end() }
  }

  const answer = { jsonrpc: '2.0', id: 1, result: { text: 'Grüße → 👋' } }
  const text = JSON.stringify(answer)

  test('joins characters that were split between chunks', () => {
    const bytes = [...Buffer.from(text)].map((byte) => Buffer.of(byte))
    expect(read({ text, bytes })).toEqual({
      messages: [answer],
      outcome: { kind: 'ended', isStream: false },
    })
  })

  test.each([false, true])('may have another type, unless it is long-lived: %s', (isLongLived) => {
    const headers = { 'content-type': 'text/plain' }
    const given = { text: `: hi\n\ndata: ${text}\n\n`, headers, isLongLived }
    const { messages, outcome } = read(given)
    expect(messages).toEqual(isLongLived ? [] : [answer])
    expect(outcome.kind).toBe(isLongLived ? 'refused' : 'ended')
  })

  test.each(['text/plain', 'text/event-stream'])('may begin with an empty line: %s', (type) => {
    const bytes = [Buffer.from('\r\n'), Buffer.from(text)]
    expect(read({ text, bytes, headers: { 'content-type': type } }).messages).toEqual([answer])
  })

  test('may begin with much white space, and be cut before a colon', () => {
    const [before = '', after] = text.split(/(?<="id")/)
    const bytes = [Buffer.from(' '.repeat(64) + before), Buffer.from(`${after}`)]
    expect(read({ text, bytes }).messages).toEqual([answer])
  })

  test.each(['', '\n'])('may be a stream that ends after the data: %j', (end) => {
    const headers = { 'content-type': 'text/event-stream' }
    expect(read({ text: `id: e1\ndata: ${text}${end}`, headers }).messages).toEqual([answer])
    expect(read({ text: `id: e1\ndata: ${text.slice(0, -1)}${end}`, headers }).messages).toEqual([])
  })

  test('may be encoded and of another type, up to the limit for answers', () => {
    const long = { jsonrpc: '2.0', id: 1, result: { text: randomBytes(90_000).toString('base64') } }
    const bytes = [gzipSync(JSON.stringify(long))]
    const headers = { 'content-type': 'text/plain', 'content-encoding': 'gzip' }
    expect(read({ text, bytes, headers, responseBytes: 200_000 }).messages).toEqual([long])
    expect(read({ text, bytes, headers, responseBytes: 100_000 }).messages).toEqual([])
  })

  test.each(['utf-8', 'UTF8', '', 'gzip', 'br', 'zstd'])(
    'may be plain although its encoding is %j',
    (encoding) => {
      const headers = { ...json, 'content-encoding': encoding }
      expect(read({ text, headers }).messages).toEqual([answer])
      const stream = `data: ${text}\n\n`
      expect(read({ text: stream, headers }).messages).toEqual([answer])
    },
  )

  test('may be empty although it is encoded', () => {
    const { outcome } = read({ text: '', headers: { ...json, 'content-encoding': 'gzip' } })
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { text: '' } })
  })

  test.each([200, 500])('is cut at 64 KiB if it is an error, also after decoding: %d', (status) => {
    const bytes = [gzipSync(Buffer.alloc(1_000_000, 'x'))]
    const headers = { 'content-type': 'text/plain', 'content-encoding': 'gzip' }
    const { outcome } = read({ text, bytes, status, headers, responseBytes: 2_000_000 })
    const refusal = outcome.kind === 'refused' ? outcome.refusal : undefined
    expect(refusal?.isPartial).toBe(true)
    expect(refusal?.text.length).toBe(status === 200 ? 64 * 1024 : 0)
  })

  test.each([false, true])(
    'is not read if it is an encoded stream, long-lived: %s',
    (isLongLived) => {
      const headers = { 'content-type': 'text/event-stream', 'content-encoding': 'gzip' }
      expect(() => read({ text: '', headers, isLongLived })).toThrow('gzip')
    },
  )

  test('is empty without a chunk', () => {
    const { outcome } = read({ text: '', bytes: [] })
    expect(outcome).toMatchObject({ kind: 'refused', refusal: { text: '', isPartial: false } })
  })

  test('is accepted up to the limit', () => {
    const responseBytes = Buffer.byteLength(text)
    expect(read({ text, responseBytes }).messages).toEqual([answer])
    expect(() => read({ text, responseBytes: responseBytes - 1 })).toThrow('limits.responseBytes')
  })

  test.each([202, 204])(
    'may be long and in any encoding with the status %d, which has no answer',
    (status) => {
      const headers = { 'content-encoding': 'utf-8' }
      const { outcome } = read({ text: 'x'.repeat(70_000), status, headers })
      expect(outcome).toEqual({ kind: 'ended', isStream: false })
    },
  )

  test.each([
    ['in one chunk', [70_000]],
    ['in several chunks', [40_000, 20_000, 20_000]],
  ])('is cut off at 64 KiB for an error, %s', (_name, sizes) => {
    const bytes = sizes.map((size) => Buffer.alloc(size, 'x'))
    const { outcome } = read({ text: '', bytes, status: 500 })
    const refusal = { text: 'x'.repeat(64 * 1024), isPartial: true }
    expect(outcome).toMatchObject({ kind: 'refused', refusal })
  })
})
