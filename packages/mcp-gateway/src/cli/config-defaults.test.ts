import { expect, test } from 'vitest'

import { packageVersion } from '../version.ts'
import { environmentSettings } from './config-environment.ts'
import { readConfig } from './read-config.ts'

test('what an empty file means is a decision', () => {
  expect(readConfig({ content: '' }).config).toEqual({
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
      publicUrl: null,
      allowedHosts: [],
      allowedOrigins: [],
      clientAddress: {
        header: null,
        proxies: 1,
      },
      maxBodyBytes: 4_194_304,
      writeTimeoutMs: 30_000,
      keepAliveMs: 15_000,
      drainDelayMs: 0,
      shutdownGraceMs: 10_000,
      health: {
        path: '/healthz',
        readyPath: '/readyz',
      },
      metricsPath: null,
      insecure: false,
    },
    eras: {
      modern: true,
      legacy: 'sessions',
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
      breaker: {
        maxFailures: 5,
        minCallers: 3,
        openMs: 30_000,
      },
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
        stickyTtlMs: 86_400_000,
      },
      overrides: {},
      parameters: 'auto',
      extras: {
        files: null,
        resume: true,
        scope: null,
        idempotencyKey: false,
      },
      metaTools: 'off',
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
      quota: {
        bytesPerPrincipal: 1_073_741_824,
        countPerPrincipal: 1000,
        versionsPerName: 20,
      },
      upload: {
        enabled: true,
        linkTool: null,
        maxBytes: 104_857_600,
      },
      downloadUrlTtlMs: 900_000,
      path: '/artifacts',
      baseUrl: null,
      fetch: 'guarded',
    },
    auth: {
      mode: 'none',
      anonymousPrincipal: 'mcp_user',
      tokens: {},
      issuers: [],
      principalClaim: 'sub',
      resource: null,
      scopesSupported: [],
      devMode: false,
      facade: {
        upstreamUrl: 'http://localhost:8050',
        provider: 'azure',
        requirePkce: true,
        stateTtlMs: 300_000,
        codeTtlMs: 300_000,
        upstreamTimeoutMs: 10_000,
        redirectUris: [],
      },
    },
    secrets: {
      stateKey: null,
    },
    store: {
      type: 'memory',
      dir: null,
      url: null,
      prefix: 'mcp-gateway',
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

test('each place has a variable of its own', () => {
  const everything = new Proxy<Record<string, string>>({}, { get: () => 'something' })
  const settings = environmentSettings(everything)
  expect(settings.length).toBeGreaterThan(100)
  expect(new Set(settings.map(({ from }) => from)).size).toBe(settings.length)
})
