/** What is started. The README says what each is. */
export interface StartCase {
  readonly name: StartName
  /** The gateway's command; otherwise a bare server with the same graphs. */
  readonly isGateway: boolean
  /** What its agents are; a server without any answers at once. */
  readonly agents: AgentKind | undefined
  readonly count: number
}

/** `bare`: graphs as far as a gateway knows them, without a library. */
export type AgentKind = 'bare' | 'langgraph' | 'a2a'

export type StartName =
  | 'node'
  | 'graph'
  | 'node-langgraph'
  | 'langgraph'
  | 'graph-50'
  | 'langgraph-50'
  | 'a2a-50'

const MANY = 50

export const START_CASES: readonly StartCase[] = [
  { name: 'node', isGateway: false, agents: undefined, count: 0 },
  { name: 'graph', isGateway: true, agents: 'bare', count: 1 },
  { name: 'node-langgraph', isGateway: false, agents: 'langgraph', count: 1 },
  { name: 'langgraph', isGateway: true, agents: 'langgraph', count: 1 },
  { name: 'graph-50', isGateway: true, agents: 'bare', count: MANY },
  { name: 'a2a-50', isGateway: true, agents: 'a2a', count: MANY },
  { name: 'langgraph-50', isGateway: true, agents: 'langgraph', count: MANY },
]
