import { isRecord } from '@x/internal'
import type { AgentArtifacts, InputFile, OutputFile } from '../files/result-files.ts'
import type { Principal } from '../internal/principal.ts'
import type { ModelUsage, RunFailureReason } from '../internal/run-event.ts'
import type { UserCredentials } from '../internal/user-credentials.ts'

/** A JSON schema, 2020-12 unless it says otherwise. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Something that answers a message: a graph in process, an A2A server, an assistant of a LangGraph server. */
export interface Agent {
  /** Unique among all sources, and the same in every process that runs this gateway. */
  readonly id: string
  /** The names of its tools begin with this name, reduced to the characters that are allowed. */
  readonly name: string
  readonly description: string
  /** Each skill becomes a tool. An agent without skills becomes one tool: see `skillsOf`. */
  readonly skills: readonly Skill[]
  readonly health: AgentHealth
  /** Whether a run that asks can be continued later: a graph with a checkpointer, an A2A agent. @default true */
  readonly canAsk?: boolean | undefined
  /** `false`: its calls share nothing, such as those of a graph without a checkpointer, so callers cannot name conversations. @default true */
  readonly keepsThreads?: boolean | undefined
  /** `true` if another process can continue the runs of a process that died: a graph whose checkpointer all processes share. @default false */
  readonly canContinue?: boolean | undefined
  /** User interface of its tools. @default none */
  readonly ui?: ToolUi | undefined
}

/** `degraded`: the agent had an error lately. It is still listed and called. */
export type AgentHealth = 'healthy' | 'degraded'

/** One thing that an agent can do. It becomes one tool. */
export interface Skill {
  /** Unique within its agent. */
  readonly id: string
  readonly name: string
  readonly description: string
  readonly tags?: readonly string[] | undefined
  /** Messages that a user may send. In a prompt, `{city}` is an argument: the user fills it in. */
  readonly examples?: readonly string[] | undefined
  /** MIME types */
  readonly inputModes?: readonly string[] | undefined
  /** MIME types */
  readonly outputModes?: readonly string[] | undefined
  /** JSON schema of its arguments. Without one, its tool takes a `message`. */
  readonly inputSchema?: JsonSchema | undefined
  /**
   * Parameters of the tool with `tools.parameters: 'auto'`. `arguments`: the properties of `inputSchema`, because the
   * agent has no other input. `message`: one text. @default arguments if `inputSchema` has plain fields only, else a message
   */
  readonly startsFrom?: 'arguments' | 'message' | undefined
  /**
   * Returns whether the agent takes a value for a property that `inputSchema` refuses, such as a text that it turns into a
   * number. @default the schema decides
   */
  readonly takes?: ((property: string, value: unknown) => boolean) | undefined
  /** JSON schema of what a caller may give beside the input, in the parameter `context`. @default nothing */
  readonly contextSchema?: JsonSchema | undefined
  /** JSON schema of the `structured` part of its result. */
  readonly outputSchema?: JsonSchema | undefined
  /** Hints for clients, as the agent declares them. */
  readonly annotations?: SkillAnnotations | undefined
  /** User interface of its tool. @default that of the agent */
  readonly ui?: ToolUi | undefined
}

/** Specification 2026-07-28, "ToolAnnotations". */
export interface SkillAnnotations {
  /** The tool changes nothing. */
  readonly readOnlyHint?: boolean | undefined
  /** The tool may delete or overwrite. */
  readonly destructiveHint?: boolean | undefined
  /** A second call with the same arguments changes nothing more. */
  readonly idempotentHint?: boolean | undefined
  /** The tool reaches systems outside its own. */
  readonly openWorldHint?: boolean | undefined
}

/**
 * Returns the property that holds the text of a message, where that property is enough for a call: `message` or
 * `input`, or the only text. `undefined` if there is none, or if the schema requires more.
 */
export function messageFieldOf({ properties, required }: JsonSchema): string | undefined {
  if (!isRecord(properties)) return undefined
  const texts = Object.keys(properties).filter((name) => {
    const property = properties[name]
    return isRecord(property) && property['type'] === 'string'
  })
  const named = texts.find((name) => name === 'message' || name === 'input')
  const field = named ?? (texts.length === 1 ? texts[0] : undefined)
  const others = Array.isArray(required) ? required.filter((name) => name !== field) : []
  return others.length === 0 ? field : undefined
}

/**
 * Returns the skills of an agent. An agent without skills is its own skill.
 *
 * @example
 * ```ts
 * import { createGateway, skillsOf } from '@x/mcp-gateway'
 *
 * const { registry } = createGateway({})
 * for (const agent of registry.agents()) console.log(skillsOf(agent).map(({ id }) => id))
 * ```
 */
export function skillsOf(agent: Agent): readonly Skill[] {
  if (agent.skills.length > 0) return agent.skills
  return [{ id: agent.id, name: '', description: agent.description }]
}

/** Compares by code units, so that the order is the same in every locale. */
export function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}

/** One call of an agent, and what the agent may know about the caller. A new object for each call. */
export interface AgentCall {
  /** `run_` and 16 hex digits. */
  readonly runId: string
  readonly agentId: string
  readonly skillId: string
  readonly input: AgentInput
  /** The parameter `context` of the tool, checked with `contextSchema` of the skill. @default none */
  readonly context?: Readonly<Record<string, unknown>> | undefined
  readonly principal: Principal
  /**
   * Gets tokens for other servers in the name of the caller. Keep it out of all that is stored. `undefined`: the gateway has
   * no `credentials`, the caller no token, or the run is executed in another process than that of its request.
   */
  readonly credentials?: UserCredentials | undefined
  /**
   * Conversation that the call continues, a UUID. The agent knows the earlier messages of it, and keeps the new ones.
   * `undefined`: no conversation, and nothing is kept.
   */
  readonly thread: string | undefined
  /** Aborts when the caller cancels, a limit is reached, or the gateway stops. */
  readonly signal: AbortSignal
  /** W3C trace context of the caller. Pass it on. */
  readonly trace: Readonly<Record<string, string>> | undefined
  /** Writes files of the run, beside those that come as updates, and reads files that the agent wrote before. */
  readonly artifacts: AgentArtifacts
  /** Continues a run that asked, instead of starting one. */
  readonly resume: Resume | undefined
  /**
   * Number of the execution of this run, from 1, if an engine executes it. From 2 on, an earlier process has died or was
   * stopped within the run: continue from what it has stored. `undefined`: the run ends with its process.
   */
  readonly attempt: number | undefined
  /**
   * Set if the call may outlive this process: the server of the agent should continue the run when this process leaves.
   * `undefined`: the run ends with the call.
   */
  readonly remote: RemoteRun | undefined
}

/** A run at the server of its agent, which any process can join. */
export interface RemoteRun {
  /** State that an earlier process has stored for this run: join it, and start no other. @default a new run */
  readonly joined: unknown
  /** Stores what another process needs to join the run (JSON), once it is known. Resolves when it is stored. */
  store(state: unknown): Promise<void>
  /** Returns whether this process still has the run. Another one may have joined it while this one was frozen: delete nothing then. */
  isOwn(): Promise<boolean>
  /** Returns whether another process joins the run after `signal` has aborted: leave the run as it is then. */
  isLeft(): boolean
}

export type AgentInput = CheckedInput & {
  /** Files of the caller. */
  readonly files: readonly InputFile[]
}

export type CheckedInput =
  /** Text of the caller. */
  | { readonly kind: 'message'; readonly text: string }
  /** Arguments that were checked with the schema of the skill. */
  | { readonly kind: 'arguments'; readonly value: Readonly<Record<string, unknown>> }

export interface Resume {
  /** The state of the `asked` update. JSON. */
  readonly state: unknown
  /** Answers by the ids of their questions. */
  readonly answers: Readonly<Record<string, Answer>>
}

/** Reaction of a person to a question (specification 2026-07-28, "ElicitResult"). */
export type Answer =
  | { readonly action: 'accept'; readonly content: Readonly<Record<string, unknown>> }
  | { readonly action: 'decline' | 'cancel' }

/** One update of a run. All kinds of agents have the same updates. */
export type AgentUpdate =
  /** The next piece of the answer. It may be empty. `usage`: tokens that were not reported before. */
  | { readonly type: 'text'; readonly text: string; readonly usage?: ModelUsage | undefined }
  /** One short line about what the agent does now. */
  | { readonly type: 'status'; readonly text: string }
  | { readonly type: 'file'; readonly file: OutputFile }
  | FinalUpdate

/** The addresses of user interfaces begin with this. */
export const UI_SCHEME = 'ui://'

/** A user interface for one answer (MCP Apps, SEP-1865). A host shows it; it is not for the model. */
export interface AnswerUi {
  /** `ui://…` */
  readonly resourceUri: string
  /** The page as HTML. */
  readonly page: string
  /** `_meta.ui` of the page, such as `csp` and `permissions`. @default none */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
}

/** A user interface for all answers of a tool. Hosts find it in the list of tools, and read the page as a resource. */
export interface ToolUi extends AnswerUi {
  /** Who may call the tool. @default both */
  readonly visibility?: readonly ('model' | 'app')[] | undefined
}

/** The end of a run. */
export type FinalUpdate =
  /** `text`: the whole answer, if it differs from the pieces. */
  | {
      readonly type: 'done'
      readonly text?: string | undefined
      readonly structured?: Readonly<Record<string, unknown>> | undefined
      readonly ui?: AnswerUi | undefined
    }
  /** The run needs an answer of a person. `state` (JSON) continues it in any process that can reach the agent. */
  | { readonly type: 'asked'; readonly questions: readonly Question[]; readonly state: unknown }
  /**
   * The agent reports that it failed, or refuses. `reason` may be shown to the caller. `isCancelled`: the run was stopped
   * at the agent, which works. `isUnknown`: the server of the agent does not know the run any more. @default false
   */
  | {
      readonly type: 'failed'
      readonly reason: string
      readonly isCancelled?: boolean | undefined
      readonly isUnknown?: boolean | undefined
    }
  /**
   * A person has to sign in at a web page first. `state` (JSON) continues the run after that; without it the caller
   * calls again. A continued run may ask again if the person did not sign in.
   */
  | {
      readonly type: 'authorization'
      /** @default unknown */
      readonly url?: string | undefined
      readonly reason?: string | undefined
      readonly state?: unknown
    }

/** A question of a run. */
export interface Question {
  /** Unique within its run. */
  readonly id: string
  readonly message: string
  /** Schema of the answer, as the agent sent it. */
  readonly schema?: JsonSchema | undefined
  /** A page to visit instead of a form. The answer is only whether the person went there. */
  readonly url?: string | undefined
  /** `true`: the agent gets the answer if a person declines or cancels. `false`: that ends the run. @default false */
  readonly takesRefusal?: boolean | undefined
  /** Asked in the answer to the call, before the call can become a task: the agent has done no work yet. @default false */
  readonly isBeforeTask?: boolean | undefined
}

/**
 * Returns true for the last update of a run: its result, its failure or its question.
 *
 * @example
 * ```ts
 * import { isFinal } from '@x/mcp-gateway'
 *
 * isFinal({ type: 'text', text: 'Looking' }) // false: the run continues
 * isFinal({ type: 'done' }) // true
 * ```
 */
export function isFinal(update: AgentUpdate): update is FinalUpdate {
  return update.type !== 'text' && update.type !== 'status' && update.type !== 'file'
}

/** Finds agents of one kind, and runs them. Ready-made: `langGraphSource()`, `langGraphServerSource()`, and `a2aSource()` of `@x/mcp-gateway-a2a`. */
export interface AgentSource {
  /** For logs and errors: `langgraph`, `a2a https://host/`. */
  readonly name: string
  /**
   * `true` for agents in this process. They stay until the source reports them as gone. Agents of other sources
   * expire after some time without a report. @default false
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
   * A run that asked, or that is left at the server of its agent, will not be continued: stop it, and delete what was kept
   * for it, such as a thread. Ends within a time limit, and never throws. `state` is that of the `asked` update, or of
   * `RemoteRun`.
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
  unreachable(agentId: string, reason: string): void
  gone(agentId: string): void
  /** Writes a warning to the log of the gateway. It contains no text of a user and no credential. */
  warned(message: string, cause?: unknown): void
}

/** The part of the registry that runs use. */
export interface RunnableAgents {
  /** Returns the source of an agent. `undefined` if the agent left. */
  sourceOf(agentId: string): AgentSource | undefined
  /** Runs an agent. It is degraded after five failed runs in a row. @throws what the source throws */
  watchedRun(source: AgentSource, call: AgentCall): AsyncIterable<AgentUpdate>
  /** Marks an agent as degraded until one of its runs succeeds. */
  degrade(agentId: string, reason: string): void
}

interface RunFailureOptions extends ErrorOptions {
  readonly retryAfterMs?: number | undefined
  /** @default true */
  readonly isStarted?: boolean | undefined
}

/** A run that ended without an answer. The caller sees the message, so it contains no internal detail. */
export class RunFailure extends Error {
  override readonly name = 'RunFailure'
  readonly reason: RunFailureReason
  readonly retryAfterMs: number | undefined
  /** `false`: the agent did not get the call, so the same call or answer can be given again. */
  readonly isStarted: boolean

  constructor(reason: RunFailureReason, message: string, options: RunFailureOptions = {}) {
    super(message, options)
    this.reason = reason
    this.retryAfterMs = options.retryAfterMs
    this.isStarted = options.isStarted ?? true
  }
}

/** The parts of a planned tool that a run needs. */
export interface RunTool {
  /** Name by which clients call the tool. */
  readonly name: string
  readonly agent: Agent
  readonly skill: Skill
  /** The tool has the parameter `resume`, with which a model answers questions. */
  readonly takesResume: boolean
  /** JSON schema of the structured result. `undefined`: the tool promises none. */
  readonly outputSchema: JsonSchema | undefined
  /** Returns why a structured result does not match `outputSchema`. `undefined` if it matches, or without a schema. */
  readonly checkOutput: (structured: unknown) => string | undefined
  /** Milliseconds for the whole run. `undefined`: the setting of all runs. */
  readonly timeoutMs: number | undefined
}
