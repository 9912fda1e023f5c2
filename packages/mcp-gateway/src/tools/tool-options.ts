import type { SkillAnnotations } from '../agents/agent.ts'
import type { CachePolicy } from './cache-policy.ts'
import type { ToolDefinition } from './tool-definition.ts'

/** Which skills become tools, and how they look. */
export interface ToolOptions {
  /**
   * Of agent name, skill name or tool name. Text is compared exactly, with case; anything that holds one of
   * `. * + ? [ ] { } ( ) ^ $ | \` is a regular expression, which is searched for. @default all
   */
  readonly include?: readonly string[] | undefined
  /** Likewise. Exact beats expression; of two that are alike, this one wins. @default none */
  readonly exclude?: readonly string[] | undefined
  readonly names?: NameOptions | undefined
  /** By `agent/skill`, each by id or name; for an agent without skills by the agent alone. */
  readonly overrides?: Readonly<Record<string, ToolOverride>> | undefined
  /** `auto`: the skill's own schema where it has named plain fields. @default 'message' */
  readonly parameters?: 'message' | 'schema' | 'auto' | undefined
  /** Properties that the gateway adds to what a tool takes, where the skill has none of that name. @default `resume` */
  readonly extras?: ExtraParameters | undefined
  /** `agents_list` and `agent_call`, beside the others or alone. @default 'off' */
  readonly metaTools?: 'off' | 'on' | 'only' | undefined
  /** Offers the examples of skills as prompts. @default true */
  readonly prompts?: boolean | undefined
  /** How long files of a run are kept, as descriptions of tools that make them say it. @default nothing is said */
  readonly artifactTtlMs?: number | undefined
  /** Tools of the gateway itself: listed to everybody, and no tool of an agent gets a name of theirs. @default none */
  readonly ownTools?: readonly ToolDefinition[] | undefined
}

export interface NameOptions {
  /** @default '{agent}_{skill}' */
  readonly pattern?: string | undefined
  /** What model providers accept, after the client has put its own prefix before it. @default 64 */
  readonly maxLength?: number | undefined
  /** Of it, what is left to that prefix. @default 16 */
  readonly reserve?: number | undefined
  /** `WeatherAgent` → `weather_agent` instead of `weatheragent`. @default false */
  readonly splitCamelCase?: boolean | undefined
  /** For so long after it was last there, a tool's name is given to no other. @default 86_400_000 */
  readonly stickyTtlMs?: number | undefined
}

export interface ToolOverride {
  readonly name?: string | undefined
  readonly title?: string | undefined
  readonly description?: string | undefined
  /** Whole run. @default that of all runs */
  readonly timeoutMs?: number | undefined
  /** Without a word from the agent. @default that of all runs */
  readonly idleTimeoutMs?: number | undefined
  /** All of which a caller needs. @default `agent:<agent id>:call` */
  readonly scopes?: readonly string[] | undefined
  /** @default nothing is cached */
  readonly cache?: CachePolicy | undefined
  /** No tool. @default false */
  readonly hidden?: boolean | undefined
  /** Over those that the agent declares. */
  readonly annotations?: SkillAnnotations | undefined
}

/** Depends on configuration only: a list must not vary by connection (specification 2026-07-28, "Tools"). */
export interface ExtraParameters {
  /** Artifacts as input. @default false */
  readonly files?: boolean | undefined
  /** The answer to a run that asked, for agents that can, and clients that cannot be asked. @default true */
  readonly resume?: boolean | undefined
  /** Where artifacts go, for callers without a name. @default false */
  readonly scope?: boolean | undefined
  /** Joins calls that are the same. @default false */
  readonly idempotencyKey?: boolean | undefined
}
