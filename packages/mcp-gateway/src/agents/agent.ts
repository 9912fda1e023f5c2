/** A JSON schema, 2020-12 unless it says otherwise. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** Something that answers a message: a graph in process, an A2A server, an assistant of a LangGraph server. */
export interface Agent {
  /** Unique among all sources, and the same in every process that runs this gateway. */
  readonly id: string
  /** The first part of its tools' names, before it is made fit. */
  readonly name: string
  readonly description: string
  /** What it can do. An agent without any has one skill made of itself: see `skillsOf`. */
  readonly skills: readonly Skill[]
  readonly health: AgentHealth
  /** Whether a run that asks can be continued later: a graph with a checkpointer, an A2A agent. @default true */
  readonly canAsk?: boolean | undefined
}

/** `degraded`: still listed and still called, but something was wrong with it lately. */
export type AgentHealth = 'healthy' | 'degraded'

/** One thing that an agent can do. It becomes one tool. */
export interface Skill {
  /** Unique within its agent. */
  readonly id: string
  readonly name: string
  readonly description: string
  readonly tags?: readonly string[] | undefined
  /** Messages that a user may send. */
  readonly examples?: readonly string[] | undefined
  /** MIME types */
  readonly inputModes?: readonly string[] | undefined
  /** MIME types */
  readonly outputModes?: readonly string[] | undefined
  /** Of its arguments; without one a tool takes a `message`. */
  readonly inputSchema?: JsonSchema | undefined
  /** Of the `structured` part of its result. */
  readonly outputSchema?: JsonSchema | undefined
  /** Hints for clients, as the agent itself declares them; never guessed. */
  readonly annotations?: SkillAnnotations | undefined
}

/** Specification 2026-07-28, "ToolAnnotations". */
export interface SkillAnnotations {
  readonly readOnlyHint?: boolean | undefined
  readonly destructiveHint?: boolean | undefined
  readonly idempotentHint?: boolean | undefined
  readonly openWorldHint?: boolean | undefined
}

/** The skills of an agent; for one that names none, itself. */
export function skillsOf(agent: Agent): readonly Skill[] {
  if (agent.skills.length > 0) return agent.skills
  return [{ id: agent.id, name: '', description: agent.description }]
}
