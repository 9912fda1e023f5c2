import { seededRandom } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { SseReader, TextBody } from './answer-reader.ts'

describe('sse reader', () => {
  type ReadEvent = ['data', string] | ['id', string] | ['retry', number]

  function read(chunks: Iterable<Buffer>, eventBytes = 1000): { events: ReadEvent[]; ok: boolean } {
    const events: ReadEvent[] = []
    const reader = new SseReader(
      {
        data: (text) => events.push(['data', text]),
        id: (id) => events.push(['id', id]),
        retry: (ms) => events.push(['retry', ms]),
      },
      eventBytes,
    )
    for (const chunk of chunks) if (!reader.feed(chunk)) return { events, ok: false }
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

    test('byte by byte', () => {
      expect(read([...bytes].map((byte) => Buffer.of(byte))).events).toEqual(expected)
    })

    test('split once at any position', () => {
      for (let at = 1; at < bytes.length; at++) {
        expect(read([bytes.subarray(0, at), bytes.subarray(at)]).events).toEqual(expected)
      }
    })

    test('split at random positions', () => {
      const random = seededRandom(7)
      for (let round = 0; round < 200; round++) {
        const chunks: Buffer[] = []
        for (let at = 0; at < bytes.length;) {
          const next = at + 1 + Math.floor(random() * 20)
          chunks.push(bytes.subarray(at, next))
          at = next
        }
        expect(read(chunks).events).toEqual(expected)
      }
    })
  })

  test('a byte order mark at the start is skipped', () => {
    expect(read([Buffer.from('\uFEFFdata: a\n\n')]).events).toEqual([['data', 'a']])
  })

  test('an id counts only after its event is complete', () => {
    // Going on after an event that never came whole would lose it.
    expect(read([Buffer.from('id: e1\ndata: a\n\nid: e2\ndata: b\n')]).events).toEqual([
      ['id', 'e1'],
      ['data', 'a'],
    ])
  })

  describe('limits', () => {
    test('a stream has no length limit', () => {
      const events = Array.from({ length: 500 }, () => Buffer.from('data: 0123456789\n\n'))
      expect(read(events, 20).events).toHaveLength(500)
    })

    test.each([
      ['that came whole', ['data: 0123456789abcdef\n\n']],
      ['that came in pieces', ['data: 01234', '56789', 'abcdef', '\n\n']],
      ['of many lines', ['data: 0123\ndata: 4567\n', 'data: 89ab\n\n']],
      ['that never ends', ['data: ', ...Array.from({ length: 100 }, () => 'x')]],
    ])('an event %s', (_name, chunks) => {
      expect(
        read(
          chunks.map((chunk) => Buffer.from(chunk)),
          10,
        ),
      ).toEqual({ events: [], ok: false })
    })

    test('bytes count, not characters', () => {
      expect(read([Buffer.from('data: →→→→\n\n')], 11).ok).toBe(false)
      expect(read([Buffer.from('data: →→→→\n\n')], 12).ok).toBe(true)
    })

    test('events before it are kept', () => {
      const { events, ok } = read([Buffer.from('data: a\n\ndata: 0123456789abcdef\n\n')], 10)
      expect({ events, ok }).toEqual({ events: [['data', 'a']], ok: false })
    })
  })
})

describe('text body', () => {
  test('joins characters that were split between chunks', () => {
    const bytes = Buffer.from('Grüße → 👋')
    const body = new TextBody(100)
    for (const byte of bytes) expect(body.add(Buffer.of(byte))).toBe(true)
    expect(body.text()).toBe('Grüße → 👋')
  })

  test('is empty without a chunk', () => {
    expect(new TextBody(10).text()).toBe('')
  })

  test('reports that the limit is exceeded, and keeps the data up to it', () => {
    const body = new TextBody(5)
    expect(body.add(Buffer.from('abc'))).toBe(true)
    expect(body.add(Buffer.from('de'))).toBe(true)
    expect(body.add(Buffer.from('f'))).toBe(false)
    expect(body.add(Buffer.from('g'))).toBe(false)
    expect(body.text()).toBe('abcde')
  })

  test('cuts off the chunk that exceeds the limit', () => {
    const body = new TextBody(2)
    expect(body.add(Buffer.from('abcdef'))).toBe(false)
    expect(body.text()).toBe('ab')
  })
})
