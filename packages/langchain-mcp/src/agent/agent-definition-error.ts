/** What is wrong with an agent definition. Stable: callers switch on it. */
export type AgentDefinitionErrorCode = 'INVALID_DEFINITION'

export interface AgentDefinitionErrorOptions extends ErrorOptions {
  readonly path: string
  readonly source: string
}

/** An agent definition does not fit its schema. The message is one line: source, field, what was expected. */
export class AgentDefinitionError extends Error {
  override readonly name = 'AgentDefinitionError'
  readonly code: AgentDefinitionErrorCode
  /** The first field that is wrong, as a JSON path: `$.resources[0].slug`. */
  readonly path: string
  /** Where the definition came from. */
  readonly source: string

  constructor(
    code: AgentDefinitionErrorCode,
    message: string,
    options: AgentDefinitionErrorOptions,
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.code = code
    this.path = options.path
    this.source = options.source
  }
}
