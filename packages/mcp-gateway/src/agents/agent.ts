import { isRecord } from '@x/internal'

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
  /** JSON schema of its arguments. Without one, its tool takes a `message`. */
  readonly inputSchema?: JsonSchema | undefined
  /**
   * What `tools.parameters: 'auto'` gives its tool. `arguments`: always those of `inputSchema`, because the agent has no
   * other input. `message`: one text. @default arguments where `inputSchema` has plain fields only, else a message
   */
  readonly startsFrom?: 'arguments' | 'message' | undefined
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

/** The skills of an agent; for one that names none, itself. */
export function skillsOf(agent: Agent): readonly Skill[] {
  if (agent.skills.length > 0) return agent.skills
  return [{ id: agent.id, name: '', description: agent.description }]
}

/** By code units: the same in every locale. */
export function compareText(a: string, b: string): number {
  return a === b ? 0 : a < b ? -1 : 1
}
