import type { ClientEvents } from '../events.ts'
import type { ServerLog } from '../handlers.ts'
import type { SessionScope } from '../session-scope.ts'

/** What `pino` and loggers like it have in common: fields first, then the message. */
export interface Logger {
  debug(fields: object, message: string): void
  info(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

/** Hands on what a client tells; the error of an entry as `err`. Session ids in it are shortened already. */
export function logTo(logger: Logger, events: ClientEvents, server: string): void {
  const about = (scope: SessionScope | undefined): object =>
    scope === undefined ? { server } : { server, scope }
  events.on('log', ({ level, message, cause }, scope) => {
    const fields = { ...about(scope), ...(cause === undefined ? {} : { err: cause }) }
    if (level === 'warning') logger.warn(fields, message)
    else logger[level](fields, message)
  })
  events.on('state', ({ from, to, reason }, scope) => {
    logger.debug({ ...about(scope), from, to }, `${from} → ${to}: ${reason}`)
  })
  events.on('sessionReplaced', ({ reason, ...session }, scope) => {
    logger.info({ ...about(scope), ...session }, `A new session: ${reason}`)
  })
  events.on('serverLog', ({ level, logger: name, data }, scope) => {
    const message = typeof data === 'string' ? data : 'A message of the server'
    const fields = { ...about(scope), level, ...(name === undefined ? {} : { logger: name }), data }
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
