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
import type { McpClientStatus } from './session-state.ts'

/** Owner of the sessions, apart from the run. */
export type RunlessScope = Omit<SessionScope, 'run'>

export interface SessionPoolOptions extends Omit<
  McpClientOptions,
  'scope' | 'around' | 'idleScopes'
> {
  /** Owner of the sessions. A function is called at every call. The pool adds the run. */
  readonly scope?: RunlessScope | (() => RunlessScope) | undefined
  /**
   * Calls outside a run get a session of their own that is closed after the call. Without this option they reject with
   * `NO_RUN`, except for lists. @default false
   */
  readonly allowEphemeral?: boolean | undefined
  /** Ends runs that are still open so many milliseconds after their first call. @default never */
  readonly runTtlMs?: number | undefined
  /** Replace it in tests. @default timers of the process, which do not keep it alive */
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
  /** Calls a function after `ms` milliseconds. Returns a function that cancels it. */
  after(ms: number, call: () => void): () => void
}

/** One client of the pool. */
interface PooledClient {
  readonly client: McpClient
  /** Key of its server: see `serverKey`. */
  readonly server: string
  /** Number of open runs that use each scope. Runs with one id share it, and the last one closes its session. */
  readonly uses: Map<string, number>
}

interface PooledSession {
  readonly of: PooledClient
  readonly scope: SessionScope
}

/**
 * Clients whose sessions belong to runs. For each server, scope and run there is one session, opened by the first call
 * and closed at the end of the run. See `runInSessionScope()`.
 */
export class SessionPool implements AsyncDisposable {
  readonly #scope: RunlessScope | (() => RunlessScope)
  readonly #allowEphemeral: boolean
  readonly #runTtlMs: number | undefined
  readonly #clock: RunClock
  readonly #clientOptions: McpClientOptions
  readonly #detached = new DetachedSessions()
  /** Weak: a client stays while the caller holds it or one of its sessions is open. */
  readonly #clients = new Map<string, WeakRef<McpClient>>()
  readonly #forgotten: FinalizationRegistry<string>
  readonly #runs = new WeakMap<Run, Map<PooledClient, Set<string>>>()
  /** Open sessions, oldest first. */
  readonly #sessions = new Set<PooledSession>()
  #isClosed = false

  /** @throws McpClientError `CONFIG` for an unknown or invalid option */
  constructor(options: SessionPoolOptions = {}) {
    assertClientOptions('SessionPool', options, { checks: optionChecks })
    const { scope = {}, allowEphemeral = false, runTtlMs, clock = systemClock, ...rest } = options
    this.#scope = scope
    this.#allowEphemeral = allowEphemeral
    this.#runTtlMs = runTtlMs
    this.#clock = clock
    // The session of a run that is over cannot be continued, even from a durable store. Sessions end with their run,
    // not before.
    const { terminateOnClose = true } = rest
    this.#clientOptions = { ...rest, terminateOnClose, idleScopes: { max: Infinity, ms: Infinity } }
    this.#forgotten = new FinalizationRegistry((key) => {
      if (this.#clients.get(key)?.deref() === undefined) this.#clients.delete(key)
    })
  }

  /**
   * Returns the client for a server; the same one for an equal config. Opens nothing. Keep the client, or acquire it
   * again. The run in which a call is made decides which session serves it. Outside a run, and in a run that has ended,
   * the call rejects with `NO_RUN`.
   *
   * @param own options for this server, instead of those of the pool
   * @throws McpClientError `CONFIG` for a config that names no server or several, and for an `authProvider` that is in
   * use for another origin; `CLOSED` after `dispose()`
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
   * Status of the clients, without a request, with their sessions in all runs and scopes. A client without sessions
   * may be missing if the caller does not hold it.
   */
  status(): readonly McpClientStatus[] {
    return Array.from(this.#clients.values(), (held) => held.deref()?.status()).filter(
      (status) => status !== undefined,
    )
  }

  /** Closes all sessions, newest first. Later calls reject. Never throws. */
  async dispose(): Promise<void> {
    this.#isClosed = true
    const sessions = [...this.#sessions]
    await closeNewestFirst(
      sessions.map((session) => () => this.#close(session, 'ended')),
      { onError() {} }, // the client logs errors and never rejects
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

  /** Returns the scope of the current call, and closes its session at the end of the run. */
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
    // Before the disposal: a run with the same id may begin during it, and must find the detached session.
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
  const run = new Run({ onCloseError() {} }) // only sessions are opened in it, and closing them never fails
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

/** Beyond this number, the oldest detached session is forgotten; the server ends it after its own time limit. */
const MAX_DETACHED = 1000

/**
 * Keeps the sessions of detached runs until these are continued in the same process. Durable sessions are not kept here,
 * because their store keeps them.
 */
export class DetachedSessions {
  readonly #open = new Map<string, SessionInfo>()
  /** Oldest first. */
  readonly #detached = new Map<string, SessionInfo>()

  /** Returns a factory that first looks for a detached session of the scope. `server` is the key of the server. */
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

  /** Keeps a session that stays on its server. */
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

  /** Removes a session that has ended. */
  forget(server: string, scope: SessionScope): void {
    this.#open.delete(keyOf(server, scope))
  }
}

function keyOf(server: string, scope: SessionScope | undefined): string {
  return JSON.stringify([server, scopeKey(scope)])
}

/**
 * Returns equal keys for equal configs and options only; the order of fields does not matter. Functions and other
 * objects, such as token providers, equal only themselves. The key contains the secrets of the config: do not log it.
 */
export function serverKey(config: McpServerConfig, own: PerServerOptions = {}): string {
  const { authProvider, dispatcher, ...rest } = own
  const things = [authProvider, dispatcher].map((thing) =>
    thing === undefined ? 0 : identityOf(thing),
  )
  return JSON.stringify([canonical(config), canonical(rest), ...things])
}

/** Adds the kind of each value, so that values of different kinds never look the same. */
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
