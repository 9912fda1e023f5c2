import { SessionInfoFactory } from '@x/mcp-client'
import { describe, expect, test } from 'vitest'
import {
  authorizationToInterrupt,
  createMcpTools,
  createMcpToolsFromAgent,
  createMcpToolsFromMetadataForMcpServer,
  elicitationToInterrupt,
  loadMcpTools,
} from './index.ts'
import { fanOutToolCalls } from './fan-out-tool-calls.ts'
import { mcpToolsMiddleware } from './middleware.ts'
import { loadMcpPrompt } from './prompts.ts'
import { loadMcpResources } from './resources.ts'

/** A value from a settings file, without a check by the compiler. */
const fromSettings = (options: object): Parameters<typeof createMcpTools>[0] =>
  Object.assign({ servers: {} }, options)

describe('createMcpTools(), before anything is opened,', () => {
  test.each([
    [
      { session: 'threads' },
      /"session" must be 'run', 'thread', 'shared' or .*Did you mean 'thread'/,
    ],
    [
      { sesion: 'thread' },
      /^createMcpTools\(\): there is no option "sesion". Did you mean "session"/,
    ],
    [
      { pin: 'always' },
      /"pin" must be 'first-use' or what pinnedToolsFrom\(\) returns, not 'always'\. See/,
    ],
    [{ onServerError: 'ignore' }, /"onServerError" must be 'skip', 'throw' or a function/],
    [{ onToolError: 'return' }, /"onToolError" must be 'message', 'throw' or a function/],
    [{ schemaFor: 'openAI' }, /"schemaFor" must be .*not 'openAI'. Did you mean 'openai'/],
    [{ era: 'old' }, /"era" must be 'auto', 'legacy-first', 'legacy' or 'modern', not 'old'/],
    [{ replay: 'allways' }, /"replay" must be 'session-loss', 'idempotent' or 'never'/],
    [{ timeout: 5000 }, /\(a number belongs to "timeoutMs"\), not 5000/],
    [{ scope: 'ada' }, /there is no option "scope"/],
    [{ principal: 'ada' }, /"principal" must be a function, not a string/],
    [{ maxTextCharacters: '9' }, /"maxTextCharacters" must be a number from 0/],
    [
      { elicitation: true },
      /"elicitation" must be what elicitationToInterrupt\(\) returns, or false/,
    ],
    [{ interceptors: () => {} }, /"interceptors" must be a list, each item a function/],
    [
      { servers: { shop: { url: 'http://a', header: {} } } },
      /servers\.shop: .*there is no option "header". Did you mean "headers"/,
    ],
    [
      { servers: { shop: { url: 'http://a', stream: true } } },
      /servers\.shop: .*there is no option "stream"/,
    ],
    [{ servers: { shop: { url: 'http://a', era: 'old' } } }, /servers\.shop: .*"era" must be/],
    [{ servers: undefined }, /^servers: expected .*undefined\. See/],
    [
      { servers: { shop: null } },
      /^servers\.shop: expected a URL, or an object like { url }, got null\. See/,
    ],
    [{ servers: { shop: { url: 'nope' } } }, /^servers\.shop: .*url must be an absolute URL/],
    [
      { servers: { shop: { ulr: 'x' } } },
      /^servers\.shop: .*none of them is given\. Did you mean "url"/,
    ],
    [{ servers: [{ url: 'http://a' }] }, /^servers: expected .*, got a list\. See/],
    [{ allow: 'admin_*' }, /"allow" must be a list of names, or a function, not a string\. See/],
    [
      { allow: [{ server: 'shop' }] },
      /"allow\[0\]" must be a string that is not empty, not an object\. See/,
    ],
  ])('refuses %o', (options, message) => {
    expect(() => createMcpTools(fromSettings(options))).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringMatching(message) }),
    )
  })
})

test.each([[undefined], ['https://shop.example/mcp'], [{}]])(
  'refuses %o as a client',
  async (given) => {
    await expect(loadMcpTools(given as never)).rejects.toMatchObject({
      code: 'CONFIG',
      message: expect.stringMatching(/^client: expected a connected client/),
    })
  },
)

test('accepts known options, and a URL as a server', () => {
  expect(() => {
    createMcpTools({
      servers: { shop: 'http://server.test/mcp', bank: new URL('http://server.test/bank') },
      session: 'thread',
      pin: {},
      onServerError: () => {},
      interceptors: [],
      schemaFor: undefined,
    })
    createMcpTools({ servers: {}, session: new SessionInfoFactory(), onServerError: 'skip' })
  }).not.toThrow()
})

test.each([
  ['loadMcpTools()', (source: never, options: never) => loadMcpTools(source, options)],
  [
    'createMcpToolsFromAgent()',
    (_source: never, options: never) => createMcpToolsFromAgent({ resources: [] }, options),
  ],
  [
    'createMcpToolsFromMetadataForMcpServer()',
    (source: never, options: never) =>
      createMcpToolsFromMetadataForMcpServer(
        { $resourceType: 'mcp', name: 'Shop', slug: 'shop', availableTools: [] },
        source,
        options,
      ),
  ],
])('refuses an unknown option of %s', async (name, make) => {
  const source = { listTools: async () => [], callTool: async () => ({}) }
  await expect(make(source as never, { schemasFor: 'openai' } as never)).rejects.toMatchObject({
    code: 'CONFIG',
    message: expect.stringContaining(
      `${name}: there is no option "schemasFor". Did you mean "schemaFor"?`,
    ),
  })
})

const unused = (): never => {
  throw new Error('Not called')
}
const client = { listResources: unused, readResource: unused, getPrompt: unused }
const provider = { tokens: unused, saveTokens: unused }

test.each([
  [fanOutToolCalls, [{ tool: 'x' }], 'fanOutToolCalls(): there is no option "tool"'],
  [fanOutToolCalls, [{ otherwise: 5 }], '"otherwise" must be a string'],
  [mcpToolsMiddleware, [undefined], '"mcp" is missing: it must be what createMcpTools() returns'],
  [mcpToolsMiddleware, [[]], 'returns, or a ToolSearch, not a list'],
  [elicitationToInterrupt, [{ humanTimeout: 5000 }], 'Did you mean "humanTimeoutMs"?'],
  [elicitationToInterrupt, [{ humanTimeoutMs: '5' }], '"humanTimeoutMs" must be a number from 0'],
  [elicitationToInterrupt, [{ authorization: true }], 'must be what authorizationToInterrupt()'],
  [authorizationToInterrupt, [{}, 'http://a'], '"provider" must be a provider'],
  [authorizationToInterrupt, [provider, 'shop'], '"serverUrl" must be a URL, not a string'],
] as const)('%o refuses %o', (factory, given, message) => {
  expect(() => Reflect.apply(factory as never, undefined, given)).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test.each([
  [loadMcpResources, ['https://shop.example/mcp'], '"client" must be a connected client'],
  [loadMcpResources, [client, { uri: 'a' }], 'there is no option "uri". Did you mean "uris"?'],
  [loadMcpResources, [client, { uris: 'file:///a' }], '"uris" must be a list'],
  [loadMcpResources, [client, { timeout: 5 }], 'Did you mean "timeoutMs"?'],
  [loadMcpPrompt, [{}, 'greet'], '"client" must be a connected client'],
  [loadMcpPrompt, [client, ''], '"name" must be a string that is not empty'],
  [loadMcpPrompt, [client, { nam: 'greet' }], 'Did you mean "name"?'],
  [loadMcpPrompt, [client, { name: 'greet', signal: true }], '"signal" must be an AbortSignal'],
  [loadMcpPrompt, [client, 'greet', { times: 5 }], '"args.times" must be a string, not 5'],
] as const)('%o rejects %o', async (load, given, message) => {
  await expect(Reflect.apply(load as never, undefined, given)).rejects.toMatchObject({
    code: 'CONFIG',
    message: expect.stringContaining(message),
  })
})

test.each([
  [
    { mcpServers: { shop: { url: 'http://127.0.0.1:9/mcp' } } },
    /no option "mcpServers"\. Write it as "servers"/,
  ],
  [{ servers: {}, throwOnLoadError: true }, /no option "throwOnLoadError"\. .*onServerError/],
  [{ servers: {}, prefixToolNameWithServerName: true }, /Write it as "prefixToolNames"/],
  [{ servers: {}, useStandardContentBlocks: true }, /Leave it out/],
  [{ servers: {}, outputHandling: {} }, /"maxMediaBytes"/],
  [{ servers: {}, beforeToolCall: () => ({}) }, /Write an interceptor/],
  [{ connections: {} }, /no option "connections"\. Write it as "servers"/],
  [{ shop: { url: 'http://127.0.0.1:9/mcp' } }, /Write servers as \{ servers: \{ shop: … \} \}/],
  [
    { servers: { shop: { url: 'http://127.0.0.1:9/mcp', transport: 'sse' } } },
    /transport is "sse".*Streamable HTTP/,
  ],
  [{ servers: { shop: { url: 'http://127.0.0.1:9/mcp', transport: 'stdio' } } }, /must be "http"/],
  [{ servers: {}, quickly: true }, /like none of the \d+ options\. The nearest are \w+, \w+, \w+;/],
])('says what to write in place of %j', (options, message) => {
  expect(() => createMcpTools(options as never)).toThrow(message)
})

test('takes servers as they are written for @langchain/mcp-adapters', () => {
  const url = 'http://127.0.0.1:9/mcp'
  const mcp = createMcpTools({
    servers: {
      a: { url, transport: 'http' },
      b: { url, transport: 'streamable_http' },
      c: { command: 'node', transport: 'stdio' },
    },
  })
  expect(mcp.status().map(({ name }) => name)).toEqual(['a', 'b', 'c'])
})
