import { z } from 'zod'

import { packageVersion } from '../version.ts'
import { configMisfits } from './config-misfits.ts'
import { issuer, override, profile, source, token } from './config-entries.ts'
import {
  bytes,
  flag,
  host,
  ms,
  oneOf,
  origin,
  path,
  section,
  text,
  texts,
  url,
  whole,
} from '../gateway/config-values.ts'
import type { GatewayConfig } from './gateway-config.ts'

const sections = z.strictObject(
  {
    server: section({
      name: text.default('Agent Gateway'),
      description: text.default('Agents over MCP'),
      version: text.default(packageVersion),
    }),
    transport: oneOf('http', 'stdio').default('http'),
    http: section({
      host: text.default('127.0.0.1'),
      port: whole(0, 65_535).default(8000),
      path: path.default('/mcp'),
      publicUrl: url.nullable().default(null),
      allowedHosts: z.array(host, { error: 'a list of host names' }).default([]),
      allowedOrigins: z.array(origin, { error: 'a list of origins' }).default([]),
      clientAddress: section({
        header: z
          .string({ error: 'the name of a header' })
          .regex(/^[\w-]+$/, { error: 'the name of a header' })
          .nullable()
          .default(null),
        proxies: whole(1, 16).default(1),
      }),
      maxBodyBytes: bytes.default(4_194_304),
      writeTimeoutMs: ms(1).default(30_000),
      keepAliveMs: ms(1).default(15_000),
      drainDelayMs: ms().default(0),
      shutdownGraceMs: ms().default(10_000),
      health: section({
        path: path.default('/healthz'),
        readyPath: path.default('/readyz'),
      }),
      metricsPath: path.nullable().default(null),
      insecure: flag.default(false),
    }),
    eras: section({
      modern: flag.default(true),
      legacy: oneOf('sessions', 'stateless', 'off').default('sessions'),
    }),
    sessions: section({
      idleTtlMs: ms(1).default(1_800_000),
      absoluteTtlMs: ms(1).default(43_200_000),
      max: whole(1).default(10_000),
      maxPerPrincipal: whole(1).default(100),
      initializePerMinutePerIp: whole(1).default(60),
      disconnectGraceMs: ms().default(10_000),
      eventStore: section({
        enabled: flag.default(true),
        maxEventsPerStream: whole(1).default(1000),
        ttlMs: ms(1).default(300_000),
      }),
      retryMs: ms().default(1000),
    }),
    agents: section({
      sources: z.array(source, { error: 'a list of sources' }).default([]),
      ttlMs: ms(1).default(60_000),
      checkMs: ms(1).default(10_000),
      listChangedDebounceMs: ms().default(250),
      breaker: section({
        maxFailures: whole(0).default(5),
        minCallers: whole(1).default(3),
        openMs: ms(1).default(30_000),
      }),
      waitFor: section({
        enabled: flag.default(false),
        timeoutMs: ms().default(10_000),
        minAgents: whole(1).default(1),
        pollMs: ms(1).default(250),
      }),
    }),
    tools: section({
      include: texts.default([]),
      exclude: texts.default([]),
      names: section({
        pattern: text.default('{agent}_{skill}'),
        maxLength: whole(16, 128).default(64),
        reserve: whole(0, 112).default(16),
        splitCamelCase: flag.default(false),
        stickyTtlMs: ms(1).default(86_400_000),
      }),
      overrides: z
        .record(z.string(), override, { error: 'overrides by "agent/skill"' })
        .default({}),
      parameters: oneOf('message', 'schema', 'auto').default('auto'),
      extras: section({
        files: flag.nullable().default(null),
        resume: flag.default(true),
        scope: flag.nullable().default(null),
        idempotencyKey: flag.default(false),
      }),
      metaTools: oneOf('off', 'on', 'only').default('off'),
      prompts: flag.default(true),
      listTtlMs: ms().default(5000),
      pageSize: whole(1, 10_000).default(200),
    }),
    runs: section({
      timeoutMs: ms(1).default(300_000),
      idleTimeoutMs: ms().default(300_000),
      maxConcurrent: whole(1).default(64),
      maxConcurrentPerPrincipal: whole(1).default(8),
      maxQueued: whole(0).default(64),
      queueTimeoutMs: ms(1).default(30_000),
      mode: oneOf('run', 'thread').default('run'),
      threadTtlMs: ms(1).default(86_400_000),
      needsInputTtlMs: ms(1).default(3_600_000),
      questionTimeoutMs: ms(1).default(600_000),
      stopGraceMs: ms().default(2000),
    }),
    streaming: section({
      enabled: flag.default(true),
      channel: oneOf('progress', 'log', 'both').default('progress'),
      coalesceMs: ms().default(100),
      heartbeatMs: ms().default(15_000),
    }),
    inline: section({
      imageMaxBytes: whole(0).default(5_242_880),
      audioMaxBytes: whole(0).default(10_485_760),
      textMaxBytes: whole(0).default(1_048_576),
      binaryMaxBytes: whole(0).default(524_288),
      totalMaxBytes: whole(0).default(10_485_760),
      resultMaxBytes: whole(16_384).default(1_000_000),
      clientProfiles: z.array(profile, { error: 'a list of profiles' }).default([]),
    }),
    artifacts: section({
      enabled: flag.default(true),
      uriScheme: z
        .string({ error: 'a URI scheme such as artifact' })
        .regex(/^[a-z][a-z0-9+.-]*$/, { error: 'a URI scheme such as artifact' })
        .default('artifact'),
      ttlMs: ms(1).default(86_400_000),
      maxBytes: bytes.default(104_857_600),
      readMaxBytes: bytes.default(8_388_608),
      quota: section({
        bytesPerPrincipal: bytes.default(1_073_741_824),
        countPerPrincipal: whole(1).default(1000),
        versionsPerName: whole(1).default(20),
      }),
      upload: section({
        enabled: flag.default(true),
        linkTool: flag.nullable().default(null),
        maxBytes: bytes.default(104_857_600),
      }),
      downloadUrlTtlMs: ms(1).default(900_000),
      path: path.default('/artifacts'),
      baseUrl: url.nullable().default(null),
      fetch: oneOf('guarded', 'never').default('guarded'),
    }),
    auth: section({
      mode: oneOf('none', 'bearer', 'jwt', 'facade').default('none'),
      anonymousPrincipal: text.default('mcp_user'),
      tokens: z.record(text, token, { error: 'tokens by name' }).default({}),
      issuers: z.array(issuer, { error: 'a list of issuers' }).default([]),
      principalClaim: text.default('sub'),
      resource: url.nullable().default(null),
      scopesSupported: texts.default([]),
      devMode: flag.default(false),
      facade: section({
        upstreamUrl: url.default('http://localhost:8050'),
        provider: text.default('azure'),
        requirePkce: z.literal(true, { error: 'true: only S256 there is' }).default(true),
        stateTtlMs: ms(1).default(300_000),
        codeTtlMs: ms(1).default(300_000),
        upstreamTimeoutMs: ms(1).default(10_000),
        redirectUris: texts.default([]),
      }),
    }),
    secrets: section({
      stateKey: z
        .string({ error: 'text of 32 bytes or more' })
        .min(32, { error: 'text of 32 bytes or more' })
        .nullable()
        .default(null),
    }),
    store: section({
      type: oneOf('memory', 'disk', 'redis').default('memory'),
      dir: text.nullable().default(null),
      url: z
        .url({ protocol: /^rediss?$/, error: 'redis://host:port, or rediss:// for TLS' })
        .nullable()
        .default(null),
      prefix: text.default('mcp-gateway'),
    }),
    limits: section({
      requestsPerMinutePerPrincipal: whole(0).default(600),
      requestsPerMinutePerIp: whole(0).default(0),
      wrongTokensPerMinutePerIp: whole(0).default(60),
      subscriptions: whole(1).default(1024),
      subscriptionsPerPrincipal: whole(1).default(8),
      subscriptionsPerAddress: whole(1).default(64),
      argumentBytes: bytes.default(262_144),
      unreadBytes: bytes.default(268_435_456),
      unreadBytesPerConnection: bytes.default(33_554_432),
    }),
    log: section({
      level: oneOf('trace', 'debug', 'info', 'warn', 'error', 'silent').default('info'),
      to: z.literal('stderr', { error: 'stderr: stdout may be the protocol’s' }).default('stderr'),
    }),
  },
  { error: 'a section with keys of its own' },
)

/** Checks a configuration, and puts its defaults in. Keys that it does not know are issues. */
export const configSchema: z.ZodType<GatewayConfig> = sections.check(({ value, issues }) => {
  for (const { path: place, expected } of configMisfits(value)) {
    issues.push({ code: 'custom', path: [...place], message: expected, input: value })
  }
})
