import { hash } from 'node:crypto'
import type { McpServer, SessionScope } from '@x/mcp-client'

/** Under which keys the session with one server is kept. */
export interface DebugStateKey {
  /** Holds the bare session id. */
  readonly id: string
  /** Holds the whole session record. */
  readonly record: string
  /**
   * True where slug and folder alone make the key. Other implementations know such keys too, so a bare
   * id found there is to be trusted; under a digest only we write, always with a record.
   */
  readonly shared: boolean
}

/**
 * `mcpsession:{folderKey}:{slug}`, or a digest of the URL in place of the slug; `:{digest}` follows when
 * the scope names a principal, a thread or a run. Gives `undefined` for a server with neither slug nor
 * URL: such a server has no session to keep.
 */
export function debugStateKey(
  server: McpServer,
  scope: SessionScope = {},
): DebugStateKey | undefined {
  const name = server.slug || urlDigest(server.mcpUrl)
  if (name === undefined) return undefined
  const owner = scopeDigest(scope)
  const id = ['mcpsession', server.folderKey ?? '', name, ...(owner ? [owner] : [])].join(':')
  return { id, record: `${id}:record`, shared: Boolean(server.slug) && owner === undefined }
}

/**
 * A key as one path segment. `encodeURIComponent` leaves `!'()*`; other languages do not, and both must
 * name the same resource byte for byte.
 */
export function encodeSegment(text: string): string {
  const wellFormed = Buffer.from(text).toString() // half a surrogate pair would throw
  return encodeURIComponent(wellFormed).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The query counts, because it may choose the tenant; user, password and fragment do not. */
function urlDigest(text: string | null | undefined): string | undefined {
  if (!text || !URL.canParse(text)) return undefined
  const url = new URL(text)
  url.username = ''
  url.password = ''
  url.hash = ''
  return digest(url.href)
}

function scopeDigest({ principal, thread, run }: SessionScope): string | undefined {
  const parts = [principal, thread, run]
  if (parts.every((part) => part === undefined)) return undefined
  return digest(JSON.stringify(parts.map((part) => part ?? null)))
}

/** 128 bits of SHA-256 in hex: no two of a user's servers or threads will ever meet. */
function digest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}
