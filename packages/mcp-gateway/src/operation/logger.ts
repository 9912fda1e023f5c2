import { redacted } from '../auth/redacted.ts'
import { errorText, stackText } from './error-text.ts'
import type { GatewayObserver } from './observer.ts'

/** Gets warnings and errors of a gateway. `console` is one. No credential and no text of a user is in an entry. */
export interface GatewayLogger {
  warn(message: string, details?: LogDetails): void
  error(message: string, details?: LogDetails): void
}

export interface LogDetails {
  /** Error and causes: names and messages. */
  readonly error?: string
  readonly stack?: string | undefined
  readonly runId?: string
  readonly tool?: string
  readonly agent?: string
  /** W3C trace id of the call. */
  readonly traceId?: string
}

const MAX_CHARS = 2000

/** Writes entries to standard error, one after the other: standard output may be the protocol's. */
export const stderrLogger: GatewayLogger = {
  warn: (message, details) => write('warn', message, details),
  error: (message, details) => write('error', message, details),
}

function write(level: string, message: string, { stack, ...details }: LogDetails = {}): void {
  const facts = Object.keys(details).length === 0 ? '' : ` ${JSON.stringify(details)}`
  const lines = [`${new Date().toISOString()} mcp-gateway ${level}: ${message}${facts}`, stack]
  process.stderr.write(`${lines.filter((line) => line !== undefined).join('\n')}\n`)
}

/** Hands warnings, failed runs, and runs that do not stop to a logger. */
export function loggerObserver(logger: GatewayLogger): Required<Told> {
  return {
    warned: (message, cause) => {
      const details = cause === undefined ? undefined : { error: errorText(cause) }
      logger.warn(redacted(message).slice(0, MAX_CHARS), details)
    },
    runEvent: (event) => {
      const { runId, tool, agentId: agent } = event
      if (event.type === 'orphaned') {
        logger.warn('A run did not stop when it was told to', { runId, tool, agent })
      } else if (event.type === 'failed') {
        const { error, traceId } = event
        logger.error('A run failed', {
          error: errorText(error),
          stack: stackText(error),
          runId,
          tool,
          agent,
          ...(traceId !== undefined && { traceId }),
        })
      }
    },
  }
}

type Told = Pick<GatewayObserver, 'runEvent' | 'warned'>
