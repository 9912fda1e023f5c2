import { expect, test } from 'vitest'
import { sessionRecordFrom } from './session-record.ts'
import type { SessionRecord } from './session-record.ts'

/** Every field: what is stored today must still be read by what is released tomorrow. */
const full = {
  v: 1,
  serverUrl: 'https://shop.example/mcp',
  principal: 'alice',
  era: 'legacy',
  eraCheckedAt: '2026-11-20T10:00:00.000Z',
  epoch: 2,
  sessionId: 'a-session',
  protocolVersion: '2025-11-25',
  initializeResult: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: {} },
    serverInfo: { name: 'shop', version: '1' },
    instructions: 'Be kind',
  },
  discoverResult: { supportedVersions: ['2026-07-28'], capabilities: {} },
  toolHeaders: { pay: [{ name: 'mcp-param-region', path: ['region'] }] },
  initializeParamsHash: '0123',
  lastEventId: 'e7',
  createdAt: '2026-11-20T10:00:00.000Z',
  updatedAt: '2026-11-20T10:00:00.000Z',
} as const satisfies Required<SessionRecord>

test('the field names are public', () => {
  expect(Object.keys(full)).toEqual([
    'v',
    'serverUrl',
    'principal',
    'era',
    'eraCheckedAt',
    'epoch',
    'sessionId',
    'protocolVersion',
    'initializeResult',
    'discoverResult',
    'toolHeaders',
    'initializeParamsHash',
    'lastEventId',
    'createdAt',
    'updatedAt',
  ])
  expect(sessionRecordFrom(structuredClone(full))).toEqual(full)
})

test('what outlives a session is a record, too', () => {
  const { v, serverUrl, era, eraCheckedAt, epoch, createdAt, updatedAt } = full
  const rest = { v, serverUrl, era, eraCheckedAt, epoch, createdAt, updatedAt }
  expect(sessionRecordFrom(rest)).toEqual(rest)
})

test('unknown fields are kept', () => {
  expect(sessionRecordFrom({ ...full, later: 1 })).toHaveProperty('later', 1)
})

test.each([
  ['null', null],
  ['text', JSON.stringify(full)],
  ['a list', [full]],
  ['another format', { ...full, v: 2 }],
  ['no server', { ...full, serverUrl: undefined }],
  ['an unknown era', { ...full, era: 'future' }],
  ['an epoch that is no integer', { ...full, epoch: 1.5 }],
  ['a session id that no header may carry', { ...full, sessionId: 'a\r\nx: y' }],
  ['a version that no header may carry', { ...full, protocolVersion: '2025\r\nx: y' }],
  ['an answer without capabilities', { ...full, initializeResult: { protocolVersion: 'x' } }],
  ['a date that is none', { ...full, createdAt: 'yesterday' }],
  ['a principal that is no text', { ...full, principal: 7 }],
  ['a cursor that is no text', { ...full, lastEventId: 7 }],
])('%s counts as none', (_name, value) => {
  expect(sessionRecordFrom(value)).toBeUndefined()
})
