import { SessionInfo } from '@x/mcp-transport'
import { describe, expect, test } from 'vitest'
import {
  httpDirectory,
  McpClient,
  mcpJsonDirectory,
  runInSessionScope,
  SessionInfoFactory,
  StaticServerDirectory,
} from './index.ts'

const url = 'http://server.test/mcp'

/** Creates an object, or calls a function, without type checks. */
function made(factory: unknown, ...given: readonly unknown[]): unknown {
  const isClass = String(factory).startsWith('class ')
  return isClass
    ? Reflect.construct(factory as never, given)
    : Reflect.apply(factory as never, undefined, given)
}

const refused = (text: string): unknown =>
  expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(text) })

describe('McpClient rejects the option', () => {
  test.each([
    [
      { era: 'old' },
      `McpClient: option "era" must be 'auto', 'legacy-first', 'legacy' or 'modern'`,
    ],
    [{ replay: 'allways' }, `must be 'session-loss', 'idempotent' or 'never', not 'allways'`],
    [{ timeout: 5000 }, '(a number belongs to "timeoutMs"), not 5000'],
    [{ timeout: { resetOnProgress: true } }, 'option "timeout.maxMs" is missing'],
    [{ time_out_ms: 5 }, 'Did you mean "timeoutMs"?'],
    [
      { scope: 'ada' },
      `"scope" must be 'run', { principal, thread, run } or a function, not 'ada'`,
    ],
    [
      { scope: { user: 'ada' } },
      'there is no option "scope.user". The options of "scope" are principal',
    ],
    [{ sessionInfo: new SessionInfo() }, 'Did you mean "sessionInfoFactory"?'],
    [
      { sessionInfoFactory: new SessionInfo() },
      '"sessionInfoFactory" must be a SessionInfoFactory',
    ],
    [{ headers: {} }, 'there is no option "headers"'],
    [{ around: () => undefined }, 'there is no option "around"'],
    [{ timeoutMs: '5000' }, '"timeoutMs" must be a number from 0, not a string'],
    [{ maxRetries: NaN }, '"maxRetries" must be a number from 0, not NaN'],
    [{ handlers: { elicit() {} } }, 'there is no option "handlers.elicit"'],
    [{ handlers: { sampling: {} } }, '"handlers.sampling" must be a function, not an object'],
    [{ idleScopes: { maxScopes: 1 } }, 'The options of "idleScopes" are max, ms'],
    [{ timeouts: { conectMs: 1 } }, 'Did you mean "timeouts.connectMs"?'],
    [{ terminateOnClose: 'no' }, '"terminateOnClose" must be true or false, not a string'],
    [
      { authProvider: 'secret' },
      'such as bearer(token), or a function that gives one, not a string',
    ],
    [{ directory: './mcp.json' }, 'a directory, such as mcpJsonDirectory(path), not a string'],
    [{ openTelemetry: true }, '"openTelemetry" must be the module @opentelemetry/api, or false'],
    ['https://other.test', 'the options must be'],
  ])('%o', (options, message) => {
    expect(() => made(McpClient, { url }, options)).toThrow(refused(message))
  })
})

describe('McpClient rejects the config', () => {
  test.each([
    [undefined, 'expected a URL, or an object with one of slug, name, url and command'],
    [null, 'expected a URL'],
    [[url], 'expected a URL'],
    ['shop', 'url must be an absolute URL'],
    ['', 'url is empty'],
    [{ url, header: {} }, 'there is no option "header". Did you mean "headers"?'],
    [{ url, stream: true }, 'there is no option "stream". The options are url, headers'],
    [
      { url, timeoutMs: 5 },
      'Use the option "timeoutMs" of the client: new McpClient({ url }, { timeoutMs })',
    ],
    [
      { url, headers: 'authorization: x' },
      'headers must be an object with string values, or a function',
    ],
    [{ url, headers: null }, 'headers must be an object with string values, or a function'],
    [{ slug: 5 }, 'slug must be a string'],
    [{ slug: 'shop', folder: 'Shared' }, 'Did you mean "folderPath"?'],
    [{ name: 'Shop', headers: {} }, 'there is no option "headers"'],
    [{ command: 'npx', arg: [] }, 'Did you mean "args"?'],
  ])('%o', (config, message) => {
    expect(() => made(McpClient, config)).toThrow(refused(message))
  })
})

test.each([[url], [new URL(url)], [{ url }]])('McpClient accepts the config %o', (config) => {
  const client = new McpClient(config)
  expect(client.status()).toMatchObject({ server: url, state: 'created' })
})

describe('rejects the options of', () => {
  test.each([
    [runInSessionScope, [() => {}, { sginal: 5 }], 'Did you mean "signal"?'],
    [runInSessionScope, [() => {}, { signal: 5 }], '"signal" must be an AbortSignal, not 5'],
    [httpDirectory, [{ base: url }], 'httpDirectory(): there is no option "base"'],
    [mcpJsonDirectory, [], 'option "path" is missing: it must be the path of a file'],
    [StaticServerDirectory, [url], 'expected a map from slug to URL'],
    [StaticServerDirectory, [{ shop: 5 }], 'expected a map from slug to URL'],
  ] as const)('%o %o', (factory, given, message) => {
    expect(() => made(factory, ...given)).toThrow(refused(message))
  })
})

test('accepts a factory of another copy of the package', () => {
  class OtherCopy {
    createSession(): SessionInfo {
      return new SessionInfo()
    }
  }
  expect(() => new McpClient(url, { sessionInfoFactory: new OtherCopy() })).not.toThrow()
  expect(() => new McpClient(url, { sessionInfoFactory: new SessionInfoFactory() })).not.toThrow()
})

test('httpDirectory() accepts a URL', async () => {
  const directory = httpDirectory(new URL('http://127.0.0.1:9/'))
  await expect(directory.retrieve({ slug: 'shop' })).rejects.toMatchObject({
    message: expect.stringContaining('http://127.0.0.1:9/'),
  })
})
