/** Something a user can put right: shown as one line, without a stack. */
export class CommandError extends Error {
  override readonly name: string = 'CommandError'
  /** Of the process. 2: the command line was wrong; 1: anything else. */
  readonly exitCode: 1 | 2 = 1
}

/** The command line was wrong. */
export class UsageError extends CommandError {
  override readonly name = 'UsageError'
  override readonly exitCode = 2
}

/** What went wrong, in one line for people. */
export function lineFrom(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.trim().replace(/\s*\n\s*/g, ' ')
}
