import type { Terminal } from './terminal.ts'

/** A line of the structured log, for people: time, level, message, and the rest as `name=value`. */
export function readableLogLine(json: string, terminal: Terminal): string {
  const { time, level, msg, pid: _, ...fields } = fieldsFrom(json)
  const clock = terminal.paint('dim', String(time).slice(11, 19))
  const rest = Object.entries(fields).map(
    ([name, value]) => `${terminal.paint('dim', `${name}=`)}${terminal.harmless(String(value))}`,
  )
  const color = level === 'error' ? 'red' : level === 'warn' ? 'yellow' : 'green'
  const shown = terminal.paint(color, String(level).padEnd(5))
  return `${[clock, shown, String(msg), ...rest].join(' ')}\n`
}

function fieldsFrom(json: string): Readonly<Record<string, unknown>> {
  const value: unknown = JSON.parse(json)
  return typeof value === 'object' && value !== null ? { ...value } : {}
}
