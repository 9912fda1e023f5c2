import { check } from '@x/internal'
import type { Checks } from '@x/internal'
import type { SessionInfo } from '@x/mcp-transport'
import { clientOptionChecks } from './options.ts'
import type { McpClientOptions, PerServerOptions } from './options.ts'
import type { McpServer } from './directory/server-directory.ts'
import { McpClient } from './mcp-client.ts'
import { assertClientOptions, McpClientError } from './errors.ts'
import type { McpClientErrorCode } from './errors.ts'
import {
  closeNewestFirst,
  contextRun,
  currentRun,
  insideRun,
  outsideRun,
  Run,
} from './run-scope.ts'
import type { RunEnd } from './run-scope.ts'
import { parseServerConfig, serverLabel } from './server-config.ts'
import type { McpServerConfig } from './server-config.ts'
import { SessionInfoFactory } from './session-info-factory.ts'
import type { SessionInfoSource } from './session-info-factory.ts'
import { scopeKey } from './session-scope.ts'
import type { SessionScope } from './session-scope.ts'
import type { McpClientStatus } from './client-status.ts'

/** Whose sessions they are, beside the run's. */
export type RunlessScope = Omit<SessionScope, 'run'>

export interface SessionPoolOptions extends Omit<
  McpClientOptions,
  'scope' | 'around' | 'idleScopes'
> {
  /** Whose sessions they are; a function is asked at every call. The run is added to it. */
  readonly scope?: RunlessScope | (() => RunlessScope) | undefined
  /**
   * What becomes of a call outside a run: it is refused (`NO_RUN`), or gets a session of its own, which
   * is closed after it. Lists always do. @default false
   */
  readonly allowEphemeral?: boolean | undefined
  /** A run that is still open so long after its first call has leaked, and is ended. @default never */
  readonly runTtlMs?: number | undefined
  /** @default the timers of the process, which do not keep it alive */
  readonly clock?: RunClock | undefined
}

const { around: _around, idleScopes: _idle, ...clientChecks } = clientOptionChecks
const scopeChecks: Checks<RunlessScope> = { principal: check.string, thread: check.string }
const optionChecks: Checks<SessionPoolOptions> = {
  ...clientChecks,
  scope: check.or(check.section(scopeChecks), check.func),
  allowEphemeral: check.flag,
  runTtlMs: check.number(),
  clock: check.methods('after'),
}

export interface RunClock {
  /** Calls later; returns what calls that off. */
  after(ms: number, call: () => void): () => void
}

/** One client of the pool, whose key tells its server from others. */
interface PooledClient {
  readonly client: McpClient
  readonly server: string
  /** In how many open runs each scope is in use: runs of one id share it, and the last one closes it. */
  readonly uses: Map<string, number>
}

interface PooledSession {
  readonly of: PooledClient
  readonly scope: SessionScope
}

/**
 * Clients whose sessions belong to the run in which they are used: for each server, scope and run there is
 * one session, opened by the first call and closed at the end of the run. See `runInSessionScope()`.
 */
export class SessionPool implements AsyncDisposable {
  readonly #scope: RunlessScope | (() => RunlessScope)
  readonly #allowEphemeral: boolean
  readonly #runTtlMs: number | undefined
  readonly #clock: RunClock
  readonly #clientOptions: McpClientOptions
  readonly #detached = new DetachedSessions()
  /** Kept as long as somebody holds them, or has a session open. */
  readonly #clients = new Map<string, WeakRef<McpClient>>()
  readonly #forgotten: FinalizationRegistry<string>
  readonly #runs = new WeakMap<Run, Map<PooledClient, Set<string>>>()
  /** Those that are open, oldest first. */
  readonly #sessions = new Set<PooledSession>()
  #isClosed = false

  /** @throws McpClientError `CONFIG` for an option that is unknown or cannot be used. */
  constructor(options: SessionPoolOptions = {}) {
    assertClientOptions('SessionPool', options, { checks: optionChecks })
    const { scope = {}, allowEphemeral = false, runTtlMs, clock = systemClock, ...rest } = options
    this.#scope = scope
    this.#allowEphemeral = allowEphemeral
    this.#runTtlMs = runTtlMs
    this.#clock = clock
    // Nobody can go on with the session of a run that is over, wherever its record is kept. And sessions
    // end with their run, not before.
    const { terminateOnClose = true } = rest
    this.#clientOptions = { ...rest, terminateOnClose, idleScopes: { max: Infinity, ms: Infinity } }
    this.#forgotten = new FinalizationRegistry((key) => {
      if (this.#clients.get(key)?.deref() === undefined) this.#clients.delete(key)
    })
  }

  /**
   * The client for a server, the same one for an equal config; it opens nothing. Hold it, or acquire it
   * again, as you like. Which session serves a call is decided by the run in which the call is made:
   * outside a run, and in one that has ended, it rejects with `NO_RUN`.
   *
   * @param own options of this server, which take the place of the pool's
   * @throws McpClientError `CONFIG` for a config that names no server, or several, and for an
   * `authProvider` that serves another origin; `CLOSED` after `dispose()`.
   */
  acquire(given: McpServerConfig | string | URL, own: PerServerOptions = {}): McpClient {
    const config = parseServerConfig(given)
    if (this.#isClosed) throw closedError(own.label ?? serverLabel(config))
    const key = serverKey(config, own)
    const known = this.#clients.get(key)?.deref()
    if (known !== undefined) return known
    const client = this.#create(key, { config, own })
    this.#clients.set(key, new WeakRef(client))
    this.#forgotten.register(client, key)
    return client
  }

  /**
   * Where its clients stand, without a request: each with its sessions of all runs and scopes. One that
   * nobody holds, and that has no session, may be missing.
   */
  status(): readonly McpClientStatus[] {
    return Array.from(this.#clients.values(), (held) => held.deref()?.status()).filter(
      (status) => status !== undefined,
    )
  }

  /** Closes every session of every run, newest first, and refuses calls from now on. Never throws. */
  async dispose(): Promise<void> {
    this.#isClosed = true
    const sessions = [...this.#sessions]
    await closeNewestFirst(
      sessions.map((session) => () => this.#close(session, 'ended')),
      { onError() {} }, // a client tells of it as `log`, and never rejects
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  #create(
    server: string,
    { config, own }: { readonly config: McpServerConfig; readonly own: PerServerOptions },
  ): McpClient {
    const { sessionInfoFactory = new SessionInfoFactory() } = this.#clientOptions
    const label = own.label ?? serverLabel(config)
    const client = new McpClient(config, {
      ...this.#clientOptions,
      ...own,
      sessionInfoFactory: this.#detached.factoryFor(server, sessionInfoFactory),
      scope: () => this.#scopeOf(pooled, label),
      around: (operation, { method }) => {
        const run = currentRun()
        if (run !== undefined) return operation(run)
        const isEphemeral = !this.#isClosed && this.#mayBeEphemeral(method)
        return isEphemeral ? inRunOfItsOwn(operation) : operation()
      },
    })
    const pooled: PooledClient = { client, server, uses: new Map() }
    return client
  }

  #mayBeEphemeral(method: string): boolean {
    return this.#allowEphemeral || method.endsWith('/list')
  }

  /** Asked at every call. */
  #scopeOf(of: PooledClient, label: string): SessionScope {
    const run = contextRun()
    if (this.#isClosed) throw closedError(label)
    if (run?.isOpen !== true) throw noRun(run, label)
    const { principal, thread } = typeof this.#scope === 'function' ? this.#scope() : this.#scope
    const own = { principal, thread, run: run.id }
    this.#register(run, { of, scope: own })
    return own
  }

  #register(run: Run, session: PooledSession): void {
    const clients = this.#runs.get(run) ?? this.#watch(run)
    const { of, scope } = session
    const keys = clients.get(of) ?? new Set()
    clients.set(of, keys)
    const key = scopeKey(scope)
    if (keys.has(key)) return
    keys.add(key)
    of.uses.set(key, (of.uses.get(key) ?? 0) + 1)
    this.#sessions.add(session)
    run.defer((end) => this.#close(session, end))
  }

  #watch(run: Run): Map<PooledClient, Set<string>> {
    const clients = new Map<PooledClient, Set<string>>()
    this.#runs.set(run, clients)
    const ttlMs = this.#runTtlMs
    if (ttlMs !== undefined) {
      run.defer(outsideRun(() => this.#clock.after(ttlMs, () => void run.end())))
    }
    return clients
  }

  async #close(session: PooledSession, end: RunEnd): Promise<void> {
    if (!this.#sessions.delete(session)) return
    const { of, scope } = session
    const { client, server, uses } = of
    const key = scopeKey(scope)
    const others = (uses.get(key) ?? 1) - 1
    if (others > 0) {
      uses.set(key, others)
      return
    }
    uses.delete(key)
    // Before it is closed: a run of the same id may begin meanwhile, and must find what it can go on with.
    if (end === 'ended') this.#detached.forget(server, scope)
    else this.#detached.detach(server, scope)
    await client.dispose({ scope, ...(end === 'detached' ? { terminate: false } : {}) })
  }
}

const systemClock: RunClock = {
  after(ms, call) {
    const timer = setTimeout(call, ms).unref()
    return () => clearTimeout(timer)
  },
}

async function inRunOfItsOwn<T>(operation: () => Promise<T>): Promise<T> {
  const run = new Run({ onCloseError() {} }) // nothing but sessions is opened in it
  try {
    return await insideRun(run, operation)
  } finally {
    await run.end()
  }
}

function closedError(server: string): McpClientError {
  return poolError('CLOSED', server, { what: 'was called after its pool was disposed of' })
}

function noRun(run: Run | undefined, server: string): McpClientError {
  if (run === undefined) {
    const what = 'was called outside a run: call it inside runInSessionScope()'
    return poolError('NO_RUN', server, { what })
  }
  const { id, signal } = run
  return signal.aborted
    ? poolError('NO_RUN', server, {
        what: `was called in ${id}, which was aborted`,
        cause: signal.reason,
      })
    : poolError('NO_RUN', server, {
        what: `was called in ${id}, which has ended: await what is started in a run`,
      })
}

function poolError(
  code: McpClientErrorCode,
  server: string,
  { what, ...options }: ErrorOptions & { readonly what: string },
): McpClientError {
  return new McpClientError(code, `MCP server "${server}" ${what}`, {
    ...options,
    server,
    outcome: 'not-executed',
  })
}

/** Beyond that, what was detached first is forgotten; the server ends it in its own time. */
const MAX_DETACHED = 1000

/**
 * Where the sessions of runs that have stopped are kept until these go on in the same process, if their
 * store would forget them. What is durable is kept by its store, and not here.
 */
export class DetachedSessions {
  readonly #open = new Map<string, SessionInfo>()
  /** Those that were detached first come first. */
  readonly #detached = new Map<string, SessionInfo>()

  /** Makes what `inner` makes, or gives back what was detached in that scope. `server` tells servers apart. */
  factoryFor(server: string, inner: SessionInfoSource): SessionInfoSource {
    const opened = (key: string, info: SessionInfo): SessionInfo => {
      if (!info.durable) this.#open.set(key, info)
      return info
    }
    const createSession = (
      of: McpServer,
      scope?: SessionScope,
    ): SessionInfo | Promise<SessionInfo> => {
      const key = keyOf(server, scope)
      const info = this.#detached.get(key) ?? inner.createSession(of, scope)
      this.#detached.delete(key)
      return info instanceof Promise ? info.then((made) => opened(key, made)) : opened(key, info)
    }
    return { createSession }
  }

  /** A session is left on its server. */
  detach(server: string, scope: SessionScope): void {
    const key = keyOf(server, scope)
    const info = this.#open.get(key)
    if (info === undefined) return
    this.#open.delete(key)
    this.#detached.set(key, info)
    if (this.#detached.size <= MAX_DETACHED) return
    const [oldest = key] = this.#detached.keys()
    this.#detached.delete(oldest)
  }

  /** A session has ended. */
  forget(server: string, scope: SessionScope): void {
    this.#open.delete(keyOf(server, scope))
  }
}

function keyOf(server: string, scope: SessionScope | undefined): string {
  return JSON.stringify([server, scopeKey(scope)])
}

/**
 * Equal for configs and options that say the same, in whatever order; never for others. What is no plain
 * data, like a header function or a provider of tokens, is equal to itself alone. Holds secrets where the
 * config does: for keys only.
 */
export function serverKey(config: McpServerConfig, own: PerServerOptions = {}): string {
  const { authProvider, dispatcher, ...rest } = own
  const things = [authProvider, dispatcher].map((thing) =>
    thing === undefined ? 0 : identityOf(thing),
  )
  return JSON.stringify([canonical(config), canonical(rest), ...things])
}

/** Tagged, so that no two kinds of values look the same. */
function canonical(value: unknown): unknown {
  if (value instanceof URL) return ['text', value.href]
  if (typeof value === 'string') return ['text', value]
  if (Array.isArray(value)) return ['list', ...value.map((part: unknown) => canonical(part))]
  if (!isObject(value)) return ['value', String(value)]
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return ['thing', identityOf(value)]
  const given = Object.entries(value).filter(([, part]) => part !== undefined)
  const sorted = given.toSorted(([a], [b]) => (a < b ? -1 : 1))
  return ['record', ...sorted.map(([name, part]) => [name, canonical(part)])]
}

const identities = new WeakMap<object, number>()
let lastIdentity = 0

function identityOf(thing: object): number {
  const known = identities.get(thing)
  if (known !== undefined) return known
  identities.set(thing, ++lastIdentity)
  return lastIdentity
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}
