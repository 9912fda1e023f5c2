import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { SessionInfoFactory } from '@x/mcp-client'
import { UserError } from '../user-error.ts'

const TYPES = ['playground', 'runtime', 'eval'] as const

/** Why an agent runs: its author tries it out, it is in production, or it is measured. */
export type AgentExecutionType = (typeof TYPES)[number]

export interface SessionOptions {
  readonly sessionInfoFactory: SessionInfoFactory
  readonly terminateOnClose: boolean
}

/**
 * In the playground sessions are kept for the next process; elsewhere they end with it. The two belong
 * together: a stored id whose session was ended is useless, a session kept without a store is a leak.
 */
export function sessionOptionsFor(type: AgentExecutionType): SessionOptions {
  return type === 'playground'
    ? { sessionInfoFactory: new SessionInfoDebugStateFactory(), terminateOnClose: false }
    : { sessionInfoFactory: new SessionInfoFactory(), terminateOnClose: true }
}

/**
 * Reads an execution type that a user has given; `source` names the option or variable.
 *
 * @throws UserError that lists the valid values
 */
export function executionTypeFrom(value: string, source: string): AgentExecutionType {
  const type = TYPES.find((known) => known === value)
  if (type !== undefined) return type
  throw new UserError(
    `${source} is ${JSON.stringify(value)}: it must be one of ${TYPES.join(', ')}`,
  )
}
