import { TransportError } from '@x/mcp-transport'
import type { TransportErrorCode } from '@x/mcp-transport'

/** A child failed. What it *answered* is never one of these. */
export class StdioError extends TransportError {
  /** The end of what the child wrote to its standard error, without secrets. */
  declare readonly stderr: string | undefined

  constructor(
    code: TransportErrorCode,
    message: string,
    options: ErrorOptions & { readonly stderr?: string | undefined } = {},
  ) {
    super(code, message, options)
    if (options.stderr !== undefined) this.stderr = options.stderr
  }
}

/** What a child had written before it came to this error, or to one that caused it. */
export function stderrOf(error: unknown): string | undefined {
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one instanceof StdioError && one.stderr !== undefined) return one.stderr
  }
  return undefined
}
