/** Something a user can put right: shown as it is, without a stack. */
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
