import type { ToolLog, ToolLogEntry } from '../tool-log.ts'

/** What a list says of its tools. Calls of them are told each time. */
const OF_LISTS: ReadonlySet<ToolLogEntry['code']> = new Set<ToolLogEntry['code']>([
  'NAME_COLLISION',
  'SCHEMA_SIMPLIFIED',
  'TOOL_QUARANTINED',
  'TOOL_REDEFINED',
])

/** Servers choose the words: there must be an end to what is remembered of them. */
const MAX_REMEMBERED = 1000

/** A log that hears the same of the same tool once: an agent may list its tools before each call of its model. */
export function toldOnce(log: ToolLog): ToolLog {
  const told = new Set<string>()
  return function once(entry) {
    if (OF_LISTS.has(entry.code)) {
      const key = JSON.stringify([entry.code, entry.server, entry.tool, entry.message])
      if (told.has(key)) return
      if (told.size >= MAX_REMEMBERED) told.clear()
      told.add(key)
    }
    log(entry)
  }
}
