import { hash } from 'node:crypto'
import type { McpServer, SessionInfoPurpose, SessionScope } from '@x/mcp-client'

/** A bearer token, or a function that is called before every request. `undefined` sends no token. */
export type DebugStateToken = string | (() => string | undefined | Promise<string | undefined>)

/** Address of the service, and the agent that uses it. Each field has its own default in the environment. */
export interface DebugStateConfigOptions {
  /**
   * Address of the service. It may have a path, but no query and no credentials.
   * @default DEBUGSTATE_URL
   */
  readonly baseUrl?: string | undefined
  /**
   * Id of the agent. All processes that share sessions use the same id.
   * @default DEBUGSTATE_AGENT_ID
   */
  readonly agentId?: string | undefined
  /** @default DEBUGSTATE_TOKEN */
  readonly token?: DebugStateToken | undefined
  /**
   * Reads variables of a platform where the variables above are not set. `'agenthub'`: UIPATH_URL, UIPATH_PROJECT_ID, and
   * UIPATH_ACCESS_TOKEN for the origin of UIPATH_URL only. `'none'`: no others. @default 'agenthub' where UIPATH_URL is
   * set, because only that platform sets it
   */
  readonly preset?: 'agenthub' | 'none' | undefined
}

/** A complete configuration. */
export interface DebugStateConfig {
  /** Origin of the service, such as `https://state.example`. */
  readonly origin: string
  /** Path before the agent id. Starts with a slash, and does not end with one. */
  readonly path: string
  /** Not percent-encoded. */
  readonly agentId: string
  readonly token: DebugStateToken | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/** Path between the address of the service and the agent id. */
export const PATH_PREFIX = 'agenthub_/design/debugstate'

/** Variables of AgentHub. The token was issued for the origin of `url`, and is never sent to another one. */
const AGENTHUB = {
  url: 'UIPATH_URL',
  agentId: 'UIPATH_PROJECT_ID',
  token: 'UIPATH_ACCESS_TOKEN',
} as const

/**
 * Completes options from the environment. Returns `missing`, a text for a log, if the service is not configured.
 *
 * @throws TypeError when the `baseUrl` *option* is not an http(s) URL. A wrong URL in an environment variable
 * only switches persistence off, because the caller of this code may not have set it
 */
export function resolveConfig(
  options: DebugStateConfigOptions,
  env: Environment = process.env,
): DebugStateConfig | { readonly missing: string } {
  const { preset = env[AGENTHUB.url] ? 'agenthub' : 'none' } = options
  const ofPlatform = (field: keyof typeof AGENTHUB): string | undefined =>
    preset === 'agenthub' ? env[AGENTHUB[field]] || undefined : undefined
  const agentId = options.agentId || env['DEBUGSTATE_AGENT_ID'] || ofPlatform('agentId')
  const address = options.baseUrl || env['DEBUGSTATE_URL'] || ofPlatform('url')
  if (!address) return { missing: 'no service address: set `baseUrl` or DEBUGSTATE_URL' }
  const url = parseHttpUrl(address)
  if (url === undefined) {
    if (options.baseUrl) throw new TypeError(`\`baseUrl\` must be ${ADDRESS_RULE}`)
    const name = env['DEBUGSTATE_URL'] ? 'DEBUGSTATE_URL' : AGENTHUB.url
    return { missing: `${name} must be ${ADDRESS_RULE}` }
  }
  if (!agentId) return { missing: 'no agent id: set `agentId` or DEBUGSTATE_AGENT_ID' }
  return {
    origin: url.origin,
    path: `${url.pathname.replace(/\/+$/, '')}/${PATH_PREFIX}`,
    agentId,
    token: options.token ?? (env['DEBUGSTATE_TOKEN'] || tokenFor(url)),
  }

  function tokenFor({ origin }: URL): string | undefined {
    return parseHttpUrl(ofPlatform('url') ?? '')?.origin === origin
      ? ofPlatform('token')
      : undefined
  }
}

const ADDRESS_RULE = 'an http(s) URL without query, fragment, user and password'

function parseHttpUrl(text: string): URL | undefined {
  if (!URL.canParse(text)) return undefined
  const url = new URL(text)
  const plain = !url.search && !url.hash && !url.username && !url.password
  return plain && /^https?:$/.test(url.protocol) ? url : undefined
}

/** The key of the session with one server. */
export interface DebugStateKey {
  readonly name: string
  /**
   * True if the key consists of slug and folder only. Other implementations use such keys too, so an id without a
   * record is trusted there. Keys with a digest are written by this package only, with a record.
   */
  readonly isShared: boolean
}

/**
 * Returns the key for a server: `mcpsession:{folderKey}:{slug}`, with a digest of the URL for a server without a
 * slug. If the scope has a principal, a thread or a run, `:{digest}` follows, and `:tools` for the list of tools.
 * Returns `undefined` for a server
 * with neither slug nor URL, which has no session to store.
 */
export function debugStateKey(
  server: McpServer,
  scope: SessionScope = {},
  purpose?: SessionInfoPurpose,
): DebugStateKey | undefined {
  const name = server.slug || getUrlDigest(server.mcpUrl)
  if (name === undefined) return undefined
  const owner = getScopeDigest(scope)
  const parts = ['mcpsession', server.folderKey ?? '', name, owner, purpose].filter(
    (part) => part !== undefined,
  )
  const isShared = Boolean(server.slug) && owner === undefined && purpose === undefined
  return { name: parts.join(':'), isShared }
}

/**
 * Encodes a key as one path segment. `encodeURIComponent` leaves `!'()*` as they are; other languages encode
 * them, and all must send the same bytes.
 */
export function encodeSegment(text: string): string {
  const wellFormed = Buffer.from(text).toString() // `encodeURIComponent` throws for a lone surrogate
  return encodeURIComponent(wellFormed).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
}

/** The query is part of the digest, because it may choose the tenant. User, password and fragment are not. */
function getUrlDigest(text: string | null | undefined): string | undefined {
  if (!text || !URL.canParse(text)) return undefined
  const url = new URL(text)
  url.username = ''
  url.password = ''
  url.hash = ''
  return getDigest(url.href)
}

function getScopeDigest({ principal, thread, run }: SessionScope): string | undefined {
  const parts = [principal, thread, run]
  if (parts.every((part) => part === undefined)) return undefined
  return getDigest(JSON.stringify(parts.map((part) => part ?? null)))
}

/** 128 bits of SHA-256 in hex: enough that the digests of two servers or threads never collide. */
function getDigest(text: string): string {
  return hash('sha256', text, 'hex').slice(0, 32)
}
