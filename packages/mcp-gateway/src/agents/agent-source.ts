import type { AgentCall } from './agent-call.ts'
import type { AgentUpdate } from './agent-update.ts'
import type { Agent } from './agent.ts'

/** Finds agents of one kind, and runs them. Ready-made: `langGraphSource()`, `langGraphServerSource()`, and `a2aSource()` of `@x/mcp-gateway-a2a`. */
export interface AgentSource {
  /** For logs and errors: `langgraph`, `a2a https://host/`. */
  readonly name: string
  /**
   * Its agents live in this process: they are there until it says that they are gone. Agents of any other
   * source expire when it has neither `found` nor `seen` them for a time. @default false
   */
  readonly isLocal?: boolean | undefined
  /**
   * Begins to look for agents, and tells of each one, those that are there at the start too. Resolves when
   * the first look is over, whether or not it found anything; what is found later is told as it is found.
   *
   * @throws if its configuration cannot be right. An agent that is only unreachable is no error: it may come.
   */
  start(listener: AgentListener): Promise<void>
  /**
   * One run of an agent. Nothing happens before the first pull. The last update is final (`isFinal`), and a
   * source that fails throws instead of it. When `call.signal` aborts, the agent is told to stop, and the
   * iteration ends by throwing the signal's reason.
   */
  run(call: AgentCall): AsyncIterable<AgentUpdate>
  /**
   * A run that asked is not continued: what was kept for it (a thread) may go. Bounded, never throws.
   * The state is the one of its `asked` update.
   */
  forget?(agentId: string, state: unknown): Promise<void>
  /** A conversation is over: what was kept under its `thread` may go. Bounded, never throws. */
  forgetThread?(agentId: string, thread: string): Promise<void>
  /** Stops looking. Runs in flight are ended by their own signals. */
  close(): Promise<void>
}

/** Where a source says what it found. Calls do not throw. */
export interface AgentListener {
  /** New or changed: the whole agent, each time. */
  found(agent: Agent): void
  /** Still there, unchanged: keeps it from expiring. */
  seen(agentId: string): void
  /**
   * It could not be looked at: shown as degraded until it is found or seen again, or expires. `reason` is for whoever
   * runs the gateway.
   */
  unreachable?(agentId: string, reason: string): void
  gone(agentId: string): void
}

/** What runs need of the registry. */
export interface RunnableAgents {
  /** What runs this agent, for a caller whose failures are counted together; `undefined`: the agent left. */
  sourceOf(agentId: string, caller?: string): AgentSource | undefined
  /** Something was wrong with it. */
  degrade(agentId: string, reason: string): void
}
