import { pino } from 'pino'
import type { DebugStateLogger } from '../server/debug-state-logger.ts'
import { readableLogLine } from './readable-log.ts'
import type { Terminal } from './terminal.ts'

export type LogLevel = (typeof LOG_LEVELS)[number]
export const LOG_LEVELS = ['debug', 'info', 'warn', 'error', 'silent'] as const

export interface ServiceLogOptions {
  readonly level: LogLevel
  /** `json`: one object a line, for programs. */
  readonly format: 'json' | 'text'
}

/** The log of the service, written line by line, so that nothing is lost with a killed process. */
export function serviceLog(terminal: Terminal, options: ServiceLogOptions): DebugStateLogger {
  const write = (line: string): void =>
    terminal.write(options.format === 'text' ? readableLogLine(line, terminal) : line)
  return pino(
    {
      level: options.level,
      base: { pid: process.pid },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    { write },
  )
}
