import type { Terminal } from './terminal.ts'

/** What a command sees of its process. */
export interface CommandContext {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
  /** Results. */
  readonly stdout: Terminal
  /** Errors and logs. */
  readonly stderr: Terminal
  /** Listens to a signal of the operating system; returns the undo. */
  readonly onSignal: (signal: NodeJS.Signals, listener: () => void) => () => void
  /** Ends the process at once. */
  readonly exit: (code: number) => void
}

export interface Command {
  readonly help: string
  /** Rejects with a `CommandError` for what the user can put right. */
  readonly run: (context: CommandContext) => Promise<void>
}
