import { Listeners } from '@x/internal'
import type { ExchangeEvent } from '@x/mcp-transport'
import type { ServerLog } from './handlers.ts'
import type { SessionScope } from './session-scope.ts'

/** Events of a client. Session ids are shortened. */
export interface McpClientEvents {
  state: { readonly from: string; readonly to: string; readonly reason: string }
  /** A session replaced a lost one. State that the server kept in the old session is gone. */
  sessionReplaced: {
    readonly oldEpoch: number
    readonly newEpoch: number
    readonly oldSessionId: string | undefined
    readonly newSessionId: string | undefined
    readonly reason: string
  }
  toolsChanged: {
    readonly added: readonly string[]
    readonly removed: readonly string[]
    readonly changed: readonly string[]
  }
  log: {
    readonly level: 'debug' | 'info' | 'warning'
    readonly message: string
    readonly cause: unknown
  }
  exchange: ExchangeEvent
  /** The server reported a change of its list of tools. The next list emits `toolsChanged` with the differences. */
  toolListChanged: { readonly server: string }
  /** The list of prompts has changed; `server` as in `McpClientError`. */
  promptsChanged: { readonly server: string }
  /** The list of resources has changed. */
  resourcesChanged: { readonly server: string }
  /** A subscribed resource has changed. */
  resourceUpdated: { readonly uri: string }
  /** The server sent a log message. */
  serverLog: ServerLog
}

type EventName = keyof McpClientEvents
type LogEvent = McpClientEvents['log']

interface Emitted<Name extends EventName> {
  readonly event: Name
  readonly payload: McpClientEvents[Name]
  readonly scope: SessionScope | undefined
}

/** Events of a client. A listener that throws or rejects is reported as `log`, and the other listeners still run. */
export class ClientEvents {
  /** One list for all events and scopes: most clients have few listeners. */
  readonly #listeners: Listeners<Emitted<EventName>>
  readonly #scope: SessionScope | undefined

  constructor(parent?: ClientEvents, scope?: SessionScope) {
    this.#scope = scope
    this.#listeners = parent === undefined ? this.#createListeners() : parent.#listeners
  }

  #createListeners(): Listeners<Emitted<EventName>> {
    return new Listeners((error, { event }) => {
      if (event === 'log') return // would call the failing listener again
      this.log('warning', `A listener of the event "${event}" failed`, error)
    })
  }

  /** Returns events for the session of one scope. They go to the same listeners. */
  forScope(scope: SessionScope | undefined): ClientEvents {
    return new ClientEvents(this, scope)
  }

  /** Returns a function that removes the listener. Calling it twice is harmless. */
  on<Name extends EventName>(
    event: Name,
    listener: (payload: McpClientEvents[Name], scope: SessionScope | undefined) => void,
  ): () => void {
    return this.#listeners.add((emitted) =>
      isEvent(event, emitted) ? listener(emitted.payload, emitted.scope) : undefined,
    )
  }

  /** False if there are no listeners: then an expensive payload need not be created. */
  get hasListeners(): boolean {
    return !this.#listeners.isEmpty
  }

  emit<Name extends EventName>(event: Name, payload: McpClientEvents[Name]): void {
    this.#listeners.emit({ event, payload, scope: this.#scope })
  }

  log(level: LogEvent['level'], message: string, cause?: unknown): void {
    this.emit('log', { level, message, cause })
  }
}

function isEvent<Name extends EventName>(
  event: Name,
  emitted: Emitted<EventName>,
): emitted is Emitted<Name> {
  return emitted.event === event
}

/** Logger like `pino`: each method takes fields, then the message. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Writes the events of a client to a logger. The cause of a log event becomes the field `err`. */
export function logTo(logger: Logger, events: ClientEvents, server: string): void {
  const fieldsOf = (scope: SessionScope | undefined): object =>
    scope === undefined ? { server } : { server, scope }
  events.on('log', ({ level, message, cause }, scope) => {
    const fields = { ...fieldsOf(scope), ...(cause === undefined ? {} : { err: cause }) }
    if (level === 'warning') logger.warn(fields, message)
    else logger[level](fields, message)
  })
  events.on('state', ({ from, to, reason }, scope) => {
    logger.debug({ ...fieldsOf(scope), from, to }, `${from} → ${to}: ${reason}`)
  })
  events.on('sessionReplaced', ({ reason, ...session }, scope) => {
    logger.info({ ...fieldsOf(scope), ...session }, `New session: ${reason}`)
  })
  events.on('serverLog', ({ level, logger: name, data }, scope) => {
    const message = typeof data === 'string' ? data : 'Log message of the server'
    const fields = {
      ...fieldsOf(scope),
      level,
      ...(name === undefined ? {} : { logger: name }),
      data,
    }
    logger[METHODS[level]](fields, message)
  })
}

const METHODS = {
  debug: 'debug',
  info: 'info',
  notice: 'info',
  warning: 'warn',
  error: 'error',
  critical: 'error',
  alert: 'error',
  emergency: 'error',
} as const satisfies Record<ServerLog['level'], keyof Logger>
