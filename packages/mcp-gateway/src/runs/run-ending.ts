import type { CallToolResult } from '@modelcontextprotocol/server'

import type { Resume } from '../agents/agent-call.ts'
import type { Question } from '../agents/agent-update.ts'
import type { EarlierFiles } from '../files/result-files.ts'
import type { RunRequest } from './run-request.ts'
import type { RunTool } from '../agents/run-tool.ts'

/** How one execution of an agent ended. */
export type RunEnding =
  | {
      readonly type: 'ended'
      readonly result: CallToolResult
      /** `false`: the agent was not even asked to start. */
      readonly isStarted: boolean
    }
  | {
      readonly type: 'asked'
      readonly questions: readonly Question[]
      /** Nothing is there to go on with: the run begins anew when it is answered. @default false */
      readonly beginsAnew?: boolean | undefined
      /** Of the agent, to go on with. */
      readonly state: unknown
      /** That were made before. @default none */
      readonly files?: EarlierFiles | undefined
      /** Number of the last piece of progress: a client may see what follows as the same call. */
      readonly progress: number
    }

/** One execution of an agent: a whole run, or what follows on an answer. */
export interface RunOrder {
  readonly tool: RunTool
  readonly request: RunRequest
  readonly runId: string
  readonly resume?: Resume | undefined
  /** That it made before. @default none */
  readonly files?: EarlierFiles | undefined
  /** Number of the last piece of progress that was sent before. @default 0 */
  readonly progress?: number | undefined
}
