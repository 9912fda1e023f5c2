import { isRecord, isSessionId, isVisibleAscii } from '@x/internal'
import { TransportError } from './transport-error.ts'
import type { OpeningError } from './transport-error.ts'

/** `legacy`: the MCP revisions with sessions. `modern`: the stateless revision 2026-07-28. */
export type Era = 'legacy' | 'modern'

/** What a server says about itself. Unknown fields are kept. */
interface ServerDescription {
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly instructions?: string | undefined
  readonly [key: string]: unknown
}

/** Result of `initialize`. */
export interface InitializeResult extends ServerDescription {
  readonly protocolVersion: string
  readonly serverInfo: { readonly name: string; readonly version: string }
}

/** Result of `server/discover` (2026-07-28, server/discover). */
export interface DiscoverResult extends ServerDescription {
  readonly supportedVersions: readonly string[]
}

/**
 * Everything needed to continue with a server without a handshake. JSON; the field names are public. Its size
 * depends on the server's description of itself: a store with a limit must document it.
 *
 * A record belongs to one server URL and one principal, and is never used for another. When a session is lost,
 * its fields are removed and the others stay, such as the era.
 */
export interface SessionRecord {
  /** Version of the format. A record with another version is ignored and not changed. */
  readonly v: 1
  /** The endpoint without credentials. A digest replaces the query, because the query may hold a token. */
  readonly serverUrl: string
  /**
   * Name of the user or service that the credentials belong to. Given by the caller, never derived from a
   * token.
   */
  readonly principal?: string | undefined
  readonly era: Era
  /** Time when the era was detected, ISO 8601. */
  readonly eraCheckedAt: string
  /** Generation of the session with this server, from 1. */
  readonly epoch: number
  /** Value of the `Mcp-Session-Id` header. Absent if the server has no sessions. */
  readonly sessionId?: string | undefined
  /** The negotiated version. Needed in every request; later answers do not contain it. */
  readonly protocolVersion?: string | undefined
  readonly initializeResult?: InitializeResult | undefined
  /** Result of `server/discover` of a modern server. */
  readonly discoverResult?: DiscoverResult | undefined
  /** Tool arguments that are also sent as headers (modern servers), by tool name. */
  readonly toolHeaders?: ToolHeaderMap | undefined
  /** Digest of the client's `initialize` parameters. The session is valid only for these capabilities. */
  readonly initializeParamsHash?: string | undefined
  /** The list of tools, for the next process. At most 256 KiB of JSON: a longer list is not stored. */
  readonly tools?: StoredTools | undefined
  /** ISO 8601. */
  readonly createdAt: string
  /** ISO 8601. */
  readonly updatedAt: string
}

/** The tools of a server, as a client has read them last. */
export interface StoredTools {
  /** Definitions with a `name`. Their other fields are not checked. */
  readonly tools: readonly Readonly<Record<string, unknown>>[]
  /** Tools of the list that the client could not use. */
  readonly leftOut: readonly { readonly name: string; readonly reason: string }[]
  /** Time when the list was read, ISO 8601. */
  readonly readAt: string
  /**
   * Time from then on in which the list counts as current, in milliseconds: the server's own `ttlMs` (2026-07-28,
   * server/utilities/caching).
   */
  readonly ttlMs: number
}

/**
 * Checks a value from a store. Returns `undefined` for anything that is not a record of this format. Unknown
 * fields are kept. A damaged list of tools is removed, and the rest of the record stays.
 *
 * @example
 * ```ts
 * import { readFile } from 'node:fs/promises'
 * import { sessionRecordFrom } from '@x/mcp-transport'
 *
 * const record = sessionRecordFrom(JSON.parse(await readFile('.mcp/shop.json', 'utf8')))
 * console.log(record?.protocolVersion)
 * ```
 */
export function sessionRecordFrom(value: unknown): SessionRecord | undefined {
  if (!isSessionRecord(value)) return undefined
  if (value.tools === undefined || isStoredTools(value.tools)) return value
  const { tools: _damaged, ...rest } = value
  return rest
}

function isSessionRecord(value: unknown): value is SessionRecord {
  if (!isRecord(value)) return false
  const isAbsentOr = (key: string, isValid: (field: unknown) => boolean): boolean =>
    value[key] === undefined || isValid(value[key])
  return (
    value['v'] === 1 &&
    typeof value['serverUrl'] === 'string' &&
    (value['era'] === 'legacy' || value['era'] === 'modern') &&
    DATES.every((key) => isDate(value[key])) &&
    Number.isSafeInteger(value['epoch']) &&
    isAbsentOr('sessionId', isSessionId) &&
    isAbsentOr('protocolVersion', isVisibleAscii) &&
    isAbsentOr('initializeResult', isInitializeResult) &&
    isAbsentOr('discoverResult', isDiscoverResult) &&
    isAbsentOr('toolHeaders', isToolHeaderMap) &&
    OPTIONAL_STRINGS.every((key) => isAbsentOr(key, isString))
  )
}

function isStoredTools(value: unknown): value is StoredTools {
  if (!isRecord(value)) return false
  const { tools, leftOut, readAt, ttlMs } = value
  return (
    isDate(readAt) &&
    typeof ttlMs === 'number' &&
    ttlMs >= 0 &&
    Array.isArray(tools) &&
    tools.every((tool) => isRecord(tool) && isString(tool['name'])) &&
    Array.isArray(leftOut) &&
    leftOut.every((one) => isRecord(one) && isString(one['name']) && isString(one['reason']))
  )
}

/** Returns whether a value has the required fields of an InitializeResult. */
export function isInitializeResult(value: unknown): value is InitializeResult {
  return isDescription(value) && isString(value['protocolVersion']) && isRecord(value['serverInfo'])
}

/** Returns whether a value has the required fields of a DiscoverResult. */
export function isDiscoverResult(value: unknown): value is DiscoverResult {
  return isDescription(value) && isListOfStrings(value['supportedVersions'])
}

function isDescription(value: unknown): value is ServerDescription {
  if (!isRecord(value) || !isRecord(value['capabilities'])) return false
  return value['instructions'] === undefined || isString(value['instructions'])
}

function isString(value: unknown): value is string {
  return typeof value === 'string'
}

function isListOfStrings(value: unknown): boolean {
  return Array.isArray(value) && value.every(isString)
}

const DATES = ['eraCheckedAt', 'createdAt', 'updatedAt']
const OPTIONAL_STRINGS = ['principal', 'initializeParamsHash']

function isDate(value: unknown): boolean {
  return isString(value) && !Number.isNaN(Date.parse(value))
}

/** A tool argument that is also sent as a header. */
export interface ToolHeader {
  /** Such as `mcp-param-region`. */
  readonly name: string
  /** Property names from the arguments object to the value. */
  readonly path: readonly string[]
}

/** Headers by tool name. */
export type ToolHeaderMap = Readonly<Record<string, readonly ToolHeader[]>>

export function isToolHeaderMap(value: unknown): value is ToolHeaderMap {
  return (
    isRecord(value) &&
    Object.values(value).every((list) => Array.isArray(list) && list.every(isToolHeader))
  )
}

function isToolHeader(value: unknown): value is ToolHeader {
  return (
    isRecord(value) &&
    isString(value['name']) &&
    PARAM_NAME.test(value['name']) &&
    isListOfStrings(value['path'])
  )
}

const PARAM_NAME = /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/

/**
 * Converts a DiscoverResult to the InitializeResult that a legacy client expects. Leaves out tasks.
 *
 * @param protocolVersion version that the client requested, and requires in the answer
 * @param host name for a server that does not name itself
 */
export function toInitializeResult(
  discovered: DiscoverResult,
  { protocolVersion, host }: { readonly protocolVersion: string; readonly host: string },
): InitializeResult {
  const { tasks: _tasks, ...capabilities } = discovered.capabilities
  const { instructions } = discovered
  return {
    protocolVersion,
    capabilities,
    serverInfo: findServerInfo(discovered) ?? { name: host, version: '0' },
    ...(instructions === undefined ? {} : { instructions }),
  }
}

/** In `_meta` (specification), or in the body (older drafts). */
function findServerInfo(discovered: DiscoverResult): InitializeResult['serverInfo'] | undefined {
  const meta = discovered['_meta']
  const candidates = [
    isRecord(meta) ? meta['io.modelcontextprotocol/serverInfo'] : undefined,
    discovered['serverInfo'],
  ]
  return candidates.find(isServerInfo)
}

function isServerInfo(value: unknown): value is InitializeResult['serverInfo'] {
  return isRecord(value) && isString(value['name']) && isString(value['version'])
}

/** Supported revisions with sessions, newest first. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** Supported stateless revisions, newest first. */
export const MODERN_VERSIONS: readonly string[] = ['2026-07-28']

/** Returns the newest supported version that a server offers. */
export function commonVersion(offered: readonly string[]): string | undefined {
  return MODERN_VERSIONS.find((version) => offered.includes(version))
}

/** Returns whether a server offers a revision with sessions: all are dated before 2026. */
export function hasLegacyVersion(offered: readonly string[]): boolean {
  return offered.some((version) => version < '2026')
}

export const HEADER_MISMATCH = -32020
export const MISSING_CAPABILITY = -32021
export const UNSUPPORTED_VERSION = -32022

/** Error codes that only servers of 2026-07-28 use. */
export const MODERN_CODES: readonly number[] = [
  HEADER_MISMATCH,
  MISSING_CAPABILITY,
  UNSUPPORTED_VERSION,
]

/**
 * Returns the versions that a modern server offers in its error to `initialize`. Undefined if the error does
 * not come from a modern server.
 */
export function modernEvidence(error: OpeningError): readonly string[] | undefined {
  const status = TransportError.is(error) ? error.status : undefined
  const { code = 0, data: said } = (TransportError.is(error) ? error.serverError : error) ?? {}
  const isModern = MODERN_CODES.includes(code) || (code === -32601 && status === 404)
  if (!isModern) return undefined
  const supported = isRecord(said) ? said['supported'] : undefined
  return Array.isArray(supported) ? supported.filter(isString) : ['2026-07-28 or newer']
}
