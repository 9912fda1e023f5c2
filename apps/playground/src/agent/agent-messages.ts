import type { ElicitationAnswer } from '@x/langchain-mcp'
import type { Happening } from '../timeline/events.ts'

/** A run, and the conversation that it belongs to. */
export interface RunReference {
  readonly runId: string
  readonly threadId: string
}

/** Message from the host to the agent process. */
export type ToAgent =
  | ({ readonly type: 'say'; readonly text: string } & RunReference)
  /** Answers to all open questions, by their ids. */
  | ({
      readonly type: 'answer'
      readonly answers: Readonly<Record<string, ElicitationAnswer>>
    } & RunReference)
  /** Continue a run that another process has left. */
  | ({ readonly type: 'continue' } & RunReference)
  | { readonly type: 'stop-run' }
  | { readonly type: 'parallel-calls'; readonly count: number }
  /** End the sessions that end with this process, and exit. */
  | { readonly type: 'exit' }

/** Message from the agent process to the host. */
export type FromAgent = { readonly type: 'ready' } | Happening
