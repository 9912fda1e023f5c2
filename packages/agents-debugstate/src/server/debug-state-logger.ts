/** Writes one line of a structured log. */
export type WriteLog = (fields: Readonly<Record<string, unknown>>, message: string) => void

/**
 * Where the service writes what it does; a pino logger fits. It is never given a value, a token or a whole
 * key: a key is told by its digest, `sha256:` and 12 hex digits.
 */
export interface DebugStateLogger {
  /** Requests for the health of the service. */
  debug: WriteLog
  /** Start, stop, and each request. */
  info: WriteLog
  /** What somebody should look at, and the service can live with. */
  warn: WriteLog
  /** Failures of the store. */
  error: WriteLog
}

/** An error as it stands in a log: what it says, without a stack. */
export function errorFields(error: unknown): Readonly<Record<string, unknown>> {
  if (!(error instanceof Error)) return { error: String(error) }
  const { message, cause } = error
  return {
    error: message,
    ...('code' in error ? { code: error.code } : {}),
    ...(cause instanceof Error && !message.includes(cause.message) ? { cause: cause.message } : {}),
  }
}
