import type { SkillAnnotations } from '../agents/agent.ts'
import type { JwtIssuerOptions } from '../http/auth/jwt-issuer.ts'
import type { StaticToken } from '../http/auth/static-tokens.ts'
import type { InlineOptions } from '../files/inline-limits.ts'
import type { A2aCard } from '../agents/a2a/a2a-source.ts'
import type { CachePolicy } from '../tools/cache-policy.ts'
import type { LogLevel } from '../internal/logger.ts'

/**
 * What a configuration says, with all defaults in place. `null`: nothing is set. Times are milliseconds; what 0
 * means is said where it is allowed. Defaults are those of `config-schema.ts`.
 */
export interface GatewayConfig {
  readonly server: ServerConfig
  readonly transport: 'http' | 'stdio'
  readonly http: HttpConfig
  readonly eras: ErasConfig
  readonly sessions: SessionsConfig
  readonly agents: AgentsConfig
  readonly tools: ToolsConfig
  readonly runs: RunsConfig
  readonly streaming: StreamingConfig
  readonly inline: InlineConfig
  readonly artifacts: ArtifactsConfig
  readonly auth: AuthConfig
  readonly secrets: SecretsConfig
  readonly store: StoreConfig
  readonly limits: LimitsConfig
  readonly log: LogConfig
}

interface ServerConfig {
  readonly name: string
  /** Sent to models as `instructions`. */
  readonly description: string
  readonly version: string
}

interface HttpConfig {
  readonly host: string
  readonly port: number
  readonly path: string
  readonly publicUrl: string | null
  readonly allowedHosts: readonly string[]
  readonly allowedOrigins: readonly string[]
  /** What the limits of one address count by. */
  readonly clientAddress: {
    /** That proxies of one's own write, such as `x-forwarded-for`. `null`: the other end of the connection counts. */
    readonly header: string | null
    /** How many there are, one behind the other. */
    readonly proxies: number
  }
  readonly maxBodyBytes: number
  readonly writeTimeoutMs: number
  readonly keepAliveMs: number
  readonly drainDelayMs: number
  readonly shutdownGraceMs: number
  readonly health: { readonly path: string; readonly readyPath: string }
  /** `null`: no metrics are kept. */
  readonly metricsPath: string | null
  /** Serves everybody at an address that others can reach. */
  readonly insecure: boolean
}

interface ErasConfig {
  readonly modern: boolean
  readonly legacy: 'sessions' | 'stateless' | 'off'
}

interface SessionsConfig {
  readonly idleTtlMs: number
  readonly absoluteTtlMs: number
  readonly max: number
  readonly maxPerPrincipal: number
  readonly initializePerMinutePerIp: number
  readonly disconnectGraceMs: number
  readonly eventStore: {
    readonly enabled: boolean
    readonly maxEventsPerStream: number
    readonly ttlMs: number
  }
  readonly retryMs: number
}

interface AgentsConfig {
  readonly sources: readonly SourceConfig[]
  readonly ttlMs: number
  readonly checkMs: number
  readonly listChangedDebounceMs: number
  /** When runs of an agent that keeps failing are refused. */
  readonly breaker: {
    /** Of one caller, in a row; 0: never. */
    readonly maxFailures: number
    /** Callers with so many failures, after which all are refused. */
    readonly minCallers: number
    readonly openMs: number
  }
  readonly waitFor: {
    readonly enabled: boolean
    readonly timeoutMs: number
    readonly minAgents: number
    readonly pollMs: number
  }
}

export type SourceConfig =
  | {
      readonly type: 'langgraph'
      /** A `langgraph.json`, from the folder of the configuration. */
      readonly config: string
    }
  | {
      readonly type: 'langgraph-server'
      readonly url: string
      readonly apiKey?: string | undefined
      readonly headers?: Readonly<Record<string, string>> | undefined
      readonly assistants?: readonly string[] | undefined
      readonly refreshMs?: number | undefined
      /** Of one look, and of what cleans up. */
      readonly timeoutMs?: number | undefined
    }
  | {
      readonly type: 'a2a'
      /** Of cards, or of agents. */
      readonly cards: readonly (string | A2aCard)[]
      readonly trustedOrigins?: readonly string[] | undefined
      readonly refreshMs?: number | undefined
      /** Of one look at a card or a task, and of a cancellation. */
      readonly timeoutMs?: number | undefined
      /** Of an agent on an open request. */
      readonly silenceMs?: number | undefined
      readonly pollMs?: number | undefined
      /** Of one answer. */
      readonly maxBytes?: number | undefined
    }

interface ToolsConfig {
  readonly include: readonly string[]
  readonly exclude: readonly string[]
  readonly names: {
    readonly pattern: string
    readonly maxLength: number
    readonly reserve: number
    readonly splitCamelCase: boolean
    readonly stickyTtlMs: number
  }
  readonly overrides: Readonly<Record<string, ToolOverrideConfig>>
  readonly parameters: 'message' | 'schema' | 'auto'
  readonly extras: {
    /** `null`: where files can be uploaded. */
    readonly files: boolean | null
    readonly resume: boolean
    /** `null`: where callers have no names. */
    readonly scope: boolean | null
    readonly idempotencyKey: boolean
  }
  readonly metaTools: 'off' | 'on' | 'only'
  readonly prompts: boolean
  readonly listTtlMs: number
  readonly pageSize: number
}

export interface ToolOverrideConfig {
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly timeoutMs?: number | undefined
  readonly idleTimeoutMs?: number | undefined
  readonly scopes?: readonly string[] | undefined
  readonly cache?: CachePolicy | undefined
  readonly hidden?: boolean | undefined
  readonly annotations?: SkillAnnotations | undefined
}

interface RunsConfig {
  readonly timeoutMs: number
  /** 0: none. */
  readonly idleTimeoutMs: number
  readonly maxConcurrent: number
  readonly maxConcurrentPerPrincipal: number
  readonly maxQueued: number
  readonly queueTimeoutMs: number
  /** Each call has a thread of its own, or goes on with that of its caller. */
  readonly mode: 'run' | 'thread'
  /** How long such a thread is kept. */
  readonly threadTtlMs: number
  readonly needsInputTtlMs: number
  readonly questionTimeoutMs: number
  readonly stopGraceMs: number
}

interface StreamingConfig {
  readonly enabled: boolean
  readonly channel: 'progress' | 'log' | 'both'
  readonly coalesceMs: number
  /** 0: none. */
  readonly heartbeatMs: number
}

interface InlineConfig {
  readonly imageMaxBytes: number
  readonly audioMaxBytes: number
  readonly textMaxBytes: number
  readonly binaryMaxBytes: number
  readonly totalMaxBytes: number
  readonly resultMaxBytes: number
  readonly clientProfiles: NonNullable<InlineOptions['clientProfiles']>
}

interface ArtifactsConfig {
  readonly enabled: boolean
  readonly uriScheme: string
  readonly ttlMs: number
  readonly maxBytes: number
  readonly readMaxBytes: number
  readonly quota: {
    readonly bytesPerPrincipal: number
    readonly countPerPrincipal: number
    readonly versionsPerName: number
  }
  readonly upload: {
    readonly enabled: boolean
    /** `null`: where it is configured how clients reach the gateway. */
    readonly linkTool: boolean | null
    readonly maxBytes: number
  }
  readonly downloadUrlTtlMs: number
  readonly path: string
  /** `null`: `path` at `http.publicUrl`, or where the gateway listens. */
  readonly baseUrl: string | null
  /** What agents give by its URL: fetched where that is safe, or passed on as a link. */
  readonly fetch: 'guarded' | 'never'
}

export interface AuthConfig {
  readonly mode: 'none' | 'bearer' | 'jwt' | 'facade'
  readonly anonymousPrincipal: string
  readonly tokens: Readonly<Record<string, StaticToken>>
  readonly issuers: readonly JwtIssuerOptions[]
  readonly principalClaim: string
  /** `null`: `http.publicUrl` with `http.path`. */
  readonly resource: string | null
  readonly scopesSupported: readonly string[]
  readonly devMode: boolean
  readonly facade: {
    readonly upstreamUrl: string
    readonly provider: string
    readonly requirePkce: boolean
    readonly stateTtlMs: number
    readonly codeTtlMs: number
    readonly upstreamTimeoutMs: number
    readonly redirectUris: readonly string[]
  }
}

interface SecretsConfig {
  /** At least 32 bytes. `null`: random, for this process. */
  readonly stateKey: string | null
}

export interface StoreConfig {
  readonly type: 'memory' | 'disk' | 'redis'
  /** Of `disk`, from the folder of the configuration. */
  readonly dir: string | null
  /** Of `redis`. */
  readonly url: string | null
  /** Of `redis`. */
  readonly prefix: string
}

interface LimitsConfig {
  /** 0: none. */
  readonly requestsPerMinutePerPrincipal: number
  /** 0: none. */
  readonly requestsPerMinutePerIp: number
  /** 0: none. */
  readonly wrongTokensPerMinutePerIp: number
  readonly subscriptions: number
  readonly subscriptionsPerPrincipal: number
  readonly subscriptionsPerAddress: number
  readonly argumentBytes: number
  readonly unreadBytes: number
  readonly unreadBytesPerConnection: number
}

interface LogConfig {
  readonly level: LogLevel
  /** Never stdout, which may be the protocol's. */
  readonly to: 'stderr'
}
