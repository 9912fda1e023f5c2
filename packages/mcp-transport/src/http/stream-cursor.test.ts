import { expect, test } from 'vitest'
import { cursorFrom, cursorHeaders } from './stream-cursor.ts'

test.each([
  ['an id', 'e1', 'e1'],
  ['an empty one resets', '', undefined],
  ['beyond ASCII', 'é→', 'é→'],
  ['a tab', 'a\tb', undefined],
  ['a line break', 'a\r\nx: y', undefined],
  ['4 KiB', 'a'.repeat(4096), 'a'.repeat(4096)],
  ['more than 4 KiB', 'a'.repeat(4097), undefined],
])('%s', (_name, eventId, cursor) => {
  expect(cursorFrom(eventId)).toBe(cursor)
})

test('a cursor goes over the wire as UTF-8', () => {
  expect(cursorHeaders({ lastEventId: 'é→' })).toEqual([
    'last-event-id',
    String.fromCodePoint(...Buffer.from('é→', 'utf8')),
  ])
})

test('no cursor, no header', () => {
  expect(cursorHeaders({})).toEqual([])
  expect(cursorHeaders({ lastEventId: 'a\nb' })).toEqual([])
})
