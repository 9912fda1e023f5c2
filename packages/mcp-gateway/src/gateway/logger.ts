import { minuteCounter, type GatewayLogger, type LogLevel } from '../internal/logger.ts'
import type { GatewayObserver, RefusedRequest } from '../internal/observer.ts'

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'] as const

/** Writes one entry of a log. */
export type LogEntries = (
  level: (typeof LEVELS)[number],
  fields: Readonly<Record<string, unknown>>,
  message?: string,
) => void

/** Fields that are never written, at any depth of an entry. */
const SECRETS: ReadonlySet<string> = new Set([
  'authorization',
  'cookie',
  'apiKey',
  'x-api-key',
  'token',
  'password',
  'secret',
  'stateKey',
])

/** Makes a log that writes one line of JSON at a time to `output`, without a buffer. */
export function gatewayLog(least: LogLevel, output: { write(line: string): void }): LogEntries {
  const written = least === 'silent' ? [] : LEVELS.slice(LEVELS.indexOf(least))
  return (level, fields, msg) => {
    if (!written.includes(level)) return
    const entry = { level, time: new Date().toISOString(), ...fields, msg }
    output.write(`${JSON.stringify(entry, censored)}\n`)
  }
}

function censored(key: string, value: unknown): unknown {
  return SECRETS.has(key) ? '[redacted]' : value
}

/** Names that clients send are cut here. No name of a tool is that long. */
const MAX_TOOL_LENGTH = 128

/** Passes warnings and errors of a gateway to this log. */
export function toGatewayLogger(log: LogEntries): GatewayLogger {
  return {
    warn: (message, details = {}) => log('warn', details, message),
    error: (message, details = {}) => log('error', details, message),
  }
}

/**
 * Writes audit lines for calls, files and refused requests, and runs and sessions at level `debug`. An audit line says
 * who did what, and the outcome. It has no argument, text, name of a file, claim or credential.
 */
export function auditObserver(log: LogEntries, now: () => number = Date.now): GatewayObserver {
  const isWritten = refusalFilter(log, now)
  return {
    callEnded: ({ principal, isAnonymous, tool, address }, end) => {
      log('info', {
        event: 'audit',
        action: 'call',
        principal,
        anonymous: isAnonymous,
        tool: printable(tool.slice(0, MAX_TOOL_LENGTH)),
        run: end.runId,
        outcome: end.outcome,
        ms: Math.round(end.durationMs),
        bytesIn: end.requestBytes,
        bytesOut: end.resultBytes,
        address,
      })
    },
    requestRefused: (refusal) => {
      const { principal, reason: outcome, status, address } = refusal
      const entry = { event: 'audit', action: 'sign_in', principal, outcome, status, address }
      log(isWritten(refusal) ? 'info' : 'debug', entry)
    },
    fileTransferred: ({ direction: action, durationMs, isAnonymous, isLinked, ...transfer }) => {
      const { principal, file, outcome, bytes, address } = transfer
      const entry = { event: 'audit', action, principal, anonymous: isAnonymous, link: isLinked }
      log('info', { ...entry, file, outcome, ms: Math.round(durationMs), bytes, address })
    },
    runEvent: (event) => {
      const { type, ...fields } = event
      if (type === 'started' || type === 'ended') log('debug', { event: 'run', ...fields }, type)
    },
    sessionOpened: () => log('debug', { event: 'session' }, 'opened'),
    sessionClosed: (end) => log('debug', { event: 'session', ...end }, 'closed'),
  }
}

/** Removes line breaks and escape sequences, which could fake another line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '�')
}

/** The first request of every client that signs in, and clients that come too often. */
const USUAL: ReadonlySet<RefusedRequest['reason']> = new Set(['no_credential', 'too_many'])
const MAX_PER_MINUTE = 60

/** Chooses the refused requests that get a line: everyone can send them without end, and would fill the log. */
function refusalFilter(log: LogEntries, now: () => number): (refusal: RefusedRequest) => boolean {
  const countRefusal = minuteCounter(now)
  return ({ reason }) => {
    if (USUAL.has(reason)) return false
    const count = countRefusal()
    if (count === MAX_PER_MINUTE + 1) {
      log('warn', {}, 'more requests are refused than are written here: metrics count all of them')
    }
    return count <= MAX_PER_MINUTE
  }
}
