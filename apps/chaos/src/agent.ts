import type { AgentSpec, Call, Settlement } from './protocol.ts'

/** A client under test. Each contender of the comparison implements it. */
export interface AgentClient {
  /** Makes the call and says what became of it. Never rejects. */
  call(call: Call): Promise<Omit<Settlement, 'key' | 'ms'>>
  /** Ends the sessions and frees everything. */
  close(): Promise<void>
}

/** Opens a client for one principal on one server. */
export type OpenClient = (spec: AgentSpec, principal: string) => AgentClient | Promise<AgentClient>
