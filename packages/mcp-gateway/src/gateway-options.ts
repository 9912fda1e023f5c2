import type { AgentRegistryOptions } from './agents/agent-registry-options.ts'
import type { AgentSource } from './agents/agent-source.ts'
import type { ArtifactOptions } from './artifacts/artifact-options.ts'
import type { Authenticator } from './auth/authenticator.ts'
import type { Clock } from './clock.ts'
import type { InlineOptions } from './files/inline-limits.ts'
import type { ClientAddress } from './http/client-address.ts'
import type { HealthOptions } from './operation/health-routes.ts'
import type { RateLimits } from './http/request-rates.ts'
import type { GatewayObserver } from './operation/observer.ts'
import type { SessionLimits } from './protocol/session-limits.ts'
import type { AskingOptions } from './runs/interrupts/asking.ts'
import type { ProgressOptions } from './runs/progress-feed.ts'
import type { RunEvent } from './runs/run-event.ts'
import type { RunSlotsOptions } from './runs/run-slots.ts'
import type { GraphDefinition } from './sources/langgraph/graph-definition.ts'
import type { GatewayStore } from './store/gateway-store.ts'
import type { ToolOptions } from './tools/tool-options.ts'

/** What `createGateway` takes. Nothing of it is needed but something to offer. */
export interface GatewayOptions {
  /** Compiled graphs of this process, by name. Short for a `langGraphSource()` among the sources. */
  readonly agents?: Readonly<Record<string, GraphDefinition>> | undefined
  readonly sources?: readonly AgentSource[] | undefined
  /** Who may call. @default everybody, as one anonymous caller; then only this machine may reach it */
  readonly auth?: Authenticator | undefined
  readonly server?: ServerOptions | undefined
  readonly http?: HttpOptions | undefined
  readonly eras?: EraOptions | undefined
  /** Of clients that have sessions. */
  readonly sessions?: SessionLimits | undefined
  /** How agents come and go. */
  readonly registry?: RegistryOptions | undefined
  readonly tools?: GatewayToolOptions | undefined
  readonly runs?: RunOptions | undefined
  /** What is told of a call before its result. */
  readonly streaming?: StreamingOptions | undefined
  /** What results hold of files themselves. */
  readonly inline?: InlineOptions | undefined
  /** Files that agents make, and that clients upload. */
  readonly artifacts?: ArtifactOptions | undefined
  readonly limits?: LimitOptions | undefined
  readonly secrets?: SecretOptions | undefined
  /** Name of everybody, where nobody is verified. @default 'mcp_user' */
  readonly anonymousPrincipal?: string | undefined
  /** Stays open when the gateway closes. @default a `MemoryGatewayStore` of its own */
  readonly store?: GatewayStore | undefined
  /** Told what the gateway does: for logs, traces, metrics of your own. @default nobody */
  readonly observer?: GatewayObserver | undefined
  /** Told what runs do. */
  readonly onEvent?: ((event: RunEvent) => void) | undefined
  /** Told what is odd, or went wrong beside any answer; no credential and no text of a user is in it. @default nobody */
  readonly onWarning?: ((message: string, cause?: unknown) => void) | undefined
  /** @default the time of this machine */
  readonly clock?: Clock | undefined
}

/** What the gateway says of itself. */
export interface ServerOptions {
  /** @default 'Agent Gateway' */
  readonly name?: string | undefined
  /** @default that of this package */
  readonly version?: string | undefined
  /** For models, as `instructions`. @default 'Agents over MCP' */
  readonly description?: string | undefined
}

export interface HttpOptions {
  /** @default '127.0.0.1' */
  readonly host?: string | undefined
  /** @default 8000 */
  readonly port?: number | undefined
  /** Of the MCP endpoint, where the gateway listens itself. @default '/mcp' */
  readonly path?: string | undefined
  /** As clients reach it (`https://agents.example`), if that differs. */
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
   * What limits count by that are for one address.
   *
   * @default the other end of the connection; where `fetch` is mounted, nothing: then no such limit holds
   */
  readonly clientAddress?: ClientAddress | undefined
  /** @default 4_194_304 */
  readonly maxBodyBytes?: number | undefined
  /** Between signs of life on streams that are silent. @default 15_000 */
  readonly keepAliveMs?: number | undefined
  /** How long calls may take to end by themselves when the gateway closes. @default 10_000 */
  readonly shutdownGraceMs?: number | undefined
  /** Where orchestrators ask whether the process lives, and whether calls may come. */
  readonly health?: HealthOptions | undefined
  /** Where metrics are, in the format of Prometheus, for everybody who reaches it. @default none are kept */
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
  'ttlMs' | 'checkMs' | 'debounceMs' | 'waitFor'
>

/** How long files are kept, and which tools the gateway has itself, is said by `artifacts`. */
export interface GatewayToolOptions extends Omit<ToolOptions, 'artifactTtlMs' | 'ownTools'> {
  /** How long a modern client may keep a list. @default 5000 */
  readonly listTtlMs?: number | undefined
  /** @default 200 */
  readonly pageSize?: number | undefined
}

export interface RunOptions extends RunSlotsOptions, AskingOptions {
  /**
   * `thread`: calls of one caller to one agent are one conversation, for agents that keep what was said: by principal;
   * of callers without a name by session, or by the `scope` that they pass. @default 'run'
   */
  readonly mode?: 'run' | 'thread' | undefined
  /** How long a conversation is kept after its last call. @default 86_400_000 */
  readonly threadTtlMs?: number | undefined
  /** Whole run. @default 300_000 */
  readonly timeoutMs?: number | undefined
  /** Without a word from the agent; 0: no such limit. @default 300_000 */
  readonly idleTimeoutMs?: number | undefined
  /** How long a stopped agent may take to end. @default 2000 */
  readonly stopGraceMs?: number | undefined
  /** How long a person may take to answer what a session asks. @default 600_000 */
  readonly questionTimeoutMs?: number | undefined
}

export interface StreamingOptions extends ProgressOptions {
  /** `false`: files and text arrive all the same, with the result. @default true */
  readonly enabled?: boolean | undefined
  /** As progress, for clients that ask for it, or as log messages, by the level they set. @default 'progress' */
  readonly channel?: 'progress' | 'log' | 'both' | undefined
}

/** Addresses are those of connections, unless `http.clientAddress` says otherwise. */
export interface LimitOptions extends RateLimits {
  /** Open `subscriptions/listen` streams. @default 1024 */
  readonly subscriptions?: number | undefined
  /** @default 8 */
  readonly subscriptionsPerPrincipal?: number | undefined
  /** Of the arguments of one call, as JSON. @default 262_144 */
  readonly argumentBytes?: number | undefined
}

export interface SecretOptions {
  /** At least 32 bytes, the same in every process. Signs cursors and questions. @default random, for this process */
  readonly stateKey?: string | Uint8Array | undefined
}
