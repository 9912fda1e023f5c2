import type { SkillAnnotations } from '../agents/agent.ts'
import type { CachePolicy } from './cache-policy.ts'
import type { ToolDefinition } from './tool-definition.ts'

/** Which skills become tools, and how they look. */
export interface ToolOptions {
  /**
   * Offers only what matches, by the name of its agent, skill or tool. Text is compared exactly, with case; anything
   * that holds one of `. * + ? [ ] { } ( ) ^ $ | \` is a regular expression, which is searched for.
   *
   * @default all
   */
  readonly include?: readonly string[] | undefined
  /** Leaves out what matches, likewise. Exact text wins over an expression, and of two alike `exclude` wins. @default none */
  readonly exclude?: readonly string[] | undefined
  /** How tools are called. */
  readonly names?: NameOptions | undefined
  /** What single tools have instead: by `agent/skill`, each by id or name; for an agent without skills by the agent alone. */
  readonly overrides?: Readonly<Record<string, ToolOverride>> | undefined
  /**
   * Parameters of tools. `auto`: those of the skill's own schema, where it has plain fields, and always for a graph
   * that declares its state or input with a schema and has no `messages`. `schema`: those of the skill's own schema,
   * where it has one. `message`: one text, except for graphs that cannot start from one.
   *
   * @default 'auto'
   */
  readonly parameters?: 'message' | 'schema' | 'auto' | undefined
  /** Properties that the gateway adds to what a tool takes, where the skill has none of that name. */
  readonly extras?: ExtraParameters | undefined
  /** Offers the tools `agents_list` and `agent_call`: beside the others (`on`), or alone (`only`). @default 'off' */
  readonly metaTools?: 'off' | 'on' | 'only' | undefined
  /** Offers the examples of skills as prompts. @default true */
  readonly prompts?: boolean | undefined
  /** How long files of a run are kept, as descriptions of tools that make them say it. @default nothing is said */
  readonly artifactTtlMs?: number | undefined
  /** Tools of the gateway itself: listed to everybody, and no tool of an agent gets a name of theirs. @default none */
  readonly ownTools?: readonly ToolDefinition[] | undefined
}

export interface NameOptions {
  /** Must hold `{agent}`, `{skill}`, or both. @default '{agent}_{skill}' */
  readonly pattern?: string | undefined
  /** Characters that model providers accept, with the prefix that a client puts before a name. @default 64 */
  readonly maxLength?: number | undefined
  /** How many of these are left to that prefix. @default 16 */
  readonly reserve?: number | undefined
  /** `WeatherAgent` → `weather_agent` instead of `weatheragent`. @default false */
  readonly splitCamelCase?: boolean | undefined
  /** For how many milliseconds after a tool left its name is given to no other. @default 86_400_000 */
  readonly stickyTtlMs?: number | undefined
}

export interface ToolOverride {
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
  /** How long a whole run may take, in milliseconds. @default that of all runs */
  readonly timeoutMs?: number | undefined
  /** How long the agent may be silent, in milliseconds; 0: no such limit. @default that of all runs */
  readonly idleTimeoutMs?: number | undefined
  /** A caller needs all of these. @default `agent:<agent id>:call` */
  readonly scopes?: readonly string[] | undefined
  /** Gives a result again for the same arguments. @default nothing is cached */
  readonly cache?: CachePolicy | undefined
  /** Leaves this tool out. @default false */
  readonly hidden?: boolean | undefined
  /** Win over those that the agent declares. */
  readonly annotations?: SkillAnnotations | undefined
}

/**
 * Properties that the gateway adds to what tools take. They depend on configuration only: a list must not vary by
 * connection (specification 2026-07-28, "Tools").
 */
export interface ExtraParameters {
  /** `files`: URIs of artifacts that the agent shall have. @default where files can be uploaded; without a gateway none */
  readonly files?: boolean | undefined
  /** `resume`: the answer to a question, from a client that cannot be asked directly. @default true */
  readonly resume?: boolean | undefined
  /** `scope`: where files go, for callers without a name. @default where nobody has one; without a gateway none */
  readonly scope?: boolean | undefined
  /** `idempotencyKey`: a call with the same key and arguments joins the first one, or gets its result. @default false */
  readonly idempotencyKey?: boolean | undefined
}
