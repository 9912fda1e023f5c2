import { describe, expect, test } from 'vitest'

import { GatewayError } from '../errors.ts'
import { readConfig, type ConfigSource } from './config-file.ts'

async function failureOf(source: ConfigSource): Promise<GatewayError> {
  try {
    await readConfig(source)
  } catch (error) {
    if (GatewayError.is(error)) return error
  }
  throw new Error('It was accepted')
}

describe('readConfig', () => {
  test('gives an empty file all defaults, with an address that only this machine can reach', async () => {
    const { config } = await readConfig({ content: '' })
    expect(config.http).toMatchObject({ host: '127.0.0.1', port: 8000, path: '/mcp' })
    expect(config.auth.mode).toBe('none')
    expect((await readConfig({ content: 'http:\n  # port: 1\nagents: null\n' })).config).toEqual(
      config,
    )
  })

  test('refuses YAML whose aliases expand to gigabytes', async () => {
    const levels = 'bcdefghi'.split('').map((name, index) => {
      const before = 'abcdefgh'[index]
      return `${name}: &${name} [${`*${before},`.repeat(9)}*${before}]`
    })
    const content = `a: &a [x, x, x, x, x, x, x, x, x, x]\n${levels.join('\n')}\n`
    expect((await failureOf({ content, name: 'g.yaml' })).message).toBe(
      'g.yaml: it cannot be read as YAML',
    )
  })

  test('refuses keys such as __proto__ and constructor, and changes no prototype', async () => {
    const content = '__proto__: { polluted: 1 }\nconstructor: { prototype: { polluted: 1 } }\n'
    expect((await failureOf({ content })).message).toContain('constructor is no known key')
    expect({}).not.toHaveProperty('polluted')
  })

  test('accepts host names, origins, and paths that no other setting has', async () => {
    const http = {
      allowedHosts: ['agents.example', 'localhost', '[::1]', '10.0.0.7'],
      allowedOrigins: ['https://app.example', 'http://localhost:3000', 'chrome-extension://abcdef'],
      path: '/artifacts',
      metricsPath: '/artifacts-metrics',
    }
    expect((await readConfig({ content: { http } })).config.http).toMatchObject(http)
  })

  test('reads an object like the same YAML', async () => {
    const { config } = await readConfig({ content: { http: { port: 1 } } })
    expect(config.http.port).toBe(1)
  })

  test.each([
    ['http:\n  prot: 1', 'g.yaml:2: http.prot is no known key: did you mean http.port?'],
    [
      'http:\n  public-url: x',
      'g.yaml:2: http.public-url is no known key: did you mean http.publicUrl?',
    ],
    ['limit: 4', 'g.yaml:1: limit is no known key: did you mean limits?'],
    ['secrets:\n  zzzzzz: 4', 'g.yaml:2: secrets.zzzzzz is no known key: known here: stateKey'],
    [
      'tools:\n  overrides:\n    support/ask:\n      timeout: 4',
      'g.yaml:4: tools.overrides["support/ask"].timeout is no known key: did you mean tools.overrides["support/ask"].timeoutMs?',
    ],
    [
      'http:\n\n  port: high',
      'g.yaml:3: http.port is "high"; expected a whole number from 0 to 65535',
    ],
    [
      'http:\n  port: 70000',
      'g.yaml:2: http.port is 70000; expected a whole number from 0 to 65535',
    ],
    ['http: 5', 'g.yaml:1: http is 5; expected a section with keys of its own'],
    ['runs: { mode: maybe }', 'g.yaml:1: runs.mode is "maybe"; expected one of run, thread'],
    [
      'agents:\n  sources:\n    - type: a2a\n    - type: smtp',
      [
        'g.yaml:3: agents.sources[0].cards is missing; expected a list of cards',
        'g.yaml:4: agents.sources[1].type is "smtp"; expected a source with type: langgraph, langgraph-server or a2a',
      ].join('\n'),
    ],
    [
      'secrets:\n  stateKey: hunter2',
      'g.yaml:2: secrets.stateKey is [masked]; expected text of 32 bytes or more',
    ],
    [
      'http:\n  publicUrl: ${PUBLIC}',
      'g.yaml:2: http.publicUrl needs the variable PUBLIC, which is not set: set it, or give a default: ${PUBLIC:-…}',
    ],
    [
      'http:\n  port: ${PORT}\n  prot: 1',
      [
        'g.yaml:2: http.port needs the variable PORT, which is not set: set it, or give a default: ${PORT:-…}',
        'g.yaml:3: http.prot is no known key: did you mean http.port?',
      ].join('\n'),
    ],
    [
      'http:\n  host: ${}',
      'g.yaml:2: http.host has a "${" that begins no variable: write ${NAME} or ${NAME:-default}, and $${ for the characters themselves',
    ],
    [
      'http: { health: { path: /mcp }, metricsPath: /artifacts/metrics }',
      [
        'g.yaml:1: http.health.path is "/mcp"; expected a path of its own: http.path has this one',
        'g.yaml:1: http.metricsPath is "/artifacts/metrics"; expected a path of its own: artifacts.path has this one',
      ].join('\n'),
    ],
    [
      'http:\n  allowedHosts: ["https://agents.example", "agents.example:8000", "Agents.example"]',
      ['https://agents.example', 'agents.example:8000', 'Agents.example']
        .map((host, index) => {
          const expected = 'a host name in small letters, without port, such as agents.example'
          return `g.yaml:2: http.allowedHosts[${index}] is "${host}"; expected ${expected}`
        })
        .join('\n'),
    ],
    [
      'http:\n  allowedOrigins:\n    - "*"\n    - https://app.example/',
      [
        'g.yaml:3: http.allowedOrigins[0] is "*"; expected the origin of a page, such as https://app.example',
        'g.yaml:4: http.allowedOrigins[1] is "https://app.example/"; expected the origin of a page, such as https://app.example',
      ].join('\n'),
    ],
    [
      'auth:\n  tokens: { ci: { token: t } }',
      'g.yaml:1: auth.mode is missing; expected bearer, jwt or facade, which are the modes for auth.tokens',
    ],
    [
      'auth:\n  mode: bearer\n  issuers: [{ issuer: https://login.example, audience: a }]',
      'g.yaml:2: auth.mode is "bearer"; expected jwt, which is the mode for auth.issuers',
    ],
    [
      'store: { dir: ./data }',
      'g.yaml:1: store.type is missing; expected disk, which is the type for store.dir',
    ],
    [
      'store:\n  type: disk\n  dir: ./data\n  url: redis://localhost',
      'g.yaml:4: store.url is no known key: known here: type, dir',
    ],
    [
      'store:\n  type: redis\n  url: localhost',
      'g.yaml:3: store.url is "localhost"; expected redis://host:port, or rediss:// for TLS',
    ],
    [
      'store:\n  type: redis\n  url: redis://localhost\n  dir: ./data',
      'g.yaml:2: store.type is "redis"; expected disk, which is the type for store.dir',
    ],
    [
      'agents:\n  ttlMs: 15000\n  sources: [{ type: a2a, cards: [https://a.example] }]',
      'g.yaml:2: agents.ttlMs is 15000; expected more than 24000: a source looks for its agents every 20000 ms (refreshMs)',
    ],
    ['- a', 'g.yaml: The configuration is a list; expected a section with keys of its own'],
    [
      'auth:\n  mode: facade\n  facade: { codeTtlMs: 0, provider: "" }',
      [
        'g.yaml:3: auth.facade.provider is ""; expected text that is not empty',
        'g.yaml:3: auth.facade.codeTtlMs is 0; expected a whole number from 1 to 2147483647',
      ].join('\n'),
    ],
    [
      'auth: { facade: { provider: google } }',
      'g.yaml:1: auth.mode is missing; expected facade, which is the mode for auth.facade',
    ],
  ])('refuses %j with its place and what is expected', async (content, message) => {
    const failure = await failureOf({ content, name: 'g.yaml' })
    expect(failure.message).toBe(message)
    expect(failure.code).toBe('CONFIG')
  })

  test('names the line of invalid YAML', async () => {
    expect(
      (await failureOf({ content: 'http:\n  port: 1\n port: 2', name: 'g.yaml' })).message,
    ).toMatch(/^g\.yaml:\d: \w/)
  })

  test('gives the path of the first mistake to programs', async () => {
    expect((await failureOf({ content: 'http: { port: x }' })).path).toBe('http.port')
  })

  test.each([
    ['${PORT}', { PORT: '81' }, 81],
    ['${PORT:-82}', {}, 82],
    ['${PORT:-82}', { PORT: '' }, 82],
  ])('reads the port %s with the variables %j as %d', async (port, env, expected) => {
    expect((await readConfig({ content: { http: { port } }, env })).config.http.port).toBe(expected)
  })

  test('expands variables within texts and lists, and reads $${ as ${', async () => {
    const content =
      'server: { name: "${A}-${B:-b}", description: "$${A}" }\nhttp: { allowedHosts: ["${A}.example"] }'
    const { config } = await readConfig({ content, env: { A: 'a' } })
    expect(config.server).toMatchObject({ name: 'a-b', description: '${A}' })
    expect(config.http.allowedHosts).toEqual(['a.example'])
  })

  test('prefers flags to the environment, the environment to the file, and the file to the default', async () => {
    const content = 'http: { port: 1, host: file }\nlog: { level: warn }'
    const env = {
      MCP_GATEWAY_HTTP_PORT: '2',
      MCP_GATEWAY_HTTP_HOST: 'env',
      MCP_GATEWAY_HTTP_ALLOWED_HOSTS: 'a, b',
    }
    const flags = [{ path: ['http', 'port'], text: '3', from: '--port' }]
    const { config, placeOf } = await readConfig({ content, name: 'g.yaml', env, flags })
    expect(config.http).toMatchObject({ port: 3, host: 'env', allowedHosts: ['a', 'b'] })
    expect(config.log.level).toBe('warn')
    const paths = ['http.port', 'http.host', 'log.level', 'http.path']
    expect(paths.map(placeOf)).toEqual(['--port', 'MCP_GATEWAY_HTTP_HOST', 'g.yaml:2', 'g.yaml:1'])
  })

  test('names the variable whose value is wrong', async () => {
    const env = { MCP_GATEWAY_RUNS_TIMEOUT_MS: 'long' }
    expect((await failureOf({ content: '', env })).message).toBe(
      'MCP_GATEWAY_RUNS_TIMEOUT_MS: runs.timeoutMs is "long"; expected a whole number from 1 to 2147483647',
    )
  })

  test('ignores the variables that Kubernetes sets for a service of that name', async () => {
    const env = { MCP_GATEWAY_PORT: 'tcp://10.0.0.1:8000', MCP_GATEWAY_SERVICE_HOST: '10.0.0.1' }
    expect((await readConfig({ content: '', env })).config).toEqual(
      (await readConfig({ content: '' })).config,
    )
  })
})
