import type { ContentBlock } from '@modelcontextprotocol/server'

import type { Principal } from '../auth/principal.ts'
import type { ArtifactWriter } from './agent-call.ts'

/** Keeps the files that runs make, and shows them in results. */
export interface ResultFiles {
  /** For one run, before its agent starts. Does nothing until the first file. */
  open(run: ResultFilesContext): RunFiles
}

export interface ResultFilesContext {
  readonly runId: string
  readonly agentId: string
  readonly principal: Principal
  /** @default made with the first file */
  readonly scope?: string | undefined
  /** Of the session, for callers without a name that have one. */
  readonly sessionScope?: string | undefined
  /** Of the network: files of callers without a name are counted by it. */
  readonly address?: string | undefined
  readonly clientName?: string | undefined
  readonly signal: AbortSignal
}

/** The files of one run, in the order in which they appeared. */
export interface RunFiles extends ArtifactWriter {
  /** What the result shows of them: within the limits inline, else links. */
  blocks(): Promise<readonly ContentBlock[]>
}
