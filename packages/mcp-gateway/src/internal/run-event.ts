import type { RunFailureReason } from '../agents/run-failure.ts'

/** What happens to runs: for logs, metrics and the audit. No text, no argument and no answer is in it. */
export type RunEvent =
  | ({ readonly type: 'started' } & RunNames)
  | ({
      readonly type: 'ended'
      readonly outcome: 'done' | 'asked' | RunFailureReason
      readonly durationMs: number
    } & RunNames)
  /** Details of a failure, which the caller does not get. */
  | ({
      readonly type: 'failed'
      readonly error: unknown
      /** W3C trace id, if the call has a trace. */
      readonly traceId?: string | undefined
    } & RunNames)
  /** It was told to stop and did not: it may still be spending. */
  | ({ readonly type: 'orphaned' } & RunNames)

export interface RunNames {
  readonly runId: string
  readonly tool: string
  readonly agentId: string
  readonly skillId: string
  readonly principal: string
}
