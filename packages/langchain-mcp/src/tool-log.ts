/** Something about the tools that a person should know, and that stopped nothing. */
export interface ToolLogEntry {
  readonly level: 'info' | 'warning'
  /** Stable: filters and tests match on it. */
  readonly code:
    | 'SERVER_DISABLED' // a resource with `isEnabled: false`: no tools, no client
    | 'TOOL_MISSING' // named in the snapshot, but the server does not list it
    | 'NAME_COLLISION' // two tools had the same name; the later one got another
    | 'TOOL_REDEFINED' // its definition is not the one that was pinned; it is left out
    | 'NOBODY_ASKED' // a server asked for a person where nobody can be asked: declined
    | 'QUESTION_DECLINED' // a server did not say which call its question belongs to: declined
    | 'DEPRECATED' // a field that has a successor
    | 'RESOURCE_SKIPPED' // it could not be read
    | 'LISTENER_FAILED' // one that was told of changed tools threw
    | 'SERVER_DOWN' // it gave no list: the agent goes without its tools
    | 'SESSION_IN_MEMORY' // a session that should outlive the process cannot: no store, or no thread
    | 'SESSION_STORE_FAILED' // the graph's store could not be read or written
    | 'TOOL_QUARANTINED' // it cannot be used: the agent goes without it
    | 'SCHEMA_SIMPLIFIED' // the model is not shown all of a schema
    | 'SCHEMA_CHANGED' // the server's definition replaced a stored one that calls no longer fit
    | 'TOOL_REMOVED' // a tool that was called is not offered any more
    | 'LIST_FAILED' // a stored definition could not be compared with its server
    | 'ARGUMENT_SKIPPED' // an argument property for a place that the schema does not have
  /** One sentence for a person, without session ids, tokens and sensitive arguments. */
  readonly message: string
  /** Its slug, else its name; `'all'` and `'unnamed'` where it is no single one, or not known which. */
  readonly server: string
  /** The name on the wire, where it is about one tool. */
  readonly tool?: string | undefined
}

/** Takes what a person should know. Must not throw. */
export type ToolLog = (entry: ToolLogEntry) => void

/** The default log: warnings become warnings of the Node process, the rest is dropped. */
export function processWarnings(entry: ToolLogEntry): void {
  if (entry.level === 'warning') {
    process.emitWarning(entry.message, { type: 'McpToolWarning', code: entry.code })
  }
}
