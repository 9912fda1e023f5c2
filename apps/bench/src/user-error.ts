/** Something a user can put right: shown as one line, without a stack trace. */
export class UserError extends Error {
  override readonly name = 'UserError'
}
