import type { McpServer } from './mcp-server.ts'
import { FieldError, headersFrom, isRecord, textFrom, urlFrom } from './server-fields.ts'

const TEXTS = ['id', 'name', 'slug', 'description', 'version', 'folderPath', 'folderKey'] as const
/** A directory in the network gets to run no program here, and none of the secrets for where it points. */
const NOT_FOR_IT_TO_SAY = new Set([
  'command',
  'arguments',
  'environmentVariables',
  'cwd',
  'secretHeaderKeys',
  'secretEnvKeys',
])

/**
 * A server as a directory in the network describes it: checked, with unknown fields kept, null as if it
 * was not there, and without what a program would be started with, or be given of our secrets.
 *
 * @throws FieldError for a field that cannot be used
 */
export function serverFrom(answer: unknown): McpServer {
  if (!isRecord(answer)) throw new FieldError('the answer is not an object')
  const given = Object.entries(answer).filter(
    ([key, value]) => value !== null && !NOT_FOR_IT_TO_SAY.has(key),
  )
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
