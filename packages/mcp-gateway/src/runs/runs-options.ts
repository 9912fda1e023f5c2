import type { RunnableAgents } from '../agents/agent-source.ts'
import type { Clock } from '../internal/clock.ts'
import type { Values } from '../store/gateway-store.ts'
import type { AskingOptions } from './interrupts/asking.ts'
import type { ProgressOptions } from './progress-feed.ts'
import type { ResultFiles } from '../files/result-files.ts'
import type { RunEvent } from '../internal/run-event.ts'
import type { RunSlotsOptions } from './run-slots.ts'

export interface RunsOptions extends RunSlotsOptions, RunTimes {
  readonly agents: RunnableAgents
  /** Where runs wait for their answers. */
  readonly values: Values
  /** Without it files are named in the result, and lost. */
  readonly files?: ResultFiles | undefined
  readonly streaming?: RunStreaming | undefined
  /** `thread`: calls of one caller to one agent are one conversation. @default 'run' */
  readonly mode?: 'run' | 'thread' | undefined
  /** How long a conversation is kept after its last call. @default 86_400_000 */
  readonly threadTtlMs?: number | undefined
  /** How long runs wait for a person. */
  readonly asking?: AskingOptions | undefined
  /** Told what happens. Does not throw. */
  readonly onEvent?: ((event: RunEvent) => void) | undefined
  /** @default systemClock */
  readonly clock?: Clock | undefined
}

export interface RunTimes {
  /** Whole run, from dispatch. @default 300_000 */
  readonly timeoutMs?: number | undefined
  /** Without a word from the agent; 0: no such limit. @default 300_000 */
  readonly idleTimeoutMs?: number | undefined
  /** How long a stopped agent may take to end; then it is left behind. @default 2000 */
  readonly stopGraceMs?: number | undefined
}

export interface RunStreaming extends ProgressOptions {
  /** `false`: no progress; files and text arrive all the same. @default true */
  readonly enabled?: boolean | undefined
}

/** What of the options may change: each part takes the place of the whole part before. */
export interface RunsUpdate {
  readonly runs?: (RunSlotsOptions & RunTimes) | undefined
  readonly streaming?: RunStreaming | undefined
}
