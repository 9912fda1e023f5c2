import { SessionInfoDebugStateFactory } from '@x/agents-debugstate'
import { SessionInfoFactory } from '@x/mcp-client'

/** Why an agent runs: tried out by its author, in production, or measured. */
export type AgentExecutionType = 'playground' | 'runtime' | 'eval'

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

export function executionTypeFrom(value: string | undefined): AgentExecutionType {
  return value === 'playground' || value === 'eval' ? value : 'runtime'
}
