import { BoundedMap, withErrorLink } from '@x/internal'

/** Something about the tools that a person should know. It never stops the agent. */
export interface ToolLogEntry {
  readonly level: 'info' | 'warning'
  /** Stable, for filters and tests. */
  readonly code:
    | 'SERVER_DISABLED' // a resource with `isEnabled: false` has no tools and no client
    | 'TOOL_MISSING' // the agent, or `tools.alwaysShow`, names a tool that no list has
    | 'NAME_COLLISION' // two tools have one name: the later one got another name, or is hidden by a tool of the agent
    | 'TOOL_REDEFINED' // the definition differs from the pinned one; the tool is left out
    | 'LANGGRAPH_UNKNOWN' // this LangGraph does not have something that is needed to judge answers without a key
    | 'NOBODY_ASKED' // a question for a person was declined, because the graph cannot be interrupted
    | 'CLIENT_WARNING' // the client of a server dropped something, or failed at something that failed no call
    | 'DEPRECATED' // a field that has a successor
    | 'LISTENER_FAILED' // a listener for changed tools threw
    | 'SERVER_DOWN' // a server gave no list; the agent goes on without its tools
    | 'SESSION_IN_MEMORY' // a session cannot outlive the process: no store, or no thread
    | 'CALL_NOT_RECORDED' // the graph's store failed before a call was sent; a killed process may repeat it
    | 'SESSION_STORE_FAILED' // the graph's store could not be read or written
    | 'SKILL_LEFT_OUT' // a skill, or all skills of a server, cannot be used
    | 'TOOL_QUARANTINED' // a tool cannot be used and is left out
    | 'TOOL_FOR_APPS' // only an app may call a tool, so the model does not get it
    | 'SCHEMA_SIMPLIFIED' // the model sees only a part of a schema
    | 'SCHEMA_CHANGED' // the server's definition replaced a stored one that calls no longer fit
    | 'TOOL_REMOVED' // the server removed a tool that was called
    | 'LIST_FAILED' // a stored definition could not be compared with its server
    | 'ARGUMENT_SKIPPED' // an argument property names a place that the schema does not have
  /** One sentence, without session ids, tokens and sensitive arguments. */
  readonly message: string
  /** Slug of the server, else its name. `'all'` for all servers, `'unnamed'` if unknown. */
  readonly server: string
  /** Name of the tool on the server, if the entry is about one tool. */
  readonly tool?: string | undefined
}

/** Receives log entries. Must not throw. */
export type ToolLog = (entry: ToolLogEntry) => void

/** The default log: emits warnings of the Node process, and drops entries of level `info`. */
export function processWarnings(entry: ToolLogEntry): void {
  if (entry.level === 'warning') {
    process.emitWarning(withErrorLink(entry.message, entry.code), {
      type: 'McpToolWarning',
      code: entry.code,
    })
  }
}

/** Codes that every reading of a list can repeat. Entries about calls are always logged. */
const LIST_CODES: ReadonlySet<ToolLogEntry['code']> = new Set<ToolLogEntry['code']>([
  'NAME_COLLISION',
  'SCHEMA_SIMPLIFIED',
  'SKILL_LEFT_OUT',
  'TOOL_FOR_APPS',
  'TOOL_MISSING',
  'TOOL_QUARANTINED',
  'TOOL_REDEFINED',
])

/** Servers choose the names in the entries, so the memory for them is limited. */
const MAX_REMEMBERED = 1000

/** Returns a log that drops repeated entries about lists: an agent may list its tools before each model call. */
export function logOnce(log: ToolLog): ToolLog {
  const logged = new BoundedMap<string, true>(MAX_REMEMBERED)
  return function once(entry) {
    if (LIST_CODES.has(entry.code)) {
      const key = JSON.stringify([entry.code, entry.server, entry.tool, entry.message])
      if (logged.has(key)) return
      logged.set(key, true)
    }
    log(entry)
  }
}
