import { discoverResult } from '@x/mcp-testing'
import { describe, expect, test } from 'vitest'
import { initializeResultFrom, isDiscoverResult } from './discover-result.ts'
import type { DiscoverResult } from './discover-result.ts'

const view = { protocolVersion: '2025-11-25', host: 'shop.example' }
const minimal: DiscoverResult = { supportedVersions: ['2026-07-28'], capabilities: {} }

test.each([
  ['a whole one', discoverResult, true],
  ['the least', minimal, true],
  ['no versions', { capabilities: {} }, false],
  ['versions that are no strings', { ...minimal, supportedVersions: [20260728] }, false],
  ['no capabilities', { supportedVersions: [] }, false],
  ['instructions that are no text', { ...minimal, instructions: {} }, false],
  ['an InitializeResult', { protocolVersion: '2025-11-25', capabilities: {} }, false],
  ['null', null, false],
])('%s', (_name, value, is) => {
  expect(isDiscoverResult(value)).toBe(is)
})

describe('seen as the answer to initialize', () => {
  test('it has the version that was asked for, and no tasks', () => {
    const discovered = {
      ...minimal,
      capabilities: { tools: { listChanged: true }, tasks: { list: {} } },
      instructions: 'Be kind',
    }
    expect(initializeResultFrom(discovered, view)).toEqual({
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
      'in both: _meta counts',
      {
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'm', version: '1' } },
        serverInfo: { name: 'b', version: '1' },
      },
      'm',
    ],
    [
      'broken in both: the host',
      { _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'm' } }, serverInfo: 'b' },
      'shop.example',
    ],
  ])('its name %s', (_name, part, name) => {
    expect(initializeResultFrom({ ...minimal, ...part }, view).serverInfo.name).toBe(name)
  })
})
