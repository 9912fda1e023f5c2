import { isRecord } from '@x/internal'
import type { JsonRpcResponse } from './json-rpc.ts'
import { TransportError } from './transport-error.ts'

/** The MCP revisions with sessions (`legacy`), or the stateless one of 2026-07-28 (`modern`). */
export type Era = 'legacy' | 'modern'

/** What a server answered to `initialize`. Fields that we do not know are kept. */
export interface InitializeResult {
  readonly protocolVersion: string
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly serverInfo: { readonly name: string; readonly version: string }
  readonly instructions?: string | undefined
  readonly [key: string]: unknown
}

/**
 * What is needed to go on with a server without a handshake. JSON; the field names are public. As
 * large as what the server says of itself: a store that has a limit must say so.
 *
 * A record belongs to one server URL and one principal and is never used for another. After a session
 * was lost, what belonged to the session is gone and the rest stays: the era verdict outlives it.
 */
export interface SessionRecord {
  /** Format of the record. A record with another number is left alone and counts as none. */
  readonly v: 1
  /** The endpoint, without credentials; a query is replaced by a digest, because it may hold a token. */
  readonly serverUrl: string
  /** Whoever the credentials speak for: a name given by the caller, never derived from a token. */
  readonly principal?: string | undefined
  readonly era: Era
  /** When the era was found out, ISO 8601. */
  readonly eraCheckedAt: string
  /** Counts the sessions with this server, from 1. */
  readonly epoch: number
  /** Value of the `Mcp-Session-Id` header, opaque to us. Servers without sessions give none. */
  readonly sessionId?: string | undefined
  /** As negotiated; cannot be learned from later answers, and is needed in every request. */
  readonly protocolVersion?: string | undefined
  readonly initializeResult?: InitializeResult | undefined
  /** What a modern server answered to `server/discover`. */
  readonly discoverResult?: DiscoverResult | undefined
  /** Of a modern server: which arguments of its tools are repeated as headers, by tool name. */
  readonly toolHeaders?: ToolHeaderMap | undefined
  /** Digest of the client's own `initialize` parameters: the server was told *those* capabilities. */
  readonly initializeParamsHash?: string | undefined
  /** Cursor of the listening stream, to receive what was sent while nobody listened. */
  readonly lastEventId?: string | undefined
  /** ISO 8601. */
  readonly createdAt: string
  /** ISO 8601. */
  readonly updatedAt: string
}

/**
 * Checks what came out of a store. Anything that is not a record of this format gives `undefined`:
 * a bad record counts as none. Unknown fields are kept.
 */
export function sessionRecordFrom(value: unknown): SessionRecord | undefined {
  return isSessionRecord(value) ? value : undefined
}

function isSessionRecord(value: unknown): value is SessionRecord {
  return (
    isRecord(value) &&
    value['v'] === 1 &&
    typeof value['serverUrl'] === 'string' &&
    (value['era'] === 'legacy' || value['era'] === 'modern') &&
    DATES.every((key) => isDate(value[key])) &&
    Number.isSafeInteger(value['epoch']) &&
    (value['sessionId'] === undefined || isSessionId(value['sessionId'])) &&
    (value['protocolVersion'] === undefined || isVisibleAscii(value['protocolVersion'])) &&
    (value['initializeResult'] === undefined || isInitializeResult(value['initializeResult'])) &&
    (value['discoverResult'] === undefined || isDiscoverResult(value['discoverResult'])) &&
    (value['toolHeaders'] === undefined || isToolHeaderMap(value['toolHeaders'])) &&
    OPTIONAL_STRINGS.every((key) => value[key] === undefined || typeof value[key] === 'string')
  )
}

/** Whether a value has what the protocol requires of an InitializeResult. */
export function isInitializeResult(value: unknown): value is InitializeResult {
  return (
    isRecord(value) &&
    typeof value['protocolVersion'] === 'string' &&
    isRecord(value['capabilities']) &&
    isRecord(value['serverInfo']) &&
    (value['instructions'] === undefined || typeof value['instructions'] === 'string')
  )
}

const DATES = ['eraCheckedAt', 'createdAt', 'updatedAt']
const OPTIONAL_STRINGS = ['principal', 'initializeParamsHash', 'lastEventId']

function isDate(value: unknown): boolean {
  return typeof value === 'string' && !Number.isNaN(Date.parse(value))
}

/** One argument of a tool that is also sent as a header. */
export interface ToolHeader {
  /** `mcp-param-region` */
  readonly name: string
  /** Property names, from the arguments down. */
  readonly path: readonly string[]
}

/** By tool name. */
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
    typeof value['name'] === 'string' &&
    PARAM_NAME.test(value['name']) &&
    Array.isArray(value['path']) &&
    value['path'].every((key) => typeof key === 'string')
  )
}

const PARAM_NAME = /^mcp-param-[!#$%&'*+.^_`|~0-9a-z-]+$/

/** What a server answered to `server/discover` (2026-07-28, server/discover). Unknown fields are kept. */
export interface DiscoverResult {
  readonly supportedVersions: readonly string[]
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly instructions?: string | undefined
  readonly [key: string]: unknown
}

export function isDiscoverResult(value: unknown): value is DiscoverResult {
  return (
    isRecord(value) &&
    Array.isArray(value['supportedVersions']) &&
    value['supportedVersions'].every((version) => typeof version === 'string') &&
    isRecord(value['capabilities']) &&
    (value['instructions'] === undefined || typeof value['instructions'] === 'string')
  )
}

export interface InitializeView {
  /** The version that the client asked for: it must find it in the answer. */
  readonly protocolVersion: string
  /** Names the server where it does not name itself. */
  readonly host: string
}

/** The same, as a client that knows `initialize` only must see it. Tasks do not exist there. */
export function toInitializeResult(
  discovered: DiscoverResult,
  { protocolVersion, host }: InitializeView,
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

/** In `_meta` by the specification; in the body in older drafts. */
function findServerInfo(discovered: DiscoverResult): InitializeResult['serverInfo'] | undefined {
  const meta = discovered['_meta']
  const candidates = [
    isRecord(meta) ? meta['io.modelcontextprotocol/serverInfo'] : undefined,
    discovered['serverInfo'],
  ]
  return candidates.find(isServerInfo)
}

function isServerInfo(value: unknown): value is InitializeResult['serverInfo'] {
  return (
    isRecord(value) && typeof value['name'] === 'string' && typeof value['version'] === 'string'
  )
}

/** The revisions with sessions that this transport speaks; newest first. */
export const LEGACY_VERSIONS: readonly string[] = ['2025-11-25', '2025-06-18', '2025-03-26']

/** The stateless revisions that this transport speaks; newest first. */
export const MODERN_VERSIONS: readonly string[] = ['2026-07-28']

/** The newest of a server's versions that we speak. */
export function commonVersion(offered: readonly string[]): string | undefined {
  return MODERN_VERSIONS.find((version) => offered.includes(version))
}

/** Whether a server offers any revision with sessions: they are dates before 2026. */
export function hasLegacyVersion(offered: readonly string[]): boolean {
  return offered.some((version) => version < '2026')
}

/** Codes that only servers of 2026-07-28 give: header mismatch, missing capability, unsupported version. */
export const MODERN_CODES: readonly number[] = [-32020, -32021, -32022]

export const UNSUPPORTED_VERSION = -32022

/**
 * Signs of a modern server in its answer to `initialize`: the versions that it offers, as far as it said
 * them. `undefined` if there are none.
 */
export function modernEvidence(answer: JsonRpcResponse): readonly string[] | undefined {
  if ('result' in answer) return undefined
  const { code, data } = answer.error
  const status = TransportError.is(data) ? data.status : undefined
  const isModern = MODERN_CODES.includes(code) || (code === -32601 && status === 404)
  if (!isModern) return undefined
  const said = TransportError.is(data) ? data.serverError?.data : data
  const supported = isRecord(said) ? said['supported'] : undefined
  return Array.isArray(supported)
    ? supported.filter((version) => typeof version === 'string')
    : ['2026-07-28 or newer']
}

const MAX_LENGTH = 1024
const VISIBLE_ASCII = /^[\x21-\x7E]+$/

/** Whether a value may be used as `Mcp-Session-Id`: visible ASCII (specification), at most 1 KiB (ours). */
export function isSessionId(value: unknown): value is string {
  return isVisibleAscii(value) && value.length <= MAX_LENGTH
}

/** Whether a value may stand in a header as it is. */
function isVisibleAscii(value: unknown): value is string {
  return typeof value === 'string' && VISIBLE_ASCII.test(value)
}

/** A session id as it may stand in a log, an error or an event: `ab12…(36)`. */
export function shortSessionId(id: string): string {
  return `${id.slice(0, 4)}…(${id.length})`
}
