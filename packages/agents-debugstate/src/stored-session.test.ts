import { describe, expect, test } from 'vitest'
import { SERVER_URL, shopRecord } from '../test/session-records.ts'
import {
  MAX_RECORD_BYTES,
  parseRecordHead,
  serializeRecord,
  parseStoredSession,
} from './stored-session.ts'

const owner = { serverUrl: SERVER_URL, principal: undefined, bareIds: true }
const record = shopRecord()
const text = JSON.stringify(record)

describe('a stored pair', () => {
  test('is a session with its record', () => {
    expect(parseStoredSession({ id: 'session-1', record: text }, owner)).toEqual({
      session: { sessionId: 'session-1', record },
    })
  })

  test('keeps unknown fields of the record', () => {
    const more = JSON.stringify({ ...record, affinity: 'node-7' })
    const { session } = parseStoredSession({ id: 'session-1', record: more }, owner)
    expect(session.record).toMatchObject({ affinity: 'node-7' })
  })

  test.each([
    ['is missing', undefined],
    ['is no JSON', '<html>'],
    ['is no record', '{"v":1}'],
    ['is of a newer format', JSON.stringify({ ...record, v: 2 })],
    ['names another session', JSON.stringify({ ...record, sessionId: 'session-0' })],
  ])('is an id without a record when the record %s', (_, stored) => {
    const texts = { id: 'session-1', record: stored }
    expect(parseStoredSession(texts, owner).session).toEqual({ sessionId: 'session-1' })
    expect(parseStoredSession(texts, { ...owner, bareIds: false })).toEqual({
      session: {},
      refused: 'no-record',
    })
  })

  test.each([
    ['another server', { serverUrl: 'https://other.example/mcp' }],
    ['another path', { serverUrl: 'https://shop.example/other' }],
    ['another principal', { principal: 'eve' }],
  ])('is not used when the record names %s', (_, changes) => {
    const texts = { id: 'session-1', record: JSON.stringify({ ...record, ...changes }) }
    expect(parseStoredSession(texts, owner)).toEqual({ session: {}, refused: 'other-owner' })
  })

  test.each([undefined, 'session-0'])(
    'is the session of the record, which replaces the id %s',
    (id) => {
      const marked = serializeRecord(record, id)
      expect(parseStoredSession({ id, record: marked }, owner)).toEqual({
        session: { sessionId: 'session-1', record },
      })
    },
  )

  test('may have a record without an id, of a server without sessions', () => {
    const modern = shopRecord({ era: 'modern', sessionId: undefined })
    const texts = { id: undefined, record: JSON.stringify(modern) }
    expect(parseStoredSession(texts, owner).session.record).toMatchObject({ era: 'modern' })
  })

  test.each(['two words', 'ümlaut', 'x'.repeat(1025), '<html>\n'])('has no id in %j', (id) => {
    expect(parseStoredSession({ id, record: undefined }, owner).session).toEqual({})
  })
})

test('returns the session id of a stored record, and whether its format is newer', () => {
  const newer = { ...record, v: 2 }
  const head = { isNewer: true, sessionId: 'session-1' }
  expect(parseRecordHead(JSON.stringify(newer))).toEqual(head)
  const modern = JSON.stringify({ ...newer, sessionId: undefined })
  expect(parseRecordHead(modern)).toEqual({ isNewer: true, sessionId: undefined })
  expect(parseRecordHead(text)).toEqual({ isNewer: false, sessionId: 'session-1' })
  expect(parseRecordHead('garbage')).toBeUndefined()
  expect(parseRecordHead(undefined)).toBeUndefined()
})

test.each(['<html>hi</html>', '{"error":"no"}', '["a"]', '"quoted"'])(
  'rejects the bare id %s, and accepts it with a record',
  (id) => {
    expect(parseStoredSession({ id, record: undefined }, owner)).toEqual({
      session: {},
      refused: 'no-id',
    })
    const own = JSON.stringify({ ...record, sessionId: id })
    expect(parseStoredSession({ id, record: own }, owner).session.sessionId).toBe(id)
  },
)

test('drops the instructions of a record over the limit, and does not store it if it is still too large', () => {
  const result = { protocolVersion: '2025-11-25', serverInfo: { name: 'shop', version: '1' } }
  const long = 'x'.repeat(MAX_RECORD_BYTES)
  const talkative = shopRecord({
    initializeResult: { ...result, capabilities: { tools: {} }, instructions: long },
  })
  expect(JSON.parse(serializeRecord(talkative) ?? '')).toEqual(
    shopRecord({ initializeResult: { ...result, capabilities: { tools: {} } } }),
  )
  const huge = shopRecord({ initializeResult: { ...result, capabilities: { long } } })
  expect(serializeRecord(huge)).toBeUndefined()
})
