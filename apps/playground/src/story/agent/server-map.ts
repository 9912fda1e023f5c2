import { isRecord } from '@x/internal'
import { UserError } from '../../user-error.ts'

/**
 * Where servers are: `{ "slug": "https://host/mcp" }`, or the `mcpServers` file of desktop clients.
 *
 * @throws UserError that names the source and the field.
 */
export function serversFrom(value: unknown, source: string): Record<string, string> {
  const map = isRecord(value) && 'mcpServers' in value ? value['mcpServers'] : value
  if (!isRecord(map)) throw new UserError(`${source}: must be an object of server name → URL`)
  return Object.fromEntries(
    Object.entries(map).map(([slug, entry]) => {
      const url = isRecord(entry) ? entry['url'] : entry
      if (typeof url !== 'string' || !/^https?:$/.test(protocolOf(url))) {
        throw new UserError(`${source}: ${slug}: must be an http(s) URL, like "https://host/mcp"`)
      }
      return [slug, url]
    }),
  )
}

function protocolOf(url: string): string {
  return URL.canParse(url) ? new URL(url).protocol : ''
}
