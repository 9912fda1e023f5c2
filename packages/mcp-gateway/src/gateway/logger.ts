import { pino, type Logger } from 'pino'

import { callEntry, RefusalLimit, refusalEntry, transferEntry } from './audit-log.ts'
import { errorText, redacted, stackText } from '../internal/redacted.ts'
import type { LogLevel } from '../internal/logger.ts'
import type { GatewayObserver } from '../internal/observer.ts'

export interface LogOptions {
  readonly level: LogLevel
  /** Receives one line of JSON at a time. @default standard error, without a buffer */
  readonly output?: { write(line: string): void }
}

const MAX_TEXT = 2000

/** Fields that are never written, at any depth of an entry. */
const SECRETS = ['authorization', 'cookie', 'token', 'password', 'secret', 'apiKey', 'stateKey']

/** Makes a logger. It never writes to standard output, which may carry the protocol. */
export function gatewayLog({ level, output }: LogOptions): Logger {
  const paths = SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])
  const options = {
    level,
    base: null,
    redact: { paths, censor: '[redacted]' },
    formatters: { level: (label: string) => ({ level: label }) },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
  }
  // Without a buffer, because the last lines of a process are the ones that matter.
  return pino(options, output ?? pino.destination({ dest: 2, sync: true }))
}

/** Writes audit lines for calls, files and refused requests, failures with their cause, and warnings. */
export function logObserver(log: Logger, now: () => number = Date.now): GatewayObserver {
  const onLimit = (): void => {
    log.warn('more requests are refused than are written here: metrics count all of them')
  }
  const refusals = new RefusalLimit(onLimit, now)
  return {
    callEnded: (call, end) => log.info(callEntry(call, end)),
    requestRefused: (refusal) => {
      log[refusals.isWritten(refusal) ? 'info' : 'debug'](refusalEntry(refusal))
    },
    fileTransferred: (transfer) => log.info(transferEntry(transfer)),
    runEvent: (event) => {
      const { type, ...fields } = event
      if (event.type === 'failed') {
        const { runId, tool, agentId, skillId, traceId, error } = event
        const names = { runId, tool, agentId, skillId, traceId }
        const stack = stackText(error)
        log.warn({ event: 'run', ...names, error: errorText(error), stack }, type)
      } else if (type === 'orphaned') log.warn({ event: 'run', ...fields }, type)
      else log.debug({ event: 'run', ...fields }, type)
    },
    sessionOpened: () => log.debug({ event: 'session' }, 'opened'),
    sessionClosed: (end) => log.debug({ event: 'session', ...end }, 'closed'),
    listChanged: (list) => log.debug({ event: 'list', list }, 'changed'),
    warned: (message, cause) => {
      log.warn(
        cause === undefined ? {} : { error: errorText(cause) },
        redacted(message).slice(0, MAX_TEXT),
      )
    },
  }
}
