import type { McpServer } from './mcp-server.ts'
import { FieldError, headersFrom, isRecord, textFrom, urlFrom } from './server-fields.ts'

const TEXTS = ['id', 'name', 'slug', 'description', 'version', 'folderPath', 'folderKey'] as const
/** What a program would be started with. A directory in the network gets to run none here. */
const PROGRAM = new Set(['command', 'arguments', 'environmentVariables', 'cwd'])

/**
 * A server as a directory in the network describes it: checked, with unknown fields kept, null as if it
 * was not there, and without what a program would be started with.
 *
 * @throws FieldError for a field that cannot be used
 */
export function serverFrom(answer: unknown): McpServer {
  if (!isRecord(answer)) throw new FieldError('the answer is not an object')
  const given = Object.entries(answer).filter(([key, value]) => value !== null && !PROGRAM.has(key))
  const server = Object.fromEntries(given)
  for (const field of TEXTS) if (field in server) textFrom(field, server[field])
  const { mcpUrl, headers } = server
  return {
    ...server,
    // Whether a server without URL is of use is not for the directory to say.
    mcpUrl: mcpUrl === undefined || mcpUrl === '' ? undefined : urlFrom('mcpUrl', mcpUrl),
    ...(headers === undefined ? {} : { headers: headersFrom('headers', headers) }),
  }
}
