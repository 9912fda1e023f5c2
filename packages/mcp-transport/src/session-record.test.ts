import { isNewerRecord, isSessionId, shortSessionId } from '@x/internal'
import { discoverResult } from '@x/mcp-testing'
import { expect, test, describe } from 'vitest'
import {
  sessionRecordFrom,
  toInitializeResult,
  isDiscoverResult,
  commonVersion,
  hasLegacyVersion,
} from './session-record.ts'
import type { SessionRecord, DiscoverResult } from './session-record.ts'

describe('session record', () => {
  /** All fields. Later releases must read the records that are stored today. */
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
    tools: {
      tools: [{ name: 'pay', inputSchema: { type: 'object' } }],
      leftOut: [{ name: 'odd', reason: 'its schema is invalid' }],
      readAt: '2026-11-20T10:00:00.000Z',
      ttlMs: 300_000,
    },
    createdAt: '2026-11-20T10:00:00.000Z',
    updatedAt: '2026-11-20T10:00:00.000Z',
  } as const satisfies Required<SessionRecord>

  test('of a newer format is recognized, and is no record of this format', () => {
    expect([full, { ...full, v: 2 }, { v: '2' }, 'v2'].map(isNewerRecord)).toEqual([
      false,
      true,
      false,
      false,
    ])
    expect(sessionRecordFrom({ ...full, v: 2 })).toBeUndefined()
  })

  test('has these public field names', () => {
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
      'tools',
      'createdAt',
      'updatedAt',
    ])
    expect(sessionRecordFrom(structuredClone(full))).toEqual(full)
  })

  test.each([
    ['is null', null],
    ['is not an object', 'all of them'],
    ['has no time', { ...full.tools, readAt: undefined }],
    ['has an invalid time', { ...full.tools, readAt: 'yesterday' }],
    ['has no end', { ...full.tools, ttlMs: null }],
    ['ends before it begins', { ...full.tools, ttlMs: -1 }],
    ['has no tools', { ...full.tools, tools: {} }],
    ['has a tool without a name', { ...full.tools, tools: [{ description: 'x' }] }],
    ['has a reason that is not a text', { ...full.tools, leftOut: [{ name: 'x', reason: 7 }] }],
  ])('keeps all but a list of tools that %s', (_what, tools) => {
    const { tools: _, ...rest } = full
    expect(sessionRecordFrom({ ...full, tools })).toEqual(rest)
  })

  test('accepts a record without a session', () => {
    const { v, serverUrl, era, eraCheckedAt, epoch, createdAt, updatedAt } = full
    const rest = { v, serverUrl, era, eraCheckedAt, epoch, createdAt, updatedAt }
    expect(sessionRecordFrom(rest)).toEqual(rest)
  })

  test('keeps unknown fields, such as the cursor that earlier versions stored', () => {
    expect(sessionRecordFrom({ ...full, lastEventId: 'e7' })).toHaveProperty('lastEventId', 'e7')
  })

  test.each([
    ['null', null],
    ['text', JSON.stringify(full)],
    ['an array', [full]],
    ['another format', { ...full, v: 2 }],
    ['no server', { ...full, serverUrl: undefined }],
    ['an unknown era', { ...full, era: 'future' }],
    ['an epoch that is not an integer', { ...full, epoch: 1.5 }],
    ['a session id that no header may carry', { ...full, sessionId: 'a\r\nx: y' }],
    ['a version that no header may carry', { ...full, protocolVersion: '2025\r\nx: y' }],
    ['an answer without capabilities', { ...full, initializeResult: { protocolVersion: 'x' } }],
    ['an invalid date', { ...full, createdAt: 'yesterday' }],
    ['a principal that is not a string', { ...full, principal: 7 }],
  ])('returns undefined for %s', (_name, value) => {
    expect(sessionRecordFrom(value)).toBeUndefined()
  })
})

describe('discover result', () => {
  const view = { protocolVersion: '2025-11-25', host: 'shop.example' }
  const minimal: DiscoverResult = { supportedVersions: ['2026-07-28'], capabilities: {} }

  test.each([
    ['all fields', discoverResult, true],
    ['the required fields', minimal, true],
    ['no versions', { capabilities: {} }, false],
    ['versions that are not strings', { ...minimal, supportedVersions: [20260728] }, false],
    ['no capabilities', { supportedVersions: [] }, false],
    ['instructions that are not a string', { ...minimal, instructions: {} }, false],
    ['an InitializeResult', { protocolVersion: '2025-11-25', capabilities: {} }, false],
    ['null', null, false],
  ])('is valid or not: %s', (_name, value, is) => {
    expect(isDiscoverResult(value)).toBe(is)
  })

  describe('converted to an InitializeResult', () => {
    test('has the requested version, and no tasks', () => {
      const discovered = {
        ...minimal,
        capabilities: { tools: { listChanged: true }, tasks: { list: {} } },
        instructions: 'Be kind',
      }
      expect(toInitializeResult(discovered, view)).toEqual({
        protocolVersion: '2025-11-25',
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: 'shop.example', version: '0' },
        instructions: 'Be kind',
      })
    })

    test.each([
      [
        'in _meta',
        { _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'm', version: '1' } } },
        'm',
      ],
      ['in the body of older drafts', { serverInfo: { name: 'b', version: '1' } }, 'b'],
      [
        'in _meta, if the body has another one',
        {
          _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'm', version: '1' } },
          serverInfo: { name: 'b', version: '1' },
        },
        'm',
      ],
      [
        'of the host, if both are malformed',
        { _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'm' } }, serverInfo: 'b' },
        'shop.example',
      ],
    ])('has the name %s', (_name, part, name) => {
      expect(toInitializeResult({ ...minimal, ...part }, view).serverInfo.name).toBe(name)
    })
  })
})

describe('versions', () => {
  test('finds a supported version at any position', () => {
    expect(commonVersion(['2099-01-01', '2025-11-25', '2026-07-28'])).toBe('2026-07-28')
    expect(commonVersion(['2025-11-25', '2099-01-01'])).toBeUndefined()
    expect(commonVersion([])).toBeUndefined()
  })

  test('treats revisions before 2026 as revisions with sessions', () => {
    expect(hasLegacyVersion(['2026-07-28', '2024-11-05'])).toBe(true)
    expect(hasLegacyVersion(['2026-07-28', '2099-01-01'])).toBe(false)
    expect(hasLegacyVersion([])).toBe(false)
  })
})

describe('session id', () => {
  test.each([
    ['one character', '!', true],
    ['a UUID', '1868a90c-6e1f-4f3a-9c5d-0d2f1b7e3a11', true],
    ['the last visible ASCII character', '~', true],
    ['1 KiB', 'a'.repeat(1024), true],
    ['more than 1 KiB', 'a'.repeat(1025), false],
    ['nothing', '', false],
    ['a space', 'a b', false],
    ['a line break', 'a\n', false],
    ['a header injection', 'a\r\nx: y', false],
    ['a letter beyond ASCII', 'sessiön', false],
    ['DEL', '\u007F', false],
    ['a number', 7, false],
    ['undefined', undefined, false],
  ])('is valid or not: %s', (_name, value, expected) => {
    expect(isSessionId(value)).toBe(expected)
  })

  test('is shortened to a text that differs for other ids and does not reveal the id', () => {
    expect(shortSessionId('1868a90c-6e1f-4f3a')).toBe('1868…(18)')
  })
})
