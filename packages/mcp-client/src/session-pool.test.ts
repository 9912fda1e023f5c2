import { SessionInfo } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import type { McpServerConfig } from './server-config.ts'
import { SessionInfoFactory } from './session-info-factory.ts'
import { DetachedSessions, serverKey } from './session-pool.ts'

const server = { mcpUrl: 'http://shop.test/mcp' }
const scope = { principal: 'anna', run: 'run_0123456789abcdef' }

test('returns a detached session once in its scope, and never in another', () => {
  const sessions = new DetachedSessions()
  const factory = sessions.factoryFor('shop', new SessionInfoFactory())
  const first = factory.createSession(server, scope)
  expect(factory.createSession(server, { ...scope, principal: 'bert' })).not.toBe(first)
  sessions.detach('shop', scope)
  const others = [
    factory.createSession(server, { ...scope, principal: 'bert' }),
    factory.createSession(server, { ...scope, run: 'run_0000000000000000' }),
    sessions.factoryFor('bank', new SessionInfoFactory()).createSession(server, scope),
  ]
  expect(others).not.toContain(first)
  expect(factory.createSession(server, scope)).toBe(first)
  expect(factory.createSession(server, scope)).not.toBe(first)
})

test('keeps no session that has ended, and none of a durable store', () => {
  const sessions = new DetachedSessions()
  const factory = sessions.factoryFor('shop', new SessionInfoFactory())
  const ended = factory.createSession(server, scope)
  sessions.forget('shop', scope)
  sessions.detach('shop', scope)
  expect(factory.createSession(server, scope)).not.toBe(ended)

  const durable = sessions.factoryFor('bank', new DurableFactory())
  const kept = durable.createSession(server, scope)
  sessions.detach('bank', scope)
  expect(durable.createSession(server, scope)).not.toBe(kept) // the store is asked again
})

test('keeps at most a thousand detached sessions, and drops the oldest', () => {
  const sessions = new DetachedSessions()
  const factory = sessions.factoryFor('shop', new SessionInfoFactory())
  const scopes = Array.from({ length: 1001 }, (_, n) => ({ run: `run_${n}` }))
  const made = scopes.map((one) => {
    const info = factory.createSession(server, one)
    sessions.detach('shop', one)
    return info
  })
  const again = scopes.map((one) => factory.createSession(server, one))
  expect(again.map((info, n) => info === made[n])).toEqual(scopes.map((_one, n) => n > 0))
})

class DurableFactory extends SessionInfoFactory {
  override createSession(): SessionInfo {
    return new (class extends SessionInfo {
      override readonly durable: boolean = true
    })()
  }
}

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
