import type { Readable, Writable } from 'node:stream'

import type { Environment } from '../config/expand-variables.ts'

/** What a command sees of its process. */
export interface CommandContext {
  readonly args: readonly string[]
  readonly env: Environment
  readonly stdin: Readable
  /** Results; over stdio the protocol's alone. */
  readonly stdout: Writable
  /** Errors and logs. */
  readonly stderr: Writable
  /** Listens to a signal of the operating system; returns the undo. */
  readonly onSignal: (signal: NodeJS.Signals, listener: () => void) => () => void
  /** Ends the process at once. */
  readonly exit: (code: number) => void
}

export interface Command {
  readonly help: string
  /** Rejects with a `CommandError`, or a GatewayError `CONFIG`, for what the user can put right. */
  readonly run: (context: CommandContext) => Promise<void>
}
