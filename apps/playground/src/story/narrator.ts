import type { RecordingProxy } from '@x/mcp-testing'
import type { StepResult } from './check.ts'

/** A server as the timeline shows it. */
export interface FollowedServer {
  readonly slug: string
  readonly proxy: RecordingProxy
}

/** What the story tells while it happens. */
export interface Narrator {
  /** A new part of the story. `sight`: what is to be seen in it, in one line. */
  step(title: string, sight?: string): void
  says(who: 'user' | 'agent' | 'client' | 'world', text: string): void
  result(result: StepResult): void
  /** Tells each exchange with a server when it has an answer. Returns its own undo. */
  follow(server: FollowedServer): () => void
}
