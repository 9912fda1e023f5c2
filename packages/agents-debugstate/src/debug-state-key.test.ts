import { describe, expect, test } from 'vitest'
import { debugStateKey, encodeSegment } from './debug-state-config.ts'

describe('the key of a session', () => {
  test.each([
    [{ slug: 'shop', folderKey: 'f1' }, {}, 'mcpsession:f1:shop'],
    [{ slug: 'shop' }, {}, 'mcpsession::shop'],
    [{ slug: 'shop', folderKey: 'f1', mcpUrl: 'https://a.example/mcp' }, {}, 'mcpsession:f1:shop'],
    [{ mcpUrl: 'https://a.example/mcp' }, {}, 'mcpsession::42c16f3bfd38746a65256fbb1ee5c209'],
    [
      { slug: 'shop', folderKey: 'f1' },
      { thread: 't1' },
      'mcpsession:f1:shop:915c0b278859f5b12d44bb32691cfda6',
    ],
  ])('%j in scope %j', (server, scope, key) => {
    expect(debugStateKey(server, scope)?.name).toBe(key)
  })

  test.each([
    [{ slug: 'shop', folderKey: 'f1' }, {}, 'mcpsession:f1:shop:tools'],
    [
      { slug: 'shop', folderKey: 'f1' },
      { principal: 'ada' },
      'mcpsession:f1:shop:a794b7438067a5b546dba1055200e60d:tools',
    ],
  ])('of the list of tools of %j in scope %j', (server, scope, name) => {
    expect(debugStateKey(server, scope, 'tools')).toEqual({ name, isShared: false })
  })

  test('differs for every server URL and every part of the scope', () => {
    const url = 'https://a.example/mcp'
    const keys = [
      debugStateKey({ mcpUrl: url }),
      debugStateKey({ mcpUrl: `${url}?tenant=1` }),
      debugStateKey({ mcpUrl: url }, { principal: 'x' }),
      debugStateKey({ mcpUrl: url }, { thread: 'x' }),
      debugStateKey({ mcpUrl: url }, { run: 'x' }),
      debugStateKey({ mcpUrl: url }, { principal: 'x', thread: 'x' }),
    ].map((key) => key?.name)
    expect(new Set(keys).size).toBe(6)
  })

  test('is the same however credentials are written into the URL', () => {
    const plain = debugStateKey({ mcpUrl: 'https://a.example/mcp' })
    expect(debugStateKey({ mcpUrl: 'https://user:secret@a.example/mcp#part' })).toEqual(plain)
  })

  test('is shared with other implementations only if it has slug and folder only', () => {
    expect(debugStateKey({ slug: 'shop' })?.isShared).toBe(true)
    expect(debugStateKey({ slug: 'shop' }, { principal: 'x' })?.isShared).toBe(false)
    expect(debugStateKey({ mcpUrl: 'https://a.example/mcp' })?.isShared).toBe(false)
  })

  test('is undefined for a server with neither slug nor URL', () => {
    expect(debugStateKey({ name: 'local', mcpUrl: null })).toBeUndefined()
  })
})

test('encodes a key as one segment, with the same bytes as other languages', () => {
  expect(encodeSegment("mcpsession:a/b:it's(a)*test!%2F ü")).toBe(
    'mcpsession%3Aa%2Fb%3Ait%27s%28a%29%2Atest%21%252F%20%C3%BC',
  )
  expect(encodeSegment('\uD800')).toBe('%EF%BF%BD')
})
