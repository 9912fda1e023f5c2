import { withErrorLink } from '@x/internal'
import { describe, expect, test } from 'vitest'

import { GatewayError } from '../errors.ts'
import { readConfig } from './config-file.ts'

async function failureOf(content: string | object): Promise<GatewayError> {
  try {
    await readConfig(content, { file: 'g.yaml' })
  } catch (error) {
    if (GatewayError.is(error)) return error
  }
  throw new Error('It was accepted')
}

describe('readConfig', () => {
  test('gives an empty file all defaults, with an address that only this machine can reach', async () => {
    const { config } = await readConfig('')
    expect(config.http).toMatchObject({ host: '127.0.0.1', port: 8000, path: '/mcp' })
    expect(config.auth).toBeUndefined()
    expect((await readConfig('http:\n  # port: 1\nsources: null\n')).config).toEqual(config)
  })

  test.each(['langgraph.json', 'langgraph.dev.json'])('reads %s as graphs', async (file) => {
    const { config } = await readConfig({ graph: { a: './a.ts:a' } }, { file: `/app/${file}` })
    expect(config.sources).toMatchObject([{ type: 'langgraph', config: file }])
  })

  test('refuses YAML whose aliases expand to gigabytes', async () => {
    const levels = 'bcdefghi'.split('').map((name, index) => {
      const before = 'abcdefgh'[index]
      return `${name}: &${name} [${`*${before},`.repeat(9)}*${before}]`
    })
    const content = `a: &a [x, x, x, x, x, x, x, x, x, x]\n${levels.join('\n')}\n`
    expect((await failureOf(content)).message).toContain('g.yaml: it cannot be read as YAML. See')
  })

  test('refuses keys such as __proto__ and constructor, and changes no prototype', async () => {
    const content = '__proto__: { polluted: 1 }\nconstructor: { prototype: { polluted: 1 } }\n'
    expect((await failureOf(content)).message).toContain('there is no setting "constructor"')
    expect({}).not.toHaveProperty('polluted')
  })

  test('accepts host names, origins, and paths that no other setting has', async () => {
    const http = {
      allowedHosts: ['agents.example', 'localhost', '[::1]', '10.0.0.7'],
      allowedOrigins: ['https://app.example', 'http://localhost:3000', 'chrome-extension://abcdef'],
      path: '/artifacts',
      metricsPath: '/artifacts-metrics',
    }
    expect((await readConfig({ http })).config.http).toMatchObject(http)
  })

  test.each([
    ['http:\n  prot: 1', 'g.yaml:2: there is no setting "http.prot". Did you mean "http.port"?'],
    [
      'http:\n  public-url: x',
      'g.yaml:2: there is no setting "http.public-url". Did you mean "http.publicUrl"?',
    ],
    ['port: 1', 'g.yaml:1: there is no setting "port". Did you mean "http.port"?'],
    ['task: 4', 'g.yaml:1: there is no setting "task". Did you mean "tasks"?'],
    [
      'tasks:\n  zzzzzz: 4',
      'g.yaml:2: there is no setting "tasks.zzzzzz". The settings of "tasks" are maxPerPrincipal',
    ],
    [
      'streaming: { enabled: false }',
      'g.yaml:1: there is no setting "streaming.enabled". The settings of "streaming" are channel',
    ],
    [
      'sources:\n  - { type: langgraph, config: ./a.json, url: x }',
      'g.yaml:2: there is no setting "sources[0].url". The settings of "sources[0]" are config, context, callerContext, type, headers, resource, assistants',
    ],
    [
      'tools:\n  overrides:\n    support/ask:\n      timeout: 4',
      'g.yaml:4: there is no setting "tools.overrides["support/ask"].timeout". Did you mean "tools.overrides["support/ask"].timeoutMs"?',
    ],
    [
      'http:\n\n  port: high',
      'g.yaml:3: setting "http.port" must be a whole number from 0 to 65535, not a string',
    ],
    [
      'http:\n  port: 70000',
      'g.yaml:2: setting "http.port" must be a whole number from 0 to 65535, not 70000',
    ],
    [
      'runs:\n  timeoutMs: 5m',
      'g.yaml:2: setting "runs.timeoutMs" must be a whole number of milliseconds from 1 to 2147483647, not a string. Write 300000',
    ],
    [
      'sessions: { idleTtlMs: "30 min", max: 12x }',
      [
        'g.yaml:1: setting "sessions.idleTtlMs" must be a whole number of milliseconds from 1 to 1000000000000, not a string. Write 1800000',
        'g.yaml:1: setting "sessions.max" must be a whole number of 1 or more, not a string',
      ].join('\n'),
    ],
    [
      'artifacts: { maxBytes: 10MB }',
      'g.yaml:1: setting "artifacts.maxBytes" must be a whole number of bytes, 1 or more, not a string. Write 10485760',
    ],
    ['http: 5', 'g.yaml:1: setting "http" must be a section with keys of its own, not a number'],
    [
      'streaming: { channel: logs }',
      `g.yaml:1: setting "streaming.channel" must be 'progress', 'log', 'both' or 'none', not 'logs'. Did you mean 'log'?`,
    ],
    [
      '# two\nsources:\n  - type: a2a\n  - type: smtp',
      [
        'g.yaml:3: setting "sources[0].cards" is missing: it must be a list of cards',
        'g.yaml:4: setting "sources[1].type" must be a source with type: langgraph, langgraph-server or a2a',
      ].join('\n'),
    ],
    ['stateKey: hunter2', 'g.yaml:1: setting "stateKey" must be text of 32 bytes or more'],
    [
      'http:\n  publicUrl: ${PUBLIC}',
      'g.yaml:2: http.publicUrl needs the variable PUBLIC, which is not set: set it, or give a default: ${PUBLIC:-…}',
    ],
    [
      'http:\n  port: ${PORT}\n  prot: 1',
      [
        'g.yaml:2: http.port needs the variable PORT, which is not set: set it, or give a default: ${PORT:-…}',
        'g.yaml:3: there is no setting "http.prot". Did you mean "http.port"?',
      ].join('\n'),
    ],
    [
      'http:\n  host: ${}',
      'g.yaml:2: http.host has a "${" that begins no variable: write ${NAME} or ${NAME:-default}, and $${ for the characters themselves',
    ],
    [
      'http: { path: /readyz, metricsPath: /artifacts/metrics }',
      [
        'g.yaml:1: setting "http.path" must be a path of its own: the readiness probe has this one',
        'g.yaml:1: setting "http.metricsPath" must be a path of its own: artifacts has this one',
      ].join('\n'),
    ],
    [
      'http:\n  allowedHosts: ["https://agents.example", "agents.example:8000", "Agents.example"]',
      [0, 1, 2]
        .map((index) => {
          const expected = 'a host name in small letters, without port, such as agents.example'
          return `g.yaml:2: setting "http.allowedHosts[${index}]" must be ${expected}`
        })
        .join('\n'),
    ],
    [
      'http:\n  allowedOrigins:\n    - "*"\n    - https://app.example/',
      [
        'g.yaml:3: setting "http.allowedOrigins[0]" must be the origin of a page, such as https://app.example',
        'g.yaml:4: setting "http.allowedOrigins[1]" must be the origin of a page, such as https://app.example',
      ].join('\n'),
    ],
    [
      'auth:\n  mode: bearer\n  tokens: { ci: { token: t } }',
      'g.yaml:2: there is no setting "auth.mode". The settings of "auth" are tokens, issuers, principalClaim, scopesSupported, facade',
    ],
    [
      'auth:\n  principalClaim: email',
      'g.yaml:1: setting "auth" must be a section with tokens, issuers or facade',
    ],
    [
      'credentials: { tokenUrl: https://login.example, clientId: g, clientSecret: s, targets: {} }',
      'g.yaml: setting "auth" is missing: it must be a section with issuers or facade, which credentials need',
    ],
    [
      'auth:\n  facade: { identity: { url: https://identity.example, provider: azure } }\n  issuers: [{ issuer: https://login.example, audience: a }]',
      'g.yaml:3: setting "auth.issuers" must be left out beside auth.facade',
    ],
    [
      'store:\n  prefix: shop',
      'g.yaml:2: there is no setting "store.prefix". The settings of "store" are dir, url',
    ],
    [
      'store:\n  url: localhost',
      'g.yaml:2: setting "store.url" must be redis://host:port, or rediss:// for TLS',
    ],
    [
      'store:\n  url: redis://localhost\n  dir: ./data',
      'g.yaml:3: setting "store.dir" must be left out beside store.url',
    ],
    ['- a', 'g.yaml: the settings must be a section with keys of its own, not a list'],
    [
      'auth:\n  facade: { redirectUris: 5, identity: { provider: "" } }',
      [
        'g.yaml:2: setting "auth.facade.identity.url" is missing: it must be an http or https URL',
        'g.yaml:2: setting "auth.facade.identity.provider" must be text that is not empty, not an empty string',
        'g.yaml:2: setting "auth.facade.redirectUris" must be a list of texts, not a number',
      ].join('\n'),
    ],
  ])('refuses %j with its place and what is expected', async (content, message) => {
    const failure = await failureOf(content)
    expect(failure.message).toBe(withErrorLink(message, 'CONFIG'))
    expect(failure.code).toBe('CONFIG')
  })

  test('names the line of invalid YAML', async () => {
    expect((await failureOf('http:\n  port: 1\n port: 2')).message).toMatch(/^g\.yaml:\d: \w/)
  })

  test('gives the path of the first mistake to programs', async () => {
    expect((await failureOf('http: { port: x }')).path).toBe('http.port')
  })

  test.each([
    ['${PORT}', { PORT: '81' }, 81],
    ['${PORT:-82}', {}, 82],
    ['${PORT:-82}', { PORT: '' }, 82],
  ])('reads the port %s with the variables %j as %d', async (port, env, expected) => {
    expect((await readConfig({ http: { port } }, { env })).config.http.port).toBe(expected)
  })

  test('expands variables within texts and lists, and reads $${ as ${', async () => {
    const content =
      'server: { name: "${A}-${B:-b}", description: "$${A}" }\nhttp: { allowedHosts: ["${A}.example"] }'
    const { config } = await readConfig(content, { env: { A: 'a' } })
    expect(config.server).toMatchObject({ name: 'a-b', description: '${A}' })
    expect(config.http.allowedHosts).toEqual(['a.example'])
  })

  test('prefers flags to the file, and the file to the default', async () => {
    const content = 'http: { port: 1, host: file }\nlog: { level: warn }'
    const flags = [{ path: ['http', 'port'], text: '3', from: '--port' }]
    const { config, placeOf } = await readConfig(content, { file: 'g.yaml', flags })
    expect(config.http).toMatchObject({ port: 3, host: 'file', allowedHosts: [] })
    expect(config.log.level).toBe('warn')
    const paths = ['http.port', 'http.host', 'log.level', 'http.path']
    expect(paths.map(placeOf)).toEqual(['--port', 'g.yaml:1', 'g.yaml:2', 'g.yaml:1'])
  })

  test('reads a list and a switch from variables', async () => {
    const content = 'http: { allowedHosts: "${HOSTS}", insecure: "${OPEN}" }'
    const { config } = await readConfig(content, { env: { HOSTS: 'a, b', OPEN: 'true' } })
    expect(config.http).toMatchObject({ allowedHosts: ['a', 'b'], insecure: true })
  })

  test.each([
    { stateKey: 'S3CRET' },
    { auth: { tokens: 'S3CRET' } },
    { auth: { tokens: ['S3CRET'] } },
    { auth: { tokens: { ci: 'S3CRET' } } },
    { auth: { tokens: { ci: { token: ['S3CRET'] } } } },
    { auth: { tokens: { ci: { token: 12_345_678 } } } },
    { sources: [{ type: 'langgraph-server', url: 'https://a.test', headers: 'S3CRET' }] },
    { sources: [{ type: 'langgraph-server', url: 'https://a.test', headers: { k: ['S3CRET'] } }] },
    { sources: [{ type: 'a2a', cards: [{ url: 'https://a.test', headers: 'S3CRET' }] }] },
    { store: { url: 'http://:S3CRET@localhost' } },
  ])('does not show a secret that is in the wrong place: %j', async (content) => {
    const { message } = await failureOf(content)
    expect(message).not.toMatch(/S3CRET|12345678/)
  })
})
