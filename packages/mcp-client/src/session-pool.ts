import { BoundedMap, check, isRecord } from '@x/internal'
import type { Checks } from '@x/internal'
import type { SessionInfo } from '@x/mcp-transport'
import { clientOptionChecks, scopeChecks } from './options.ts'
import type { McpClientOptions, PerServerOptions } from './options.ts'
import { createWrappedClient, type McpClient } from './mcp-client.ts'
import { LONGEST_MS } from './deadline.ts'
import { assertClientOptions, notExecuted } from './errors.ts'
import type { McpClientError } from './errors.ts'
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

export interface SessionPoolOptions extends Omit<McpClientOptions, 'scope' | 'idleScopes'> {
  /** Owner of the sessions. A function is called at every call. The pool adds the run. */
  readonly scope?: RunlessScope | (() => RunlessScope) | undefined
  /**
   * Calls outside a run get a session of their own that is closed after the call. Without this option they reject with
   * `NO_RUN`, except for lists. @default false
   */
  readonly allowEphemeral?: boolean | undefined
  /** Ends runs that are still open so many milliseconds after their first call. @default never */
  readonly runTtlMs?: number | undefined
}

const { idleScopes: _idle, ...clientChecks } = clientOptionChecks
const { run: _run, ...runlessChecks } = scopeChecks
const optionChecks: Checks<SessionPoolOptions> = {
  ...clientChecks,
  scope: check.or(check.section(runlessChecks), check.func),
  allowEphemeral: check.flag,
  runTtlMs: check.number(),
}

/** Session of one server and scope. Runs with one id share it, and the last of them closes it. */
interface PooledSession {
  readonly key: string
  readonly client: McpClient
  readonly scope: SessionScope
  readonly runs: Set<Run>
  /** Where the session is kept. Undefined before it is opened, and if that outlives this process. */
  info: SessionInfo | undefined
}

/** Beyond this number, the oldest detached session is removed; the server ends it after its own time limit. */
const MAX_DETACHED = 1000

/**
 * Clients whose sessions belong to runs. For each server, scope and run there is one session, opened by the first call
 * and closed at the end of the run. See `runInSessionScope()`.
 */
export class SessionPool implements AsyncDisposable {
  readonly #scope: RunlessScope | (() => RunlessScope)
  readonly #allowEphemeral: boolean
  readonly #runTtlMs: number | undefined
  readonly #clientOptions: McpClientOptions
  /** Weak: a client stays while the caller holds it or one of its sessions is open. */
  readonly #clients = new Map<string, WeakRef<McpClient>>()
  readonly #collected: FinalizationRegistry<string>
  /** Open sessions, oldest first. */
  readonly #sessions = new Map<string, PooledSession>()
  /** Sessions of detached runs, until these are continued in this process. A durable store keeps its own. */
  readonly #detached = new BoundedMap<string, SessionInfo>(MAX_DETACHED)
  /** Runs whose time is limited. */
  readonly #limited = new WeakSet<Run>()
  #isClosed = false

  /** @throws McpClientError `CONFIG` for an unknown or invalid option */
  constructor(options: SessionPoolOptions = {}) {
    assertClientOptions('SessionPool', options, { checks: optionChecks })
    const { scope = {}, allowEphemeral = false, runTtlMs, ...rest } = options
    this.#scope = scope
    this.#allowEphemeral = allowEphemeral
    this.#runTtlMs = runTtlMs
    // The session of a run that is over cannot be continued, even from a durable store. Sessions end with their run,
    // not before.
    const { terminateOnClose = true } = rest
    this.#clientOptions = { ...rest, terminateOnClose, idleScopes: { max: Infinity, ms: Infinity } }
    this.#collected = new FinalizationRegistry((key) => {
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
    const client = this.#create(key, config, own)
    this.#clients.set(key, new WeakRef(client))
    this.#collected.register(client, key)
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
    await closeNewestFirst(
      Array.from(this.#sessions.values(), (session) => () => this.#close(session, 'ended')),
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.dispose()
  }

  #create(server: string, config: McpServerConfig, own: PerServerOptions): McpClient {
    const { sessionInfoFactory = new SessionInfoFactory() } = this.#clientOptions
    const label = own.label ?? serverLabel(config)
    const options: McpClientOptions = {
      ...this.#clientOptions,
      ...own,
      sessionInfoFactory: this.#factoryFor(server, sessionInfoFactory),
      scope: () => this.#scopeOf(client, server, label),
    }
    const client: McpClient = createWrappedClient(config, options, (operation, { method }) => {
      const run = currentRun()
      if (run !== undefined) return operation(run)
      const mayBeEphemeral = this.#allowEphemeral || method.endsWith('/list')
      return mayBeEphemeral && !this.#isClosed ? inRunOfItsOwn(operation) : operation()
    })
    return client
  }

  /** Returns a factory that first looks for the session of a detached run. */
  #factoryFor(server: string, inner: SessionInfoSource): SessionInfoSource {
    const opened = (key: string, info: SessionInfo): SessionInfo => {
      const session = this.#sessions.get(key)
      if (session !== undefined && !info.durable) session.info = info
      return info
    }
    return {
      createSession: (of, scope) => {
        const key = sessionKey(server, scope)
        const info = this.#detached.get(key) ?? inner.createSession(of, scope)
        this.#detached.delete(key)
        return info instanceof Promise ? info.then((made) => opened(key, made)) : opened(key, info)
      },
    }
  }

  /** Returns the scope of the current call, and closes its session at the end of the run. */
  #scopeOf(client: McpClient, server: string, label: string): SessionScope {
    const run = contextRun()
    if (this.#isClosed) throw closedError(label)
    if (run?.isOpen !== true) throw noRun(run, label)
    this.#limit(run)
    const { principal, thread } = typeof this.#scope === 'function' ? this.#scope() : this.#scope
    const scope = { principal, thread, run: run.id }
    const key = sessionKey(server, scope)
    const session = this.#sessions.get(key) ?? {
      key,
      client,
      scope,
      runs: new Set(),
      info: undefined,
    }
    this.#sessions.set(key, session)
    if (!session.runs.has(run)) {
      session.runs.add(run)
      run.defer((end) => this.#endRun(session, run, end))
    }
    return scope
  }

  /** Ends a run after the time limit of this pool. */
  #limit(run: Run): void {
    if (this.#runTtlMs === undefined || this.#limited.has(run)) return
    this.#limited.add(run)
    const ms = Math.min(this.#runTtlMs, LONGEST_MS)
    const timer = outsideRun(() => setTimeout(() => void run.end(), ms).unref())
    run.defer(() => clearTimeout(timer))
  }

  async #endRun(session: PooledSession, run: Run, end: RunEnd): Promise<void> {
    session.runs.delete(run)
    if (session.runs.size === 0) await this.#close(session, end)
  }

  async #close(session: PooledSession, end: RunEnd): Promise<void> {
    const { key, client, scope, info } = session
    if (this.#sessions.get(key) !== session) return
    this.#sessions.delete(key)
    // Before the disposal: a run with the same id may begin during it, and must find the detached session.
    if (end === 'detached' && info !== undefined) this.#detached.set(key, info)
    await client.dispose({ scope, terminate: end === 'detached' ? false : undefined })
  }
}

async function inRunOfItsOwn<T>(operation: () => Promise<T>): Promise<T> {
  const run = new Run()
  try {
    return await insideRun(run, operation)
  } finally {
    await run.end()
  }
}

function closedError(server: string): McpClientError {
  const message = `MCP server "${server}" was called after its pool was disposed of`
  return notExecuted('CLOSED', message, { server })
}

function noRun(run: Run | undefined, server: string): McpClientError {
  const cause = run?.signal.aborted === true ? { cause: run.signal.reason } : {}
  const where =
    run === undefined
      ? 'outside a run: call it inside runInSessionScope()'
      : run.signal.aborted
        ? `in ${run.id}, which was aborted`
        : `in ${run.id}, which has ended: await what is started in a run`
  const message = `MCP server "${server}" was called ${where}`
  return notExecuted('NO_RUN', message, { server, ...cause })
}

function sessionKey(server: string, scope: SessionScope | undefined): string {
  return JSON.stringify([server, scopeKey(scope)])
}

/**
 * Returns equal keys for equal configs and options only; the order of fields does not matter. Functions and other
 * objects, such as token providers, equal only themselves. The key contains the secrets of the config: do not log it.
 */
export function serverKey(config: McpServerConfig, own: PerServerOptions = {}): string {
  const { authProvider, dispatcher, ...plain } = own
  const key = [config, plain, identityOf(authProvider), identityOf(dispatcher)]
  return JSON.stringify(key, (_name, value: unknown) => {
    if (typeof value === 'function') return [identityOf(value)]
    if (!isRecord(value)) return value
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) return [identityOf(value)]
    return Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
  })
}

const identities = new WeakMap<object, number>()
let lastIdentity = 0

function identityOf(thing: object | undefined): number {
  if (thing === undefined) return 0
  const identity = identities.get(thing) ?? ++lastIdentity
  identities.set(thing, identity)
  return identity
}
