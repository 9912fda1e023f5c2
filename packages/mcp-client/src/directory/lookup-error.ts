import { McpClientError } from '../mcp-client-error.ts'
import type { McpClientErrorCode } from '../mcp-client-error.ts'
import type { McpServerQuery } from './server-directory.ts'

/** A lookup came to nothing; so nothing was sent to the server. */
export function lookupError(
  code: McpClientErrorCode,
  message: string,
  { server, cause }: { readonly server: string; readonly cause?: unknown },
): McpClientError {
  return new McpClientError(code, message, {
    server,
    outcome: 'not-executed',
    ...(cause === undefined ? {} : { cause }),
  })
}

/**
 * The slug or name that is asked for.
 *
 * @throws McpClientError `CONFIG` if both are given, or none.
 */
export function identifierOf({ slug, name }: McpServerQuery): string {
  const given = [slug, name].filter((part) => part !== undefined)
  const [identifier = ''] = given
  if (given.length === 1 && identifier !== '') return identifier
  const what = given.length === 2 ? 'both are given' : 'none of them is given'
  throw lookupError('CONFIG', `A server is looked up by one of slug and name: ${what}`, {
    server: identifier === '' ? '(unnamed)' : identifier,
  })
}
