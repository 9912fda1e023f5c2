// What the options of a gateway may be. The checks of sources, stores and authentication are in their own files.
import { check, isRecord } from '@x/internal'
import type { Check, Checks } from '@x/internal'
import type { z } from 'zod'

import type { WaitFor } from '../tools/agent-registry-options.ts'
import type { SkillAnnotations } from '../agents/agent.ts'
import type { BreakerOptions } from '../agents/breaker.ts'
import type { ArtifactOptions, QuotaOptions, UploadOptions } from '../files/artifact-options.ts'
import { host, origin, path as urlPath, url as httpUrl } from './config-values.ts'
import type { ClientProfile, InlineOptions } from '../files/inline-limits.ts'
import type { ListenOptions } from './gateway-listener.ts'
import type {
  EraOptions,
  GatewayOptions,
  GatewayToolOptions,
  HttpOptions,
  LimitOptions,
  RegistryOptions,
  RunOptions,
  SecretOptions,
  ServerOptions,
  StreamingOptions,
} from '../options.ts'
import type { LiveOptions } from './live-options.ts'
import type { HealthOptions } from './health-routes.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import type { EventStoreLimits, SessionLimits } from '../mcp/sessions/session-limits.ts'
import type { StdioOptions } from '../mcp/stdio.ts'
import { graphChecks } from '../agents/langgraph/graph-definition.ts'
import type { CachePolicy } from '../tools/cache-policy.ts'
import type { ExtraParameters, NameOptions, ToolOverride } from '../tools/tool-options.ts'

const { flag, func, number, text } = check
const texts = check.listOf(text)

/** A kind of value that the configuration file has, too. */
function described(kind: z.ZodType): Check {
  return {
    takes: kind.safeParse(undefined).error?.issues[0]?.message ?? 'a value',
    accepts: (value) => kind.safeParse(value).success,
  }
}

const path = described(urlPath)
const url = described(httpUrl)

const httpChecks: Checks<HttpOptions> = {
  host: text,
  port: number(),
  path,
  publicUrl: url,
  allowedHosts: check.listOf(described(host)),
  allowedOrigins: check.listOf(described(origin)),
  clientAddress: check.or(
    func,
    check.section({ header: check.required(text), proxies: number(1) }),
  ),
  maxBodyBytes: number(1),
  writeTimeoutMs: number(1),
  keepAliveMs: number(1),
  drainDelayMs: number(),
  shutdownGraceMs: number(),
  health: check.section({ path, readyPath: path } satisfies Checks<HealthOptions>),
  metricsPath: path,
}

const sessionChecks: Checks<SessionLimits> = {
  idleTtlMs: number(),
  absoluteTtlMs: number(),
  max: number(),
  maxPerPrincipal: number(),
  initializePerMinutePerIp: number(),
  disconnectGraceMs: number(),
  retryMs: number(),
  eventStore: check.section({
    enabled: flag,
    maxEventsPerStream: number(),
    ttlMs: number(),
  } satisfies Checks<EventStoreLimits>),
}

const registryChecks: Checks<RegistryOptions> = {
  breaker: check.section({
    maxFailures: number(),
    minCallers: number(),
    openMs: number(),
  } satisfies Checks<BreakerOptions>),
  ttlMs: number(),
  checkMs: number(),
  debounceMs: number(),
  waitFor: check.section({
    timeoutMs: number(),
    minAgents: number(),
    pollMs: number(),
  } satisfies Checks<WaitFor>),
}

const overrideChecks: Checks<ToolOverride> = {
  name: text,
  title: check.string,
  description: check.string,
  timeoutMs: number(1),
  idleTimeoutMs: number(),
  scopes: texts,
  cache: check.section({
    ttlMs: check.required(number()),
    anonymous: flag,
  } satisfies Checks<CachePolicy>),
  hidden: flag,
  annotations: check.section({
    readOnlyHint: flag,
    destructiveHint: flag,
    idempotentHint: flag,
    openWorldHint: flag,
  } satisfies Checks<SkillAnnotations>),
}

const toolChecks: Checks<GatewayToolOptions> = {
  include: texts,
  exclude: texts,
  names: check.section({
    pattern: text,
    maxLength: number(),
    reserve: number(),
    splitCamelCase: flag,
    stickyTtlMs: number(),
  } satisfies Checks<NameOptions>),
  overrides: check.mapOf(check.section(overrideChecks)),
  parameters: check.oneOf('message', 'schema', 'auto'),
  extras: check.section({
    files: flag,
    resume: flag,
    scope: flag,
    idempotencyKey: flag,
  } satisfies Checks<ExtraParameters>),
  metaTools: check.oneOf('off', 'on', 'only'),
  prompts: flag,
  listTtlMs: number(),
  pageSize: number(1),
}

const runChecks: Checks<RunOptions> = {
  mode: check.oneOf('run', 'thread'),
  threadTtlMs: number(),
  timeoutMs: number(1),
  idleTimeoutMs: number(),
  stopGraceMs: number(),
  questionTimeoutMs: number(),
  maxConcurrent: number(1),
  maxConcurrentPerPrincipal: number(1),
  maxQueued: number(),
  queueTimeoutMs: number(),
  needsInputTtlMs: number(),
  repeatTtlMs: number(),
  sweepMs: number(),
}

const streamingChecks: Checks<StreamingOptions> = {
  enabled: flag,
  channel: check.oneOf('progress', 'log', 'both'),
  coalesceMs: number(),
  heartbeatMs: number(),
}

const inlineChecks: Checks<InlineOptions> = {
  imageMaxBytes: number(),
  audioMaxBytes: number(),
  textMaxBytes: number(),
  binaryMaxBytes: number(),
  totalMaxBytes: number(),
  resultMaxBytes: number(),
  clientProfiles: check.listOf(
    check.section({
      match: check.required(text),
      totalMaxBytes: number(),
      resultMaxBytes: number(),
      textMaxChars: number(),
    } satisfies Checks<ClientProfile>),
  ),
}

const artifactChecks: Checks<ArtifactOptions> = {
  enabled: flag,
  uriScheme: text,
  ttlMs: number(),
  maxBytes: number(),
  readMaxBytes: number(),
  quota: check.section({
    bytesPerPrincipal: number(),
    countPerPrincipal: number(),
    versionsPerName: number(1),
  } satisfies Checks<QuotaOptions>),
  upload: check.section({
    enabled: flag,
    linkTool: flag,
    maxBytes: number(),
  } satisfies Checks<UploadOptions>),
  downloadUrlTtlMs: number(),
  path,
  baseUrl: url,
  fetch: check.or(check.oneOf('never'), func),
}

const limitChecks: Checks<LimitOptions> = {
  requestsPerMinutePerPrincipal: number(),
  requestsPerMinutePerIp: number(),
  wrongTokensPerMinutePerIp: number(),
  unreadBytes: number(),
  unreadBytesPerConnection: number(),
  subscriptions: number(),
  subscriptionsPerPrincipal: number(),
  subscriptionsPerAddress: number(),
  argumentBytes: number(),
}

const observerChecks: Checks<GatewayObserver> = {
  callStarted: func,
  activate: func,
  callEnded: func,
  requestRefused: func,
  fileTransferred: func,
  runEvent: func,
  sessionOpened: func,
  sessionClosed: func,
  listChanged: func,
  warned: func,
}

export const gatewayChecks: Checks<GatewayOptions> = {
  agents: check.mapOf(check.section(graphChecks)),
  sources: check.listOf({
    ...check.methods('start', 'run', 'close'),
    takes: 'a source, such as langGraphSource(graphs)',
  }),
  auth: {
    ...check.methods('authenticate'),
    takes: 'an authenticator, such as bearerAuth(token)',
  },
  server: check.section({
    name: text,
    version: text,
    description: text,
  } satisfies Checks<ServerOptions>),
  http: check.section(httpChecks),
  eras: check.section({
    modern: flag,
    legacy: check.oneOf('sessions', 'stateless', 'off'),
  } satisfies Checks<EraOptions>),
  sessions: check.section(sessionChecks),
  registry: check.section(registryChecks),
  tools: check.section(toolChecks),
  runs: check.section(runChecks),
  streaming: check.section(streamingChecks),
  inline: check.section(inlineChecks),
  artifacts: check.section(artifactChecks),
  limits: check.section(limitChecks),
  secrets: check.section({
    stateKey: check.or(check.string, {
      takes: 'bytes',
      accepts: (value) => value instanceof Uint8Array,
    }),
  } satisfies Checks<SecretOptions>),
  anonymousPrincipal: text,
  store: {
    takes: 'a store, such as new MemoryGatewayStore()',
    accepts: (value) => isRecord(value) && isRecord(value['values']),
  },
  logger: {
    takes: 'a logger, or false',
    accepts: (value) => value === false || check.methods('warn', 'error').accepts(value),
  },
  observer: check.section(observerChecks),
  onEvent: func,
  onWarning: func,
  clock: check.methods('now', 'after'),
}

export const listenChecks: Checks<ListenOptions> = { host: text, port: number(), insecure: flag }

export const stdioChecks: Checks<StdioOptions> = {
  input: { ...check.methods('on', 'read'), takes: 'a readable stream' },
  output: { ...check.methods('on', 'write'), takes: 'a writable stream' },
}

/** Clients were told of these at the start, or something open depends on them. */
const fixed: Check = {
  takes: 'left out here, because it does not change while the gateway runs',
  accepts: () => false,
}

export const liveChecks: Checks<LiveOptions> = {
  registry: check.section({
    ...registryChecks,
    breaker: fixed,
    debounceMs: fixed,
    waitFor: fixed,
  }),
  tools: check.section({ ...toolChecks, listTtlMs: fixed, pageSize: fixed, prompts: fixed }),
  runs: check.section({
    ...runChecks,
    mode: fixed,
    threadTtlMs: fixed,
    needsInputTtlMs: fixed,
    questionTimeoutMs: fixed,
    repeatTtlMs: fixed,
    sweepMs: fixed,
  }),
  streaming: check.section({ ...streamingChecks, channel: fixed }),
  limits: check.section({
    ...limitChecks,
    subscriptions: fixed,
    subscriptionsPerPrincipal: fixed,
    subscriptionsPerAddress: fixed,
    unreadBytes: fixed,
    unreadBytesPerConnection: fixed,
  }),
  sessions: check.section(sessionChecks),
}
