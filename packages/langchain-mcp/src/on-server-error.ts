import { McpClientError } from '@x/mcp-client'
import type { ToolLog } from './tool-log.ts'
import { serverTitle, type McpServerLabel } from './tool-origin.ts'

/**
 * What becomes of a server that gives no list of its tools: `'skip'` goes on without it, `'throw'` rejects
 * with the reason; a function is told, and what it throws is what is rejected with.
 */
export type OnServerError =
  | 'skip'
  | 'throw'
  | ((error: unknown, server: McpServerLabel) => void | Promise<void>)

/** Characters of a program's standard error in a warning. */
const MAX_STDERR = 500

/** Goes on without a server, and says so. @throws where that is not wanted */
export async function skipServer(
  error: unknown,
  { server, onServerError = 'skip', log, next }: SkipOptions,
): Promise<void> {
  if (onServerError === 'throw') throw error
  if (onServerError !== 'skip') return onServerError(error, server)
  const title = serverTitle(server)
  const reason = error instanceof Error ? error.message : String(error)
  const stderr = McpClientError.is(error) ? error.stderr : undefined
  const wrote = stderr === undefined ? '' : ` Its standard error: ${stderr.slice(-MAX_STDERR)}.`
  log({
    level: 'warning',
    code: 'SERVER_DOWN',
    message: `MCP server "${title}" is left out, because it gave no list of its tools: ${reason}.${wrote} ${next}`,
    server: title,
  })
}

interface SkipOptions {
  readonly server: McpServerLabel
  readonly onServerError: OnServerError | undefined
  readonly log: ToolLog
  /** When it is asked again, as a sentence. */
  readonly next: string
}
