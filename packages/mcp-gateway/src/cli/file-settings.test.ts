import { expect, test } from 'vitest'

import { packageVersion } from '../version.ts'
import { environmentSettings, readConfig } from './config-file.ts'
import { toOptions, type FileOptions } from './file-settings.ts'

async function optionsOf(content: string): Promise<FileOptions> {
  const { config, sections } = await readConfig({ content })
  const context = { folder: '', onWarning: () => undefined, sections }
  return toOptions(config, context)
}

test('gives every setting of an empty file this default', async () => {
  expect((await readConfig({ content: '' })).config).toEqual({
    server: {
      version: packageVersion(),
      name: 'Agent Gateway',
      description: 'Agents over MCP',
    },
    transport: 'http',
    http: {
      host: '127.0.0.1',
      port: 8000,
      path: '/mcp',
      allowedHosts: [],
      allowedOrigins: [],
      maxBodyBytes: 4_194_304,
      writeTimeoutMs: 30_000,
      keepAliveMs: 15_000,
      drainDelayMs: 0,
      shutdownGraceMs: 10_000,
      health: {
        path: '/healthz',
        readyPath: '/readyz',
      },
      insecure: false,
    },
    sessions: {
      idleTtlMs: 1_800_000,
      absoluteTtlMs: 43_200_000,
      max: 10_000,
      maxPerPrincipal: 100,
      initializePerMinutePerIp: 60,
      disconnectGraceMs: 10_000,
      eventStore: {
        enabled: true,
        maxEventsPerStream: 1000,
        ttlMs: 300_000,
      },
      retryMs: 1000,
    },
    agents: {
      sources: [],
      ttlMs: 60_000,
      checkMs: 10_000,
      listChangedDebounceMs: 250,
      waitFor: {
        enabled: false,
        timeoutMs: 10_000,
        minAgents: 1,
        pollMs: 250,
      },
    },
    tools: {
      include: [],
      exclude: [],
      names: {
        pattern: '{agent}_{skill}',
        maxLength: 64,
        reserve: 16,
        splitCamelCase: false,
      },
      overrides: {},
      parameters: 'auto',
      schemaFromExamples: false,
      extras: {
        resume: true,
        idempotencyKey: false,
      },
      metaTools: 'off',
      tasks: 'auto',
      prompts: true,
      listTtlMs: 5000,
      pageSize: 200,
    },
    runs: {
      timeoutMs: 300_000,
      idleTimeoutMs: 300_000,
      maxConcurrent: 64,
      maxConcurrentPerPrincipal: 8,
      maxQueued: 64,
      queueTimeoutMs: 30_000,
      mode: 'run',
      threadTtlMs: 86_400_000,
      needsInputTtlMs: 3_600_000,
      questionTimeoutMs: 600_000,
      stopGraceMs: 2000,
      repeatTtlMs: 86_400_000,
      sweepMs: 60_000,
    },
    tasks: {
      ttlMs: 86_400_000,
      pollIntervalMs: 1000,
      maxPerPrincipal: 1000,
    },
    streaming: {
      enabled: true,
      channel: 'progress',
      coalesceMs: 100,
      heartbeatMs: 15_000,
    },
    inline: {
      imageMaxBytes: 5_242_880,
      audioMaxBytes: 10_485_760,
      textMaxBytes: 1_048_576,
      binaryMaxBytes: 524_288,
      totalMaxBytes: 10_485_760,
      resultMaxBytes: 1_000_000,
      clientProfiles: [],
    },
    artifacts: {
      enabled: true,
      uriScheme: 'artifact',
      ttlMs: 86_400_000,
      maxBytes: 104_857_600,
      readMaxBytes: 8_388_608,
      quota: 1_073_741_824,
      upload: {
        enabled: true,
      },
      downloadUrlTtlMs: 900_000,
      path: '/artifacts',
    },
    auth: {
      mode: 'none',
      anonymousPrincipal: 'mcp_user',
      tokens: {},
      issuers: [],
      principalClaim: 'sub',
      scopesSupported: [],
      devMode: false,
    },
    secrets: {},
    store: {
      type: 'memory',
    },
    limits: {
      requestsPerMinutePerPrincipal: 600,
      requestsPerMinutePerIp: 0,
      wrongTokensPerMinutePerIp: 60,
      subscriptions: 1024,
      subscriptionsPerPrincipal: 8,
      subscriptionsPerAddress: 64,
      argumentBytes: 262_144,
      unreadBytes: 268_435_456,
      unreadBytesPerConnection: 33_554_432,
    },
    log: {
      level: 'info',
      to: 'stderr',
    },
  })
})

test('gives each setting an environment variable of its own', () => {
  const everything = new Proxy<Record<string, string>>({}, { get: () => 'something' })
  const settings = environmentSettings(everything)
  expect(settings.length).toBeGreaterThan(100)
  expect(new Set(settings.map(({ from }) => from)).size).toBe(settings.length)
})

test('reads the environment variables of a package that the file uses', async () => {
  const env = { MCP_GATEWAY_AUTH_MODE: 'facade', MCP_GATEWAY_AUTH_FACADE_PROVIDER: 'google' }
  const { config, placeOf } = await readConfig({ content: '', env })
  expect(config.auth.facade).toMatchObject({ provider: 'google', codeTtlMs: 300_000 })
  expect(placeOf('auth.facade.provider')).toBe('MCP_GATEWAY_AUTH_FACADE_PROVIDER')
  const { MCP_GATEWAY_AUTH_FACADE_PROVIDER } = env
  const unused = await readConfig({ content: '', env: { MCP_GATEWAY_AUTH_FACADE_PROVIDER } })
  expect(unused.config.auth.facade).toBeUndefined()
})

test('loads the authorization server of `auth.mode: facade` from its package', async () => {
  await using configured = await optionsOf(`
http: { publicUrl: https://gateway.example }
auth:
  mode: facade
  facade: { upstreamUrl: https://identity.example }
`)
  const request = new Request('https://gateway.example/.well-known/oauth-authorization-server')
  const metadata = await configured.options.auth?.handle?.(request)
  await expect(metadata?.json()).resolves.toMatchObject({
    token_endpoint: 'https://gateway.example/oauth/token',
  })
})

test('names the place of a wrong card', async () => {
  const content = 'agents:\n  sources:\n    - type: a2a\n      cards: [5]'
  await expect(readConfig({ content, name: 'g.yaml' })).rejects.toThrow(
    'g.yaml:4: agents.sources[0].cards[0] is 5; expected the URL of a card, or { url, headers }',
  )
})

test('passes settings of files on to the gateway', async () => {
  await using configured = await optionsOf(`
inline: { imageMaxBytes: 0, clientProfiles: [{ match: ^small, totalMaxBytes: 10 }] }
artifacts: { ttlMs: 5000, uriScheme: file-of, quota: 3, upload: { linkTool: true } }
tools: { extras: { scope: false } }`)
  expect(configured.options).toMatchObject({
    inline: { imageMaxBytes: 0, clientProfiles: [{ match: '^small', totalMaxBytes: 10 }] },
    artifacts: {
      ttlMs: 5000,
      uriScheme: 'file-of',
      quota: 3,
      upload: { enabled: true, linkTool: true },
    },
    tools: { extras: { scope: false } },
  })
})

test('leaves settings without a value to the gateway', async () => {
  await using configured = await optionsOf('')
  const { artifacts, tools } = configured.options
  expect(artifacts?.upload?.linkTool).toBeUndefined()
  expect(tools?.extras).toEqual({ resume: true, idempotencyKey: false })
})
