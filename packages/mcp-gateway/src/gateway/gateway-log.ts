import { pino, type Logger } from 'pino'

import { auditEntry, refusalEntry, transferEntry } from './audit-entry.ts'
import { redacted } from '../internal/redacted.ts'
import type { LogLevel } from '../internal/logger.ts'
import { errorText, stackText } from '../internal/error-text.ts'
import type { GatewayObserver } from '../internal/observer.ts'
import { WrittenRefusals } from './written-refusals.ts'

export interface LogOptions {
  /** @default 'info' */
  readonly level?: LogLevel | undefined
  /** Gets one line of JSON at a time. @default standard error, without a buffer */
  readonly output?: { write(line: string): void } | undefined
}

const MAX_TEXT = 2000

/** What is never written, wherever it stands in an entry. */
const SECRETS = ['authorization', 'cookie', 'token', 'password', 'secret', 'apiKey', 'stateKey']

/** A logger that writes to standard error only: standard output may be the protocol's. */
export function gatewayLog({ level = 'info', output }: LogOptions = {}): Logger {
  const paths = SECRETS.flatMap((name) => [name, `*.${name}`, `*.*.${name}`])
  const options = {
    level,
    base: null,
    redact: { paths, censor: '[redacted]' },
    formatters: { level: (label: string) => ({ level: label }) },
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
  }
  // Without a buffer: what a process says last is what one wants to read.
  return pino(options, output ?? pino.destination({ dest: 2, sync: true }))
}

/** Writes what happens: a line of audit for each call and file, and each who did not get in; failures with their cause, oddities. */
export function logObserver(log: Logger, now?: () => number): GatewayObserver {
  const onMore = (): void => {
    log.warn('more requests are refused than are written here: metrics count all of them')
  }
  const refusals = new WrittenRefusals({ onMore, now })
  return {
    callEnded: (call, end) => {
      const { principal: id, isAnonymous, tool, address } = call
      const principal = { id, isAnonymous, scopes: [], claims: {} }
      log.info(auditEntry({ ...end, principal, tool, address }))
    },
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
