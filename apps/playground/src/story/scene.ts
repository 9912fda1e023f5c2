import type { StartAgentOptions } from './agent-process-handle.ts'
import type { StepResult } from './check.ts'
import type { Narrator } from './narrator.ts'
import type { World } from './world.ts'

/** What a step of the story has to do with. */
export interface Scene {
  readonly world: World
  readonly narrator: Narrator
  /** How an agent process starts. */
  readonly start: StartAgentOptions
  /** Tells what was measured, and keeps it. */
  readonly tell: (result: StepResult) => void
}
