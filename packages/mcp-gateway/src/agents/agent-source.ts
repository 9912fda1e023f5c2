import type { AgentCall } from './agent-call.ts'
import type { AgentUpdate } from './agent-update.ts'
import type { Agent } from './agent.ts'

/** Finds agents of one kind, and runs them. Ready-made: `langGraphSource()`, `langGraphServerSource()`, and `a2aSource()` of `@x/mcp-gateway-a2a`. */
export interface AgentSource {
  /** For logs and errors: `langgraph`, `a2a https://host/`. */
  readonly name: string
  /**
   * Whether its agents live in this process. Then they stay until the source reports them as gone. Agents of other
   * sources expire if they are not reported as found or seen for some time. @default false
   */
  readonly isLocal?: boolean | undefined
  /**
   * Starts to look for agents, and reports each one to the listener. Resolves after the first search, also if it found
   * nothing. Later agents are reported when they are found.
   *
   * @throws if the configuration is wrong. An agent that cannot be reached is not an error, because it may come later
   */
  start(listener: AgentListener): Promise<void>
  /**
   * Runs an agent. Nothing happens before the first update is requested. The last update is final (`isFinal`); a source
   * that fails throws instead. When `call.signal` aborts, stop the agent and throw the reason of the signal.
   */
  run(call: AgentCall): AsyncIterable<AgentUpdate>
  /**
   * A run that asked will not be continued: delete what was kept for it, such as a thread. Ends within a time limit, and
   * never throws. `state` is that of the `asked` update.
   */
  forget?(agentId: string, state: unknown): Promise<void>
  /** A conversation is over: delete what was kept for its `thread`. Ends within a time limit, and never throws. */
  forgetThread?(agentId: string, thread: string): Promise<void>
  /** Stops the search for agents. Runs in flight are ended by their signals. */
  close(): Promise<void>
}

/** Takes the reports of a source. Never throws. */
export interface AgentListener {
  /** The agent is new or has changed. */
  found(agent: Agent): void
  /** The agent is unchanged. Keeps it from expiring. */
  seen(agentId: string): void
  /**
   * The agent cannot be reached. It is degraded until it is found or seen again, or expires. `reason` is for the
   * operator of the gateway.
   */
  unreachable?(agentId: string, reason: string): void
  gone(agentId: string): void
}

/** The part of the registry that runs use. */
export interface RunnableAgents {
  /** Returns the source that runs an agent for a caller. `undefined` if the agent left. */
  sourceOf(agentId: string, caller?: string): AgentSource | undefined
  /** Marks an agent as degraded. */
  degrade(agentId: string, reason: string): void
}
