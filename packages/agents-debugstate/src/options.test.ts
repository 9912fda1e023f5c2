import { describe, expect, test } from 'vitest'
import { SessionInfoDebugStateFactory } from './index.ts'
import {
  createDebugStateServer,
  MemoryDebugStateStore,
  RedisDebugStateStore,
} from './server/index.ts'

const store = new MemoryDebugStateStore()

describe('refuses', () => {
  test.each([
    [SessionInfoDebugStateFactory, [{ baseURL: 'http://h' }], 'Did you mean "baseUrl"?'],
    [SessionInfoDebugStateFactory, [{ timeout: 5 }], 'Did you mean "timeoutMs"?'],
    [SessionInfoDebugStateFactory, [{ token: 5 }], '"token" must be a string or a function, not 5'],
    [SessionInfoDebugStateFactory, ['http://h'], 'the options must be { baseUrl, agentId'],
    [SessionInfoDebugStateFactory, [{ dispatcher: {} }], 'must be an undici dispatcher'],
    [createDebugStateServer, [{}], 'option "store" is missing: it must be a store'],
    [createDebugStateServer, [{ store: './state.db' }], '"store" must be a store'],
    [createDebugStateServer, [{ store, token: 'secret' }], 'Did you mean "tokens"?'],
    [
      createDebugStateServer,
      [{ store, tokens: 'secret' }],
      '"tokens" must be a list, not a string',
    ],
    [createDebugStateServer, [{ store, limits: { ttl: 1 } }], 'no option "limits.ttl"'],
    [RedisDebugStateStore, [{ uri: 'redis://h' }], 'Did you mean "url"?'],
    [RedisDebugStateStore, [{ timeoutMs: 0 }], '"timeoutMs" must be a number from 1, not 0'],
  ] as const)('%o %o', (factory, given, message) => {
    const make = (): unknown =>
      factory === createDebugStateServer
        ? Reflect.apply(factory as never, undefined, given)
        : Reflect.construct(factory as never, given)
    expect(make).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'CONFIG',
        message: expect.stringContaining(message),
      }),
    )
  })
})
