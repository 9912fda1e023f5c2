import { isRecord } from '@x/internal'
import type { McpServer } from './mcp-server.ts'
import { FieldError, headersFrom, textFrom, urlFrom } from './server-fields.ts'

const TEXTS = ['id', 'name', 'slug', 'description', 'version', 'folderPath', 'folderKey'] as const
/** Fields that a directory in the network must not set: it starts no program here and gets no secret of ours. */
const LOCAL_FIELDS = new Set([
  'command',
  'arguments',
  'environmentVariables',
  'cwd',
  'secretHeaderKeys',
  'secretEnvKeys',
  'authProvider',
])

/**
 * Checks the server that a directory in the network describes. Keeps unknown fields, drops fields that are
 * null, and drops `LOCAL_FIELDS`.
 *
 * @throws FieldError for a field that cannot be used
 */
export function serverFrom(answer: unknown): McpServer {
  if (!isRecord(answer)) throw new FieldError('the answer is not an object')
  const given = Object.entries(answer).filter(
    ([key, value]) => value !== null && !LOCAL_FIELDS.has(key),
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
