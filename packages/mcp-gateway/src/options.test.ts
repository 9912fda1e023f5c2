import { expect, test } from 'vitest'

import {
  bearerAuth,
  createGateway,
  createGuardedFetch,
  DiskGatewayStore,
  jwtAuth,
  langGraphServerSource,
  langGraphSource,
  MemoryGatewayStore,
} from './index.ts'

test.each([
  [{ agent: {} }, 'createGateway(): there is no option "agent". Did you mean "agents"?'],
  [{ port: 8000 }, 'no option "port". Did you mean "http.port"?'],
  [{ idleTtlMs: 5 }, 'Did you mean "sessions.idleTtlMs"?'],
  [{ source: [] }, 'Did you mean "sources"?'],
  [
    { sources: {} },
    '"sources" must be a list, each item a source, such as langGraphSource(graphs)',
  ],
  [{ sources: [{ name: 'x' }] }, '"sources[0]" must be a source'],
  [{ auth: 'secret' }, '"auth" must be an authenticator, such as bearerAuth(token), not a string'],
  [{ agents: { a: { grahp: {}, description: 'A' } } }, 'Did you mean "agents.a.graph"?'],
  [{ agents: { a: { graph: {}, description: 'A' } } }, '"agents.a.graph" must be a compiled graph'],
  [{ agents: { a: { graph: () => {} } } }, '"agents.a.description" is missing'],
  [{ auth: {} }, '"auth" must be an authenticator'],
  [{ credentials: { credentialsFor: () => ({}) } }, 'option "auth" is missing: "credentials"'],
  [{ server: { title: 'A' } }, 'The options of "server" are name, description'],
  [{ http: 8000 }, '"http" must be a section with keys of its own, not a number'],
  [{ http: { prot: 8000 } }, 'Did you mean "http.port"?'],
  [{ http: { port: '8000' } }, '"http.port" must be a whole number from 0 to 65535, not a string'],
  [{ http: { port: NaN } }, '"http.port" must be a whole number from 0 to 65535, not NaN'],
  [{ http: { path: 'mcp' } }, '"http.path" must be a path such as /mcp'],
  [{ http: { path: '/a/../mcp' } }, '"http.path" must be a path such as /mcp'],
  [{ http: { path: '//mcp' } }, '"http.path" must be a path such as /mcp'],
  [
    { http: { publicUrl: 'agents.example' } },
    '"http.publicUrl" must be an http or https URL such as https://agents.example',
  ],
  [
    { http: { allowedHosts: ['agents.example:8000'] } },
    '"http.allowedHosts[0]" must be a host name in small letters, without port',
  ],
  [
    { http: { allowedOrigins: ['https://app.example/'] } },
    '"http.allowedOrigins[0]" must be the origin of a page',
  ],
  [{ http: { proxies: 17 } }, '"http.proxies" must be a whole number from 0 to 16'],
  [{ sessions: { ttlMs: 5 } }, 'there is no option "sessions.ttlMs"'],
  [{ tools: { parameters: 'scheme' } }, `Did you mean 'schema'?`],
  [{ tools: { exclude: 'echo' } }, '"tools.exclude" must be a list of texts, not a string'],
  [{ tools: { overrides: { 'a/b': { titel: 'A' } } } }, '"tools.overrides["a/b"].titel"'],
  [
    { tools: { overrides: { 'a/b': { timeoutMs: 0 } } } },
    '"tools.overrides["a/b"].timeoutMs" must be a whole number of milliseconds from 1 to 2147483647, not 0',
  ],
  [
    { tools: { overrides: { a: { annotations: { readOnly: true } } } } },
    'Did you mean "tools.overrides.a.annotations.readOnlyHint"?',
  ],
  [{ runs: { mode: 'threads' } }, `Did you mean 'thread'?`],
  [
    { runs: { timeoutMs: '5000' } },
    '"runs.timeoutMs" must be a whole number of milliseconds from 1 to 2147483647, not a string',
  ],
  [
    { runs: { timeoutMs: 0 } },
    '"runs.timeoutMs" must be a whole number of milliseconds from 1 to 2147483647, not 0',
  ],
  [
    { runs: { maxConcurrent: 0 } },
    '"runs.maxConcurrent" must be a whole number of 1 or more, not 0',
  ],
  [{ runs: { maxConcurrentPerPrincipal: 0 } }, 'must be a whole number of 1 or more, not 0'],
  [
    { http: { drainDelayMs: -1 } },
    '"http.drainDelayMs" must be a whole number of milliseconds from 0 to 2147483647, not -1',
  ],
  [{ streaming: { channel: 'logs' } }, `Did you mean 'log'?`],
  [{ inline: { fileMaxByte: 5 } }, 'Did you mean "inline.fileMaxBytes"?'],
  [{ requestPerMinute: 5 }, 'Did you mean "requestsPerMinute"?'],
  [{ statekey: 'x' }, 'Did you mean "stateKey"?'],
  [{ stateKey: 5 }, '"stateKey" must be text of 32 bytes or more, not a number'],
  [
    { store: './folder' },
    '"store" must be a store, such as new MemoryGatewayStore(), not a string',
  ],
  [{ log: true }, '"log" must be a logger, or false, not true'],
  [{ observer: { callStart: () => {} } }, 'Did you mean "observer.callStarted"?'],
  [{ clock: Date }, '"clock" must be an object with now() and after()'],
  [undefined, 'the options must be'],
])('refuses the options %o of createGateway()', (options, message) => {
  expect(() => createGateway(options as never)).toThrow(
    expect.objectContaining({
      name: 'GatewayError',
      code: 'CONFIG',
      message: expect.stringContaining(message),
    }),
  )
})

test('names the place of a wrong option', () => {
  const options = { tools: { overrides: { 'a/b': { cacheTtlMs: NaN } } } }
  const path = 'tools.overrides["a/b"].cacheTtlMs'
  expect(() => createGateway(options)).toThrow(expect.objectContaining({ path }))
})

test('accepts Infinity as no limit', async () => {
  const runs = { needsInputTtlMs: Infinity, timeoutMs: undefined }
  await using gateway = createGateway({ requestsPerMinute: Infinity, runs })
  expect((await gateway.fetch(new Request('http://localhost/healthz'))).status).toBe(200)
})

test('refuses unknown options of listen() and serveStdio()', async () => {
  await using gateway = createGateway({})
  await expect(gateway.listen({ hots: '127.0.0.1' } as never)).rejects.toThrow(
    'gateway.listen(): there is no option "hots". Did you mean "host"?',
  )
  await expect(gateway.listen({ port: NaN })).rejects.toThrow('"port" must be a number from 0')
  expect(() => gateway.serveStdio({ input: 'stdin' } as never)).toThrow(
    'gateway.serveStdio(): option "input" must be a readable stream, not a string',
  )
})

const graph = { stream: () => Promise.reject(new Error('Not called')) }
const url = 'http://127.0.0.1:9'
const issuer = { issuer: 'https://id.example', audience: 'a' }

test.each([
  [langGraphSource, [undefined], '"graphs" is missing: it must be graphs by name'],
  [langGraphSource, [[graph]], '"graphs" must be graphs by name, or the path of a langgraph.json'],
  [langGraphSource, [{ a: graph }], 'no option "graphs.a.stream"'],
  [langGraphSource, [{ a: { graph } }], '"graphs.a.description" is missing'],
  [langGraphSource, [{ a: { graph, description: 'A', ouput: () => '' } }], '"graphs.a.output"?'],
  [langGraphSource, [{}, { shared: true }], 'langGraphSource(): there is no option "shared"'],
  [langGraphServerSource, [{}], '"url" is missing'],
  [langGraphServerSource, [{ url, header: {} }], 'Did you mean "headers"?'],
  [langGraphServerSource, [{ url, headers: { 'x-key': 5 } }], '"headers.x-key" must be a string'],
  [langGraphServerSource, [{ url, assistants: 'agent' }], '"assistants" must be a list'],
  [langGraphServerSource, [{ url, timeoutMs: '5' }], '"timeoutMs" must be a number from 0'],
  [langGraphServerSource, ['localhost'], 'must begin with http'],
  [bearerAuth, [{ ada: 'secret' }], '"tokens.ada" must be { token, scopes, expiresAt }'],
  [bearerAuth, [{ ada: { tokn: 'secret' } }], 'Did you mean "tokens.ada.token"?'],
  [bearerAuth, [{ ada: { token: 'secret', scopes: '*' } }], '"tokens.ada.scopes" must be a list'],
  [bearerAuth, [['secret']], '"tokens" must be an object, not a list'],
  [bearerAuth, ['a-token-of-some-length', { clock: Date }], 'there is no option "clock"'],
  [jwtAuth, [{}], '"issuers" is missing'],
  [jwtAuth, [{ issuers: issuer }], '"issuers" must be a list'],
  [jwtAuth, [{ issuers: [{ ...issuer, audiance: 'b' }] }], 'Did you mean "issuers[0].audience"?'],
  [jwtAuth, [{ issuers: [{ issuer: 'https://id.example' }] }], '"issuers[0].audience" is missing'],
  [jwtAuth, [{ issuers: [issuer], scopeClaim: 'x' }], 'Did you mean "scopesClaim"?'],
  [
    createGuardedFetch,
    [{ trustedOrigins: ['localhost'] }],
    '"trustedOrigins[0]" must be an origin',
  ],
  [createGuardedFetch, [{ maxByte: 5 }], 'Did you mean "maxBytes"?'],
  [MemoryGatewayStore, [{ blobByte: 5 }], 'Did you mean "blobBytes"?'],
  [MemoryGatewayStore, [{ blobBytes: NaN }], '"blobBytes" must be a number from 0, not NaN'],
  [DiskGatewayStore, [undefined], 'DiskGatewayStore: option "folder" is missing'],
  [DiskGatewayStore, ['unused', { onErr: () => {} }], 'Did you mean "onError"?'],
] as const)('%o refuses %o', (factory, given, message) => {
  const make = (): unknown =>
    factory.name.endsWith('Store')
      ? Reflect.construct(factory as never, given)
      : Reflect.apply(factory as never, undefined, given)
  expect(make).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(message) }),
  )
})

test('accepts the URL of a LangGraph server without other options', () => {
  expect(langGraphServerSource(url).name).toBe(langGraphServerSource({ url }).name)
})

test.each([
  'ftp://agents.example',
  'https:agents.example',
  '//agents.example',
  'https://',
  'https://agents.example:99999',
  'https://[::1',
  '',
])('refuses %j as the public URL, which is no URL of the web', (publicUrl) => {
  expect(() => createGateway({ http: { publicUrl } })).toThrow(
    'must be an http or https URL such as https://agents.example',
  )
})

test.each([
  'https://ann:secret@agents.example',
  'https://agents.example/team?key=secret',
  'https://agents.example/team#top',
  'https://agents.example\\team',
  'https://agents.example/%zz',
  'https://agents.example/a b',
])('refuses %j as the public URL, to which no path can be appended', (publicUrl) => {
  expect(() => createGateway({ http: { publicUrl } })).toThrow(
    'a URL without user name, query, fragment, spaces and backslashes, such as https://agents.example/team',
  )
})
