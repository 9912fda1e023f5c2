/** Something a user can put right: shown as one line, without a stack trace. */
export class UserError extends Error {
  override readonly name = 'UserError'
}

/** One line that says what went wrong, for people. */
export function lineFrom(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error)
  return text.trim().replace(/\s*\n\s*/g, ' ')
}
