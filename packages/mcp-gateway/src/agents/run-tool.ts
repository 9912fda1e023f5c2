import type { Agent, JsonSchema, Skill } from './agent.ts'

/** What a run has to know of the tool that was called. A planned tool is one. */
export interface RunTool {
  /** Of the tool, as clients call it. */
  readonly name: string
  readonly agent: Agent
  readonly skill: Skill
  /** Of its structured output, if it promises any. */
  readonly outputSchema?: JsonSchema | undefined
  /** Why such output is not as promised; `undefined`: it is. */
  readonly checkOutput?: ((structured: unknown) => string | undefined) | undefined
  /** Whole run, from dispatch. @default that of all runs */
  readonly timeoutMs?: number | undefined
  /** Without a word from the agent; 0: no such limit. @default that of all runs */
  readonly idleTimeoutMs?: number | undefined
}
