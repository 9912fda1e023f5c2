import { Agent } from 'undici'
import { describe, expect, test } from 'vitest'
import {
  bearer,
  clientCredentials,
  createAuthProvider,
  deviceOAuth,
  fileTokenStore,
  loopbackOAuth,
  memoryTokenStore,
} from './auth/index.ts'
import { createDispatcher, FileSessionInfo, SessionInfo, StreamableHttpTransport } from './index.ts'
import { resolveTimeouts } from './transport-options.ts'

const URL_TEXT = 'http://server.test/mcp'

/** Calls a function without type checks, as in JavaScript. */
function call(fn: unknown, ...given: readonly unknown[]): unknown {
  return Reflect.apply(fn as () => unknown, undefined, given)
}

const transport = (options: unknown): unknown =>
  Reflect.construct(StreamableHttpTransport, [URL_TEXT, options])

test('a time that no timer can have is the longest one', () => {
  const times = resolveTimeouts({
    probeMs: Infinity,
    silentMs: 2 ** 31,
    idleMs: 7,
    headersMs: undefined,
  })
  const longest = 2 ** 31 - 1
  expect(times).toMatchObject({ probeMs: longest, silentMs: longest, idleMs: 7, headersMs: 0 })
})

describe('a transport refuses the options', () => {
  test.each([
    [{ sesionInfo: new SessionInfo() }, 'Did you mean "sessionInfo"?'],
    [{ header: {} }, 'Did you mean "headers"?'],
    [{ timeout: 5000 }, 'Did you mean "timeouts"?'],
    [{ timeouts: { connect: 1 } }, 'Did you mean "timeouts.connectMs"?'],
    [{ timeouts: { connectMs: '1' } }, '"timeouts.connectMs" must be a number from 0'],
    [{ limits: { eventByte: 1 } }, 'Did you mean "limits.eventBytes"?'],
    [
      { reconnect: { maxAttempts: NaN } },
      '"reconnect.maxAttempts" must be a number from 0, not NaN',
    ],
    [{ era: 'old' }, `"era" must be 'auto', 'legacy-first', 'legacy' or 'modern', not 'old'`],
    [{ onSessionLost: 'reinitialise' }, `Did you mean 'reinitialize'?`],
    [{ onSessionReplaced: true }, '"onSessionReplaced" must be a function'],
    [{ sessionInfo: 'abc' }, '"sessionInfo" must be a SessionInfo, not a string'],
    [
      { authProvider: 'secret' },
      '"authProvider" must be a provider, such as bearer(token), not a string',
    ],
    [{ headers: 'secret' }, '"headers" must be an object or a function, not a string'],
    [{ dispatcher: {} }, '"dispatcher" must be an undici dispatcher, not an object'],
    [{ principal: 7 }, '"principal" must be a string, not 7'],
    [{ listen: 'no' }, '"listen" must be true or false'],
    [{ traceContext: {} }, '"traceContext" must be a function'],
    [{ onExchange: 'log' }, '"onExchange" must be a function'],
    [{ requestInit: { headers: {} } }, 'Write the headers of "requestInit" as "headers"'],
    [{ fetch }, 'no option "fetch". Use "headers"'],
    [{ reconnectionOptions: {} }, 'Write it as reconnect: { firstMs'],
    [{ sessionId: 'abc' }, 'sessionInfo: new SessionInfo(sessionId)'],
    [{ eventSourceInit: {} }, 'Write headers as "headers"'],
    [{ idleMs: 5 }, 'Did you mean "timeouts.idleMs"?'],
    [null, 'the options must be'],
  ])('%o with an error that says "%s"', (options, message) => {
    expect(() => transport(options)).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'CONFIG',
        message: expect.stringContaining(message),
      }),
    )
  })

  test('with a text that may be a secret, without showing it', () => {
    expect(() => transport({ authProvider: 'secret' })).not.toThrow('secret')
  })
})

test('accepts objects of other copies of the package', async () => {
  const dispatcher = new Agent()
  const sessionInfo = {
    durable: false,
    getSessionId: async () => undefined,
    setSessionId: async () => {},
    getRecord: async () => undefined,
    setRecord: async () => {},
  }
  const provider = { token: () => 'x' }
  expect(() => transport({ sessionInfo, dispatcher, authProvider: provider })).not.toThrow()
  await dispatcher.close()
})

describe('option checks of the factories', () => {
  const redirect = (): void => {}
  test.each([
    [createDispatcher, { connectionMs: 1 }, 'createDispatcher(): there is no option'],
    [createDispatcher, { connections: 0 }, '"connections" must be a number from 1, not 0'],
    [clientCredentials, { clientId: 'a' }, '"clientSecret" is missing'],
    [clientCredentials, { clientId: 'a', clientSecret: 'b', scopes: 'x' }, 'Did you mean "scope"?'],
    [createAuthProvider, { redirect }, '"redirectUrl" is missing'],
    [
      createAuthProvider,
      { redirect, redirectUrl: URL_TEXT, store: {} },
      'such as fileTokenStore(path)',
    ],
    [loopbackOAuth, {}, 'loopbackOAuth(): option "openBrowser" is missing'],
    [deviceOAuth, {}, 'deviceOAuth(): option "onCode" is missing'],
    [deviceOAuth, { onCod: redirect }, 'Did you mean "onCode"?'],
    [
      loopbackOAuth,
      { openBrowser: redirect, redirectUrl: URL_TEXT },
      'there is no option "redirectUrl"',
    ],
    [loopbackOAuth, { openBrowser: redirect, prot: 80 }, 'Did you mean "port"?'],
    [bearer, '', 'bearer(): option "token" must be a string that is not empty or a function'],
    [bearer, undefined, 'bearer(): option "token" is missing'],
    [fileTokenStore, undefined, 'fileTokenStore(): option "path" is missing'],
    [FileSessionInfo, '', 'FileSessionInfo: option "path" must be a string that is not empty'],
  ] as const)('refuse %o(%o)', (factory, given, message) => {
    const make = (): unknown =>
      factory === FileSessionInfo ? Reflect.construct(factory, [given]) : call(factory, given)
    expect(make).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
    )
  })

  test('accept valid options', () => {
    loopbackOAuth({ openBrowser: redirect, clientName: 'x', store: memoryTokenStore(), port: 0 })
    createAuthProvider({ redirect, redirectUrl: new URL(URL_TEXT), clientMetadata: {} })
    clientCredentials({ clientId: 'a', clientSecret: 'b', scope: undefined })
    expect(bearer('token').token()).toBe('token')
  })
})
