import type { AgentRegistryOptions } from './tools/agent-registry-options.ts'
import type { AgentSource } from './agents/agent-source.ts'
import type { ArtifactOptions } from './files/artifact-options.ts'
import type { Authenticator } from './http/auth/authenticator.ts'
import type { Clock } from './internal/clock.ts'
import type { InlineOptions } from './files/inline-limits.ts'
import type { ClientAddress } from './http/client-address.ts'
import type { HealthOptions } from './gateway/health-routes.ts'
import type { RateLimits } from './http/request-rates.ts'
import type { GatewayLogger } from './internal/logger.ts'
import type { UnreadLimits } from './http/unread-bytes.ts'
import type { GatewayObserver } from './internal/observer.ts'
import type { SessionLimits } from './mcp/sessions/session-limits.ts'
import type { AskingOptions } from './runs/interrupts/asking.ts'
import type { ProgressOptions } from './runs/progress-feed.ts'
import type { RunEvent } from './internal/run-event.ts'
import type { RunSlotsOptions } from './runs/run-slots.ts'
import type { GraphDefinition } from './agents/langgraph/graph-definition.ts'
import type { GatewayStore } from './store/gateway-store.ts'
import type { ToolOptions } from './tools/tool-options.ts'

/** What `createGateway` takes. Only something to offer is needed: `agents` or `sources`. Times are milliseconds, sizes bytes. */
export interface GatewayOptions {
  /** Compiled graphs of this process, by name. Short for a `langGraphSource()` among the sources. */
  readonly agents?: Readonly<Record<string, GraphDefinition>> | undefined
  /** Where agents come from, beside `agents`. @default none */
  readonly sources?: readonly AgentSource[] | undefined
  /** Who may call. @default everybody, as one anonymous caller; then only this machine may reach it */
  readonly auth?: Authenticator | undefined
  /** What the gateway tells clients of itself. */
  readonly server?: ServerOptions | undefined
  /** Where it listens, and which requests it answers. */
  readonly http?: HttpOptions | undefined
  /** Which revisions of MCP it speaks. @default all */
  readonly eras?: EraOptions | undefined
  /** Limits of sessions, which only clients of the legacy revisions have. */
  readonly sessions?: SessionLimits | undefined
  /** How agents come and go. */
  readonly registry?: RegistryOptions | undefined
  /** Which skills become tools, and how these are called and listed. */
  readonly tools?: GatewayToolOptions | undefined
  /** How many calls run at a time, and for how long. */
  readonly runs?: RunOptions | undefined
  /** What is told of a call before its result. */
  readonly streaming?: StreamingOptions | undefined
  /** Up to which size a result holds a file itself, and not a link to it. */
  readonly inline?: InlineOptions | undefined
  /** Files that agents make, and that clients upload. */
  readonly artifacts?: ArtifactOptions | undefined
  /** How much one caller may ask for. */
  readonly limits?: LimitOptions | undefined
  /** What all processes of one gateway have to share. */
  readonly secrets?: SecretOptions | undefined
  /** What callers are called where there is no `auth`. @default 'mcp_user' */
  readonly anonymousPrincipal?: string | undefined
  /** Stays open when the gateway closes. @default a `MemoryGatewayStore` of its own */
  readonly store?: GatewayStore | undefined
  /**
   * Gets warnings and errors, such as failed runs with their stack; `console` fits. `false`: nothing is logged.
   *
   * @default standard error, for what neither `observer`, `onEvent` nor `onWarning` is told
   */
  readonly logger?: GatewayLogger | false | undefined
  /** Told what the gateway does: for logs, traces, metrics of your own. @default nobody */
  readonly observer?: GatewayObserver | undefined
  /** Told when a run starts, ends, fails, or does not stop when it is told to. @default nobody */
  readonly onEvent?: ((event: RunEvent) => void) | undefined
  /** Told what is odd, or went wrong beside any answer; no credential and no text of a user is in it. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default the time of this machine */
  readonly clock?: Clock | undefined
}

/** What the gateway says of itself. */
export interface ServerOptions {
  /** Name of the MCP server. @default 'Agent Gateway' */
  readonly name?: string | undefined
  /** @default that of this package */
  readonly version?: string | undefined
  /** Sent to clients as `instructions`, for their models. @default 'Agents over MCP' */
  readonly description?: string | undefined
}

export interface HttpOptions {
  /** Address to listen on. @default '127.0.0.1' */
  readonly host?: string | undefined
  /** 0: any that is free. @default 8000 */
  readonly port?: number | undefined
  /** Path of the MCP endpoint, where the gateway listens itself. @default '/mcp' */
  readonly path?: string | undefined
  /** How clients reach the gateway (`https://agents.example`), if not by the address it listens on. */
  readonly publicUrl?: string | undefined
  /**
   * Names, without port, by which requests may address the gateway, beside those of loopback and of `publicUrl`.
   *
   * @default with `auth` and without `publicUrl` any name: a page that lies about it holds no credential
   */
  readonly allowedHosts?: readonly string[] | undefined
  /** Origins of pages that may call from a browser. @default pages of this machine, unless other hosts are allowed */
  readonly allowedOrigins?: readonly string[] | undefined
  /**
   * How to find the address of a client: limits for one address count by it.
   *
   * @default the other end of the connection; where `fetch` is mounted, nothing: then no such limit holds
   */
  readonly clientAddress?: ClientAddress | undefined
  /** Larger request bodies are refused with 413. @default 4_194_304 */
  readonly maxBodyBytes?: number | undefined
  /**
   * How long a client may take none of the bytes that wait for it, before its connection is ended. Holds where the
   * gateway listens itself. @default 30_000
   */
  readonly writeTimeoutMs?: number | undefined
  /** How often a silent stream gets a comment, so that no proxy takes it for dead. @default 15_000 */
  readonly keepAliveMs?: number | undefined
  /**
   * How long `close()` goes on serving while `readyPath` says 503, so that a load balancer takes the process out before
   * it refuses anything. @default 0
   */
  readonly drainDelayMs?: number | undefined
  /** How long calls may take to end by themselves when the gateway closes. @default 10_000 */
  readonly shutdownGraceMs?: number | undefined
  /** Where orchestrators ask whether the process lives, and whether calls may come. */
  readonly health?: HealthOptions | undefined
  /** Path of the metrics, in the format of Prometheus; everybody who reaches it may read them. @default no metrics are kept */
  readonly metricsPath?: string | undefined
}

export interface EraOptions {
  /** Revision 2026-07-28. @default true */
  readonly modern?: boolean | undefined
  /** Revisions 2025-03-26 … 2025-11-25; `stateless` for clients that lose the session's header. @default 'sessions' */
  readonly legacy?: 'sessions' | 'stateless' | 'off' | undefined
}

export type RegistryOptions = Pick<
  AgentRegistryOptions,
  'breaker' | 'ttlMs' | 'checkMs' | 'debounceMs' | 'waitFor'
>

/** Which skills become tools, and how these are listed. */
export interface GatewayToolOptions extends Omit<ToolOptions, 'artifactTtlMs' | 'ownTools'> {
  /** How long a modern client may keep a list. @default 5000 */
  readonly listTtlMs?: number | undefined
  /** Entries on one page of a list. @default 200 */
  readonly pageSize?: number | undefined
}

export interface RunOptions extends RunSlotsOptions, AskingOptions {
  /**
   * `run`: each call stands for itself. `thread`: all calls of one caller to one agent are one conversation, if the
   * agent keeps what was said. A caller without a name is known by its session, or by the `scope` that it passes.
   *
   * @default 'run'
   */
  readonly mode?: 'run' | 'thread' | undefined
  /** How long a conversation is kept after its last call. @default 86_400_000 */
  readonly threadTtlMs?: number | undefined
  /** How long a whole run may take. @default 300_000 */
  readonly timeoutMs?: number | undefined
  /** How long an agent may be silent; 0: no such limit. @default 300_000 */
  readonly idleTimeoutMs?: number | undefined
  /** How long an agent that was told to stop may take for it. @default 2000 */
  readonly stopGraceMs?: number | undefined
  /** How long a person may take to answer an elicitation in a session. @default 600_000 */
  readonly questionTimeoutMs?: number | undefined
}

export interface StreamingOptions extends Omit<ProgressOptions, 'from'> {
  /** `false`: nothing is sent before the result, which holds all of it. @default true */
  readonly enabled?: boolean | undefined
  /** `progress`: for calls with a progress token. `log`: as log messages, for clients that set a level. @default 'progress' */
  readonly channel?: 'progress' | 'log' | 'both' | undefined
}

/** How much one caller may ask for. Addresses are those of connections, unless `http.clientAddress` says otherwise. */
export interface LimitOptions extends RateLimits, UnreadLimits {
  /** How many `subscriptions/listen` streams may be open at a time, at each process. @default 1024 */
  readonly subscriptions?: number | undefined
  /** How many of them one caller may have, at each process. @default 8 */
  readonly subscriptionsPerPrincipal?: number | undefined
  /**
   * How many of them callers without a name may have from one address, at each process, with the streams on which
   * their sessions listen; where addresses are not known, there is no such limit.
   *
   * @default 64
   */
  readonly subscriptionsPerAddress?: number | undefined
  /** How large the arguments of one call may be, as JSON. @default 262_144 */
  readonly argumentBytes?: number | undefined
}

export interface SecretOptions {
  /**
   * Signs cursors, questions and links: at least 32 bytes, the same in every process that shares the store.
   *
   * @default random: what was signed is of no use to another process, or after a restart
   */
  readonly stateKey?: string | Uint8Array | undefined
}
