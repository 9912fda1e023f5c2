import { splitErrorLink } from '@x/internal'
import { errorText, redacted, stackText } from './redacted.ts'
import type { GatewayObserver } from './observer.ts'

/** Receives warnings and errors of a gateway. `console` is a logger. Entries hold no credential and no text of a user. */
export interface GatewayLogger {
  warn(message: string, details?: LogDetails): void
  error(message: string, details?: LogDetails): void
}

/**
 * Data of an entry: the error with its causes (names and messages), its stack, the run, its tool and agent, and the W3C
 * trace id of the call.
 */
export type LogDetails = Readonly<
  Partial<Record<'error' | 'stack' | 'runId' | 'tool' | 'agent' | 'traceId', string | undefined>>
>

const MAX_CHARS = 2000

/** Limit of entries per minute, because clients can cause entries, and could fill a disk. */
const MAX_PER_MINUTE = 100

/** Makes a function that returns how often it was called in this minute. */
export function minuteCounter(now: () => number = Date.now): () => number {
  let minute = 0
  let count = 0
  return () => {
    const current = Math.floor(now() / 60_000)
    count = current === minute ? count + 1 : 1
    minute = current
    return count
  }
}

/** Writes entries to standard error, because standard output may carry the protocol. Drops entries over the limit. */
export function stderrLogger(): GatewayLogger {
  const countEntry = minuteCounter()
  const entry = (level: string, message: string, details?: LogDetails): void => {
    const count = countEntry()
    if (count <= MAX_PER_MINUTE) write(level, message, details)
    else if (count === MAX_PER_MINUTE + 1) write('warn', 'More entries of this minute are left out')
  }
  return {
    warn: (message, details) => entry('warn', message, details),
    error: (message, details) => entry('error', message, details),
  }
}

function write(level: string, message: string, { stack, ...details }: LogDetails = {}): void {
  const facts = Object.keys(details).length === 0 ? '' : ` ${JSON.stringify(details)}`
  const lines = [`${new Date().toISOString()} mcp-gateway ${level}: ${message}${facts}`, stack]
  process.stderr.write(`${lines.filter((line) => line !== undefined).join('\n')}\n`)
}

/** Writes warnings, failed runs, runs without output, and runs that do not stop to a logger. */
export function loggerObserver(
  logger: GatewayLogger,
): Required<Pick<GatewayObserver, 'runEvent' | 'warned'>> {
  return {
    warned: (message, cause) => {
      const details = cause === undefined ? undefined : { error: errorText(cause) }
      const [text, link] = splitErrorLink(message)
      logger.warn(`${redacted(text).slice(0, MAX_CHARS)}${link}`, details)
    },
    runEvent: (event) => {
      const { runId, tool, agentId: agent } = event
      if (event.type === 'orphaned') {
        logger.warn('A run did not stop when it was told to', { runId, tool, agent })
      } else if (event.type === 'empty') {
        logger.warn(
          'A run finished without output. If its answer is in another part of the state of a graph, give the agent an "output" function',
          { runId, tool, agent },
        )
      } else if (event.type === 'file-lost') {
        const error = errorText(event.error)
        logger.warn('A file of a run could not be stored', { error, runId, tool, agent })
      } else if (event.type === 'failed') {
        const { error, traceId } = event
        logger.error('A run failed', {
          error: errorText(error),
          stack: stackText(error),
          runId,
          tool,
          agent,
          traceId,
        })
      }
    },
  }
}

export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'silent'
