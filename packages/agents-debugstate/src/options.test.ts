import { describe, expect, test } from 'vitest'
import { DebugStateClient, SessionInfoDebugState, SessionInfoDebugStateFactory } from './index.ts'
import {
  createDebugStateServer,
  MemoryDebugStateStore,
  RedisDebugStateStore,
  SqliteDebugStateStore,
} from './server/index.ts'

const store = new MemoryDebugStateStore()
const service = { origin: 'http://h', path: '/a', agentId: 'a', dispatcher: { dispatch() {} } }
const values = { read() {}, write() {}, remove() {} }
const key = { id: 'a', record: 'b', shared: false }
const onError = (): void => {}

describe('refuses', () => {
  test.each([
    [SessionInfoDebugStateFactory, [{ baseURL: 'http://h' }], 'Did you mean "baseUrl"?'],
    [SessionInfoDebugStateFactory, [{ timeout: 5 }], 'Did you mean "timeoutMs"?'],
    [SessionInfoDebugStateFactory, [{ token: 5 }], '"token" must be a string or a function, not 5'],
    [DebugStateClient, [{ ...service, dispatcher: undefined }], '"dispatcher" is missing'],
    [DebugStateClient, [{ ...service, timeout: 5 }], 'Did you mean "timeoutMs"?'],
    [DebugStateClient, ['http://h'], 'the options must be { origin, path'],
    [SessionInfoDebugState, [{ values, key }], '"onError" is missing: it must be a function'],
    [SessionInfoDebugState, [{ key, onError, values: {} }], '"values" must be a DebugStateClient'],
    [SessionInfoDebugState, [{ values, key, onError, flush: 5 }], 'Did you mean "flushMs"?'],
    [SessionInfoDebugState, [{ values, key: 'a', onError }], 'what debugStateKey() returns'],
    [createDebugStateServer, [{}], 'option "store" is missing: it must be a store'],
    [createDebugStateServer, [{ store: './state.db' }], '"store" must be a store'],
    [createDebugStateServer, [{ store, token: 'secret' }], 'Did you mean "tokens"?'],
    [
      createDebugStateServer,
      [{ store, tokens: 'secret' }],
      '"tokens" must be a list, not a string',
    ],
    [
      createDebugStateServer,
      [{ store, limits: { bodyByte: 1 } }],
      'Did you mean "limits.bodyBytes"?',
    ],
    [createDebugStateServer, [{ store, timeouts: { idle: 1 } }], 'Did you mean "timeouts.idleMs"?'],
    [MemoryDebugStateStore, [{ now: 5 }], '"now" must be a function, not 5'],
    [SqliteDebugStateStore, ['x.db', { synchronous: 'ful' }], `Did you mean 'full'?`],
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
