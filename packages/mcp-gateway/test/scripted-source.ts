import type {
  Agent,
  AgentCall,
  AgentListener,
  AgentSource,
  AgentUpdate,
  RunnableAgents,
  RunTool,
} from '../src/agents/agent.ts'
import type { Principal } from '../src/internal/principal.ts'
import {
  newRunId,
  type RunClient,
  type RunOrder,
  type RunSink,
  type ToolOutcome,
} from '../src/runs/order.ts'
import type { Calls } from '../src/runs/calls.ts'

/** What an agent of a test does: its updates, or how it comes to them. */
export type Script = (call: AgentCall) => AsyncIterable<AgentUpdate> | Iterable<AgentUpdate>

/** An agent that does what a test wrote down, and the registry that knows it. */
export class ScriptedSource implements AgentSource, RunnableAgents {
  readonly name = 'scripted'
  readonly calls: AgentCall[] = []
  readonly forgotten: unknown[] = []
  readonly forgottenThreads: string[] = []
  readonly degraded: string[] = []
  isGone = false
  readonly #script: Script

  constructor(script: Script) {
    this.#script = script
  }

  async start(): Promise<void> {}

  async *run(call: AgentCall): AsyncGenerator<AgentUpdate> {
    this.calls.push(call)
    yield* this.#script(call)
  }

  async forget(_agentId: string, state: unknown): Promise<void> {
    this.forgotten.push(state)
  }

  async forgetThread(_agentId: string, thread: string): Promise<void> {
    this.forgottenThreads.push(thread)
  }

  async close(): Promise<void> {}

  sourceOf(): AgentSource | undefined {
    return this.isGone ? undefined : this
  }

  watchedRun(source: AgentSource, call: AgentCall): AsyncIterable<AgentUpdate> {
    return source.run(call)
  }

  degrade(agentId: string): void {
    this.degraded.push(agentId)
  }
}

/** Takes the reports of a source, and does nothing. */
export const quiet: AgentListener = {
  found: () => undefined,
  seen: () => undefined,
  gone: () => undefined,
  unreachable: () => undefined,
  warned: () => undefined,
}

export const agent: Agent = {
  id: 'support',
  name: 'Support',
  description: 'Answers questions',
  skills: [],
  health: 'healthy',
}

export const tool: RunTool = {
  name: 'support',
  agent,
  skill: { id: 'support', name: '', description: 'Answers questions' },
  outputSchema: undefined,
  takesResume: true,
  checkOutput: () => undefined,
  timeoutMs: undefined,
}

export function principalNamed(id: string): Principal {
  return { id, scopes: [], isAnonymous: false, claims: {} }
}

/** A call of an agent, as the gateway makes it. */
export function agentCallOf(over: Partial<AgentCall> = {}): AgentCall {
  return {
    runId: 'run_0123456789abcdef',
    agentId: 'support',
    skillId: 'support',
    input: { kind: 'message', text: 'Hi', files: [] },
    principal: principalNamed('ada'),
    thread: undefined,
    signal: new AbortController().signal,
    trace: undefined,
    artifacts: {
      write: () => Promise.reject(new Error('no files here')),
      read: async () => undefined,
      list: async () => [],
    },
    resume: undefined,
    attempt: undefined,
    remote: undefined,
    ...over,
  }
}

/** A call, with what its client can show and its connection. */
export type CallRequest = Omit<RunOrder, 'client'> & RunClient & RunSink

export function requestOf(text: string, over: Partial<CallRequest> = {}): CallRequest {
  return {
    runId: newRunId(),
    arguments: { message: text },
    input: { kind: 'message', text },
    files: [],
    principal: principalNamed('ada'),
    scope: undefined,
    address: undefined,
    idempotencyKey: undefined,
    resume: undefined,
    trace: undefined,
    canAsk: false,
    canVisit: false,
    knowsChoices: true,
    signal: new AbortController().signal,
    progress: undefined,
    ...over,
  }
}

/** Calls a tool. Each call is a run of its own, also if a request is used twice. */
export function callRuns(
  calls: Pick<Calls, 'call'>,
  runTool: RunTool,
  request: CallRequest,
): Promise<ToolOutcome> {
  const { canAsk, canVisit, knowsChoices, signal, progress, ...order } = request
  const client = { canAsk, canVisit, knowsChoices }
  const own = { ...order, runId: newRunId(), client }
  return calls.call({ tool: runTool, order: own, sink: { signal, progress } })
}
