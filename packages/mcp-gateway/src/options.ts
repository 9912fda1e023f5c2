// All settings of a gateway: beside each type with its comments are the ranges and the defaults. From this one
// description come the checks of options and files, and `docs/reference/settings.md`.
import { z } from 'zod'

import type { AgentSource, SkillAnnotations } from './agents/agent.ts'
import type { Authenticator } from './http/auth/authenticator.ts'
import type { CredentialsProvider } from './internal/user-credentials.ts'
import type { Clock } from './internal/clock.ts'
import type { GatewayLogger } from './internal/logger.ts'
import type { GatewayObserver } from './internal/observer.ts'
import type { GraphDefinition } from './agents/langgraph/definition.ts'
import {
  bytes,
  flag,
  hostName,
  matching,
  ms,
  oneOf,
  origin,
  publicUrl,
  secret,
  section,
  size,
  text,
  texts,
  ttl,
  unset,
  whole,
} from './internal/setting-kinds.ts'
import type { RunEngine } from './runs/engine.ts'
import type { GatewayStore } from './store/gateway-store.ts'

/**
 * Options of `createGateway`. Only agents are needed: `agents` or `sources`. Settings that are left out have the
 * defaults of `docs/reference/settings.md`. Times are milliseconds, sizes are bytes, `Infinity` means "no limit".
 */
export interface GatewayOptions extends GatewayObjects, Given<GatewaySettings> {}

/** Options that are objects of your program. They have no place in a configuration file. */
export interface GatewayObjects {
  /** Compiled graphs of this process, by name. The same as a `langGraphSource()` in `sources`. */
  readonly agents?: Readonly<Record<string, GraphDefinition>> | undefined
  /** Sources of agents, besides `agents`. @default none */
  readonly sources?: readonly AgentSource[] | undefined
  /** Checks who calls. @default every caller is one anonymous principal, and only this machine can connect */
  readonly auth?: Authenticator | undefined
  /**
   * Gets tokens for other servers in the name of the caller: `tokenExchange()`. Graphs find it in their context, as
   * `credentials`. Needs `auth`. @default agents cannot act for users
   */
  readonly credentials?: CredentialsProvider | undefined
  /** Keeps sessions, files and paused runs. It stays open when the gateway closes. @default a new `MemoryGatewayStore` */
  readonly store?: GatewayStore | undefined
  /**
   * Executes tasks in any of the processes that share `store`, such as `bullmqEngine()` of `@x/mcp-gateway-redis`. Call
   * `gateway.work()` in processes that execute tasks. @default a task ends with the process that began it
   */
  readonly engine?: RunEngine | undefined
  /** Receives warnings and errors, such as failed runs with their stack. `console` is one. `false`: no log. @default standard error */
  readonly log?: GatewayLogger | false | undefined
  /** Receives what the gateway does, for your own logs, traces and metrics. @default none */
  readonly observer?: GatewayObserver | undefined
  /**
   * Returns the address of a client, for the limits of callers without a name. Gets what the application passes to
   * `gateway.fetch()` beside the request: `optionHandler` of Hono's `mount`, `server` of Bun. @default as `http.proxies` says
   */
  readonly clientAddress?: ClientAddress | undefined
  /** @default the time of this machine */
  readonly clock?: Clock | undefined
}

/** Returns the address of the client of a request. `undefined`: it is not known. */
export type ClientAddress = (request: Request, context: unknown) => string | undefined

/** Options after they were checked: every setting has a value. */
export interface CheckedOptions extends GatewayObjects, GatewaySettings {}

/** Options of `gateway.listen()`. What is left out is as in `http`. */
export interface ListenOptions extends Given<Pick<HttpSettings, 'host' | 'port' | 'insecure'>> {
  /**
   * Answers health and metrics only, until `close()` has ended: for a process that executes tasks and serves no client.
   * Needs no `auth`, because it serves no calls. @default false
   */
  readonly probesOnly?: boolean | undefined
}

/** The same settings, each of which may be left out. Lists, functions and objects with names of the user stay as they are. */
export type Given<T> = { readonly [Key in keyof T]?: GivenValue<T[Key]> | undefined }

type GivenValue<T> = T extends readonly unknown[] | Uint8Array | ((...args: never) => unknown)
  ? T
  : T extends object
    ? string extends keyof T
      ? T
      : Given<T>
    : T

/** Checks and defaults of settings. */
type Shape<T> = { readonly [Key in keyof T]-?: z.ZodType<T[Key]> }

/** All settings of a gateway, with their defaults in place. */
export interface GatewaySettings {
  /** Name and description that clients receive. */
  readonly server: ServerSettings
  /** Where the gateway listens, and which requests it answers. */
  readonly http: HttpSettings
  /** Limits of sessions. Only clients of the revisions up to 2025-11-25 have sessions. */
  readonly sessions: SessionSettings
  /** Which skills become tools, and how tools are listed and called. */
  readonly tools: ToolSettings
  /** How many calls run at a time, and for how long. */
  readonly runs: RunSettings
  /** What a client receives about a call before its result. */
  readonly streaming: StreamingSettings
  /** Calls that outlive their requests. */
  readonly tasks: TaskSettings
  /** Size up to which a result holds a file itself instead of a link: raw bytes, except in `resultMaxBytes`. */
  readonly inline: InlineSettings
  /** Files that agents make and that clients upload. */
  readonly artifacts: ArtifactSettings
  /**
   * Folder of skills: instructions for models, each in a folder with a `SKILL.md`. A skill in the folder of an agent, such
   * as `support/refund`, belongs to that agent. Relative to the configuration file. Without it: no skills.
   */
  readonly skillFolder: string | undefined
  /**
   * Requests of one caller per minute; of one network for callers without a name and for wrong credentials. 0: no limit, except 600 wrong credentials.
   */
  readonly requestsPerMinute: number
  /**
   * Time for which each version of a file is kept from the moment it was written, and a task and the outcome of a call with
   * an idempotency key from its end. A file may thus expire before the task that has written it.
   */
  readonly resultTtlMs: number
  /**
   * Key that signs cursors, questions and links: at least 32 bytes, the same in every process that shares the store.
   * Without it, they end with the process.
   */
  readonly stateKey: string | Uint8Array | undefined
}

export interface ServerSettings {
  /** Name of the MCP server. */
  readonly name: string
  /** Sent to clients as `instructions`, for their models. */
  readonly description: string
}

const server: Shape<ServerSettings> = {
  name: text.default('Agent Gateway'),
  description: text.default('Agents over MCP'),
}

export interface HttpSettings {
  /** Address to listen on. */
  readonly host: string
  /** Port to listen on. 0: any free port. */
  readonly port: number
  /** Path of the MCP endpoint, if the gateway listens itself. */
  readonly path: string
  /**
   * URL at which clients reach the gateway, such as `https://agents.example/team`. `path` is appended unless it ends with it.
   */
  readonly publicUrl: string | undefined
  /**
   * Host names, without port, that requests may use besides loopback names and `publicUrl`. If both are empty, and with
   * `auth`, every name is accepted.
   */
  readonly allowedHosts: readonly string[]
  /** Origins of web pages that may call, besides pages of this machine. */
  readonly allowedOrigins: readonly string[]
  /**
   * Number of your own proxies in a row. Each appends an entry to `x-forwarded-for`; that of the outermost one is the address
   * of the client, for the limits of callers without a name. 0: the other end of the connection is the client.
   */
  readonly proxies: number
  /** Larger request bodies get 413. Without it: 4 MiB with `auth`, else 1 MiB. */
  readonly maxBodyBytes: number | undefined
  /** Time for which `close()` still serves while `/readyz` answers 503, so that a load balancer notices. */
  readonly drainDelayMs: number
  /** Time that calls have to end when the gateway closes. */
  readonly shutdownGraceMs: number
  /** Path of the metrics for Prometheus, for everyone who can connect. Without it: none. */
  readonly metricsPath: string | undefined
  /** Listens without `auth` even at an address that other machines can reach. */
  readonly insecure: boolean
}

/** `.` and `..` are refused, because clients remove them from a URL. */
const path: z.ZodString = matching(
  /^(?:\/|(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)+\/?)$/,
  'a path such as /mcp',
)

const http: Shape<HttpSettings> = {
  host: text.default('127.0.0.1'),
  port: whole(0, 65_535).default(8000),
  path: path.default('/mcp'),
  publicUrl: unset(publicUrl),
  allowedHosts: z.array(hostName, { error: 'a list of host names' }).default([]),
  allowedOrigins: z.array(origin, { error: 'a list of origins' }).default([]),
  proxies: whole(0, 16).default(0),
  maxBodyBytes: unset(bytes),
  drainDelayMs: ms().default(0),
  shutdownGraceMs: ms().default(10_000),
  metricsPath: unset(path),
  insecure: flag.default(false),
}

export interface SessionSettings {
  /** A session ends after this time without a request, a call or a stream. */
  readonly idleTtlMs: number
  /** Number of sessions, and of clients of 2026-07-28 that listen to changes. */
  readonly max: number
  /** The same of one verified caller. */
  readonly maxPerPrincipal: number
}

const sessions: Shape<SessionSettings> = {
  idleTtlMs: ttl.default(1_800_000),
  max: whole(1).default(10_000),
  maxPerPrincipal: whole(1).default(100),
}

/**
 * Which calls become tasks, for clients of 2026-07-28 that declare the extension `io.modelcontextprotocol/tasks`: `never`;
 * `auto`, after two seconds without an answer or at the first question; `always`; `required`, which also refuses clients
 * that do not declare it; `pair`, which is `auto`, and offers the tools `NAME_start` and `agent_result` to clients that know
 * no tasks and cannot wait.
 */
export type TaskPolicy = 'never' | 'auto' | 'always' | 'required' | 'pair'

const taskPolicy = oneOf('never', 'auto', 'always', 'required', 'pair')

/** Settings of one tool. What is left out is as for all tools, or as the agent says. */
export interface ToolOverride {
  /** Name of the tool. */
  readonly name?: string | undefined
  /** Title of the tool. */
  readonly title?: string | undefined
  /** Description for models. */
  readonly description?: string | undefined
  /** Messages that a user may send, for models and as prompts. `{city}` is an argument of the prompt. */
  readonly examples?: readonly string[] | undefined
  /** Time that a whole run may take. */
  readonly timeoutMs?: number | undefined
  /** Scopes that a caller needs, all of them. Without this: `agent:<agent id>:call`. */
  readonly scopes?: readonly string[] | undefined
  /**
   * Time for which the same arguments and context of the same caller get the same result. A caller with other scopes or
   * claims counts as another one; claims of one token, such as `exp` and `jti`, make no difference. Without `auth`, all
   * callers share results. No effect on calls of a conversation, which all calls are with `runs.mode: thread`.
   */
  readonly cacheTtlMs?: number | undefined
  /** Which calls of the tool become tasks. */
  readonly tasks?: TaskPolicy | undefined
  /** Hints for clients. They win over the hints of the agent. */
  readonly annotations?: SkillAnnotations | undefined
}

const override: z.ZodType<ToolOverride> = z.strictObject({
  name: text.optional(),
  title: text.optional(),
  description: text.optional(),
  examples: texts.optional(),
  timeoutMs: ms(1).optional(),
  scopes: texts.optional(),
  cacheTtlMs: ttl.optional(),
  tasks: taskPolicy.optional(),
  annotations: z
    .strictObject({
      readOnlyHint: flag.optional(),
      destructiveHint: flag.optional(),
      idempotentHint: flag.optional(),
      openWorldHint: flag.optional(),
    })
    .optional(),
})

export interface ToolSettings {
  /**
   * Offers only tools that match, by the name of the agent, the skill or the tool. A text is compared as a whole and
   * with case; `*` stands for any text, as in `weather_*`.
   */
  readonly include: readonly string[]
  /** Leaves out tools that match. */
  readonly exclude: readonly string[]
  /** Settings of single tools, by `agent/skill`; for an agent without skills by the agent alone. */
  readonly overrides: Readonly<Record<string, ToolOverride>>
  /**
   * Parameters of tools. `message`: one text, except for graphs that cannot start from one. `schema`: the fields of the
   * skill's schema, if it has one. `auto`: the fields if they are plain, or if a typed graph has no `messages`. `examples`:
   * as `auto`, and the schema of a skill without one comes from its examples, if all are JSON objects with properties of
   * the same types.
   */
  readonly parameters: 'message' | 'schema' | 'auto' | 'examples'
  /** Which calls become tasks, for tools without an override. */
  readonly tasks: TaskPolicy
}

const tools: Shape<ToolSettings> = {
  include: texts.default([]),
  exclude: texts.default([]),
  overrides: z.record(z.string(), override, { error: 'overrides by "agent/skill"' }).default({}),
  parameters: oneOf('message', 'schema', 'auto', 'examples').default('auto'),
  tasks: taskPolicy.default('auto'),
}

export interface RunSettings {
  /**
   * `run`: each call has its own thread. `thread`: all calls of one caller (or session) to one agent are one conversation,
   * unless they name another one in the parameter `conversation`. A graph needs a checkpointer for it.
   */
  readonly mode: 'run' | 'thread'
  /** Time for which a conversation is kept after its last call. */
  readonly conversationTtlMs: number
  /** Time that a whole run may take. */
  readonly timeoutMs: number
  /** Number of runs at a time. Further calls wait for at most 30 s. */
  readonly maxConcurrent: number
  /** Number of runs of one caller at a time; of one address for callers without a name. */
  readonly maxConcurrentPerPrincipal: number
  /** Time that a paused run waits for its answer. */
  readonly needsInputTtlMs: number
}

const runs: Shape<RunSettings> = {
  mode: oneOf('run', 'thread').default('run'),
  conversationTtlMs: ttl.default(86_400_000),
  timeoutMs: ms(1).default(300_000),
  maxConcurrent: whole(1).default(64),
  maxConcurrentPerPrincipal: whole(1).default(8),
  needsInputTtlMs: ttl.default(3_600_000),
}

interface TaskSettings {
  /** Number of tasks of one caller, or of one network of callers without a name, ended ones included. Further calls become no tasks. */
  readonly maxPerPrincipal: number
}

const tasks: Shape<TaskSettings> = {
  maxPerPrincipal: whole(0).default(1000),
}

export interface StreamingSettings {
  /**
   * `progress`: to calls with a progress token. `log`: as log messages, to clients that set a level. `none`: nothing is sent
   * before the result.
   */
  readonly channel: 'progress' | 'log' | 'both' | 'none'
}

const streaming: Shape<StreamingSettings> = {
  channel: oneOf('progress', 'log', 'both', 'none').default('progress'),
}

export interface InlineSettings {
  /** Size of one file. Files other than images, sounds and texts have at most 512 KiB. */
  readonly fileMaxBytes: number
  /**
   * Size of a whole result as JSON. A longer text is cut, marked and kept as a file. Clients of the Python SDK refuse
   * 1 MiB.
   */
  readonly resultMaxBytes: number
}

const inline: Shape<InlineSettings> = {
  fileMaxBytes: size(0).default(5_242_880),
  resultMaxBytes: size(16_384).default(1_000_000),
}

export interface ArtifactSettings {
  /** Size of one file. */
  readonly maxBytes: number
  /**
   * Bytes of all files of one caller. Callers without a name are counted by address. 0: files are not kept; a result shows
   * those that fit, and names the others.
   */
  readonly quota: number
  /** Accepts files by `PUT`, and offers the parameter `files`. */
  readonly upload: boolean
}

const artifacts: Shape<ArtifactSettings> = {
  maxBytes: bytes.default(104_857_600),
  quota: size(0).default(1_073_741_824),
  upload: flag.default(true),
}

/** All settings: the checks and the defaults of `createGateway()` and of a configuration file. */
export const settingsShape: Shape<GatewaySettings> = {
  server: section(server),
  http: section(http),
  sessions: section(sessions),
  tools: section(tools),
  runs: section(runs),
  tasks: section(tasks),
  streaming: section(streaming),
  inline: section(inline),
  artifacts: section(artifacts),
  skillFolder: unset(text),
  requestsPerMinute: whole(0).default(600),
  resultTtlMs: ttl.default(86_400_000),
  stateKey: secret(
    unset(
      z.union([matching(/^.{32,}$/s, 'text of 32 bytes or more'), z.instanceof(Uint8Array)], {
        error: 'text of 32 bytes or more',
      }),
    ),
  ),
}
