import { describe, expect, test } from 'vitest'
import type { McpServerConfig } from './server-config.ts'
import { serverKey } from './session-pool.ts'

const headers = { a: '1', b: '2' }
const asked = (): Record<string, string> => ({})
const askedToo = (): Record<string, string> => ({})

describe('equal', () => {
  test.each<[string, McpServerConfig, McpServerConfig]>([
    ['the same URL, as text and as URL', { url: 'http://h/mcp' }, { url: new URL('http://h/mcp') }],
    [
      'headers in another order',
      { url: 'http://h/', headers },
      { url: 'http://h/', headers: { b: '2', a: '1' } },
    ],
    [
      'the same header function',
      { url: 'http://h/', headers: asked },
      { headers: asked, url: 'http://h/' },
    ],
    ['a field that is undefined', { slug: 'a' }, { slug: 'a', folderPath: undefined }],
  ])('%s', (_what, one, other) => {
    expect(serverKey(one)).toBe(serverKey(other))
  })
})

describe('different', () => {
  test.each<[string, McpServerConfig, McpServerConfig]>([
    ['slug and name', { slug: 'a' }, { name: 'a' }],
    ['the folder', { slug: 'a' }, { slug: 'a', folderPath: 'b' }],
    ['odd characters', { slug: 'a","folderPath:b' }, { slug: 'a', folderPath: 'b' }],
    ['a separator', { slug: 'a:b', folderPath: 'c' }, { slug: 'a', folderPath: 'b:c' }],
    [
      'the value of a header',
      { url: 'http://h/', headers },
      { url: 'http://h/', headers: { a: '1', b: '3' } },
    ],
    [
      'two header functions',
      { url: 'http://h/', headers: asked },
      { url: 'http://h/', headers: askedToo },
    ],
  ])('%s', (_what, one, other) => {
    expect(serverKey(one)).not.toBe(serverKey(other))
  })
})
